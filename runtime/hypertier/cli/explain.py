"""`hypertier explain`: which replica a request went to, or would go to, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import click

from hypertier.errors import ConfigError, ExplainError, HttpError
from hypertier.http_client import ask_url

TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 64 * 2**20
MAX_TOLD = 100


@click.command(
    "explain", epilog="Example: hypertier explain --router http://127.0.0.1:9090 chatcmpl-request-7"
)
@click.argument("request_id", required=False)
@click.option(
    "--router",
    default="http://127.0.0.1:9090",
    show_default=True,
    help="http://HOST:PORT of a router's --metrics-port.",
)
@click.option(
    "--request",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A request's body.",
)
@click.option(
    "--path", default="/v1/chat/completions", show_default=True, help="The path that it would be sent to."
)
@click.option("--tenant", help="Whose request it would be, where routers ask for keys.")
@click.option("--last", default=20, show_default=True, help="How many of the latest, 1 to 100.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    request_id: str | None,
    router: str,
    file: Path | None,
    path: str,
    tenant: str | None,
    last: int,
    form: str,
) -> None:
    """Say where the request of REQUEST_ID (its x-request-id) went, or where the one in a file would go.

    Without either, the latest requests.
    """
    if request_id is not None and file is not None:
        raise ConfigError("--request", str(file), "either an x-request-id or --request, not both")
    if request_id is not None and "://" in request_id:
        raise ConfigError("REQUEST_ID", request_id, "an x-request-id; where the router is, --router says")
    if not 1 <= last <= MAX_TOLD:
        raise ConfigError("--last", last, f"1 to {MAX_TOLD}, which is what a router tells")
    if file is not None:
        whose = "" if tenant is None else f"&tenant={quote(tenant, safe='')}"
        told = [_ask(router, "POST", f"/explain?path={quote(path)}{whose}", file.read_bytes())]
    else:
        wanted = "" if request_id is None else f"?id={quote(request_id)}"
        answer = _ask(router, "GET", f"/decisions{wanted}", None)
        told = answer.get("decisions", [])[:last] if isinstance(answer, dict) else []
    if not told:
        which = "yet" if request_id is None else f"{request_id}; it keeps the latest 1,024"
        raise ExplainError(f"{router} knows no request {which}")
    if form == "json":
        click.echo(json.dumps(told))
        return
    for decision in told:
        click.echo(_lines(decision))


def _ask(router: str, method: str, target: str, body: bytes | None) -> Any:
    parts = urlsplit(router)
    if parts.scheme != "http" or not parts.hostname:
        raise ConfigError("--router", router, "http://HOST:PORT of a router's --metrics-port")
    try:
        status, answer = ask_url(
            f"http://{parts.netloc}{target}",
            method=method,
            body=body,
            timeout_seconds=TIMEOUT_SECONDS,
            max_bytes=MAX_ANSWER_BYTES,
        )
    except HttpError as error:
        raise ExplainError(
            f"{router} {error}: is a router's --metrics-port there? --router says where else"
        ) from error
    if status != 200:
        raise ExplainError(f"{router} answered {status}: is it a router's --metrics-port?")
    try:
        return json.loads(answer)
    except ValueError as error:
        raise ExplainError(f"{router} answered no JSON: is it a router's --metrics-port?") from error


def _lines(decision: dict[str, Any]) -> str:
    """One decision, for people."""
    replica, reason = decision["replica"], decision["reason"]
    status = decision.get("status", "2xx")  # none of a request that was not sent
    lines = [
        decision.get("request_id", "this request")
        + (": no replica" if replica is None else f": {replica}")
        + ("" if reason is None else f" ({reason})")
        + ("" if status == "2xx" else f", ended as {status}")
    ]
    if replica is not None:
        lines.append(
            f"  {decision['matched_bytes']} of {decision['prompt_bytes']} prompt bytes believed cached there"
            + (
                f"; {decision['cached_tokens']} tokens were"
                if decision.get("cached_tokens") is not None
                else ""
            )
        )
    predicted, real = decision.get("predicted_ttft_seconds"), decision.get("ttft_seconds")
    if predicted is not None or real is not None:
        was = f", was {_seconds(real)}" if "request_id" in decision else ""
        lines.append(f"  first byte: predicted {_seconds(predicted)}{was}")
    wrote = [left["replica"] for left in decision.get("broke_off", ())]
    lines += [
        f"  before, {one} gave no answer" for one in decision.get("tried_before", ()) if one not in wrote
    ]
    for left in decision.get("broke_off", ()):
        lines.append(
            f"  before, {left['replica']} ({left['reason']}) wrote a part, and broke off after "
            f"{_seconds(left['seconds'])} ({left['cause']})"
        )
    prefill = decision.get("prefill")
    if prefill is not None:
        lines.append(
            f"  prefilled by {prefill['replica']} ({prefill['end']}): "
            f"predicted {_seconds(prefill['predicted_seconds'])}, was {_seconds(prefill['seconds'])}"
        )
    for other in decision.get("candidates", ()):
        lines.append(
            f"  {other['replica']}: {other['matched_bytes']} bytes, {other['in_flight']} in flight, "
            f"predicted {_seconds(other['predicted_ttft_seconds'])}"
            + (f"; KV events {other['kv_events']}" if other.get("kv_events") else "")
        )
    return "\n".join(lines)


def _seconds(number: float | None) -> str:
    return "unknown" if number is None else f"{number:.3f} s"
