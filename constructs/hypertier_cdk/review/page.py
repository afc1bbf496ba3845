"""The review as one page: Markdown to read, JSON to compare, and the few lines that `cdk synth` prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hypertier.catalog.prices import PRICES, PriceTable
from hypertier.planning.quotas import Quota
from hypertier_cdk.review.access import BroadStatement, ManagedPolicy, broad_statements, managed_policies
from hypertier_cdk.review.bill import Bill, BillLine, bill_of
from hypertier_cdk.review.encryption import Encryption, encryption_of
from hypertier_cdk.review.exposure import exposed, outbound
from hypertier_cdk.review.immutables import Immutable, immutables_of
from hypertier_cdk.review.installed import Installed, installed_in
from hypertier_cdk.review.picture import picture_of
from hypertier_cdk.review.pulled import pulled_in
from hypertier_cdk.review.quotas import quotas_of
from hypertier_cdk.review.templates import Assembly, read_assembly
from hypertier_cdk.review.unseen import unseen_in

MARKDOWN, JSON, PICTURE = "review.md", "review.json", "review.svg"


@dataclass(frozen=True, slots=True)
class Review:
    """Everything that a reviewer who never deploys needs to decide."""

    name: str
    stacks: tuple[str, ...]
    num_resources: int
    bill: Bill
    broad: tuple[BroadStatement, ...]
    managed: tuple[ManagedPolicy, ...]
    encryption: tuple[Encryption, ...]
    exposed: tuple[str, ...]
    outbound: tuple[str, ...]
    installed: tuple[Installed, ...]
    pulled: tuple[str, ...]
    immutables: tuple[Immutable, ...]
    quotas: tuple[Quota, ...]
    unseen: tuple[str, ...]
    picture: str


def review_of(
    name: str, assembly: Assembly, region: str, prices: PriceTable = PRICES, num_custom_metrics: int = 0
) -> Review:
    """Read `assembly`, deployed in `region`, as the reviewer of deployment `name` would."""
    return Review(
        name=name,
        stacks=assembly.stacks,
        num_resources=len(assembly.resources),
        bill=bill_of(assembly, region, prices, num_custom_metrics),
        broad=broad_statements(assembly),
        managed=managed_policies(assembly),
        encryption=encryption_of(assembly),
        exposed=exposed(assembly),
        outbound=outbound(assembly),
        installed=installed_in(assembly),
        pulled=pulled_in(assembly),
        immutables=immutables_of(assembly),
        quotas=quotas_of(assembly),
        unseen=unseen_in(assembly),
        picture=picture_of(assembly),
    )


def write_review(
    directory: Path | str,
    name: str,
    region: str,
    prices: PriceTable = PRICES,
    num_custom_metrics: int = 0,
) -> Review:
    """Review the cloud assembly in `directory` and write review.md, review.json and review.svg beside it."""
    root = Path(directory)
    review = review_of(name, read_assembly(root), region, prices, num_custom_metrics)
    (root / MARKDOWN).write_text(to_markdown(review), encoding="utf-8")
    (root / JSON).write_text(json.dumps(to_json(review), indent=2) + "\n", encoding="utf-8")
    (root / PICTURE).write_text(review.picture, encoding="utf-8")
    return review


def to_json(review: Review) -> dict[str, Any]:
    """The review as plain values; prices with their source and ISO date, unknown ones as null."""
    return {
        "name": review.name,
        "stacks": list(review.stacks),
        "resources": review.num_resources,
        "bill": {
            "region": review.bill.region,
            "known_usd_per_hour": round(review.bill.known_usd_per_hour, 4),
            "known_usd_per_month": round(review.bill.known_usd_per_month, 2),
            "unknown": list(review.bill.unknown),
            "lines": [_line_json(line) for line in review.bill.lines],
            "by_usage": [list(entry) for entry in review.bill.by_usage],
        },
        "broad_statements": [asdict(statement) for statement in review.broad],
        "managed_policies": [asdict(policy) for policy in review.managed],
        "encryption": [asdict(entry) for entry in review.encryption],
        "public": list(review.exposed),
        "outbound": list(review.outbound),
        "installed": [asdict(entry) for entry in review.installed],
        "pulled_ahead": list(review.pulled),
        "immutables": [asdict(entry) for entry in review.immutables],
        "quotas": [asdict(quota) for quota in review.quotas],
        "not_seen": list(review.unseen),
    }


def to_markdown(review: Review) -> str:
    """The whole page."""
    bill = review.bill
    return "\n".join(
        [
            f"# Review of {review.name}",
            "",
            f"{len(review.stacks)} stacks ({', '.join(review.stacks)}), {review.num_resources} resources, "
            f"region {bill.region}.",
            "",
            f"![Architecture]({PICTURE})",
            "",
            "## Bill",
            "",
            _total(bill),
            "",
            *_table(
                ("What", "Number", "USD per hour", "USD per month", "Price read", "Source", "Note"),
                [
                    (
                        line.item,
                        f"{line.quantity} {line.unit}".strip(),
                        _usd(line.usd_per_hour, 4),
                        _usd(line.usd_per_month, 2),
                        line.price.read_on.isoformat() if line.price else "",
                        line.price.source if line.price else "",
                        line.note,
                    )
                    for line in bill.lines
                ],
            ),
            "",
            "Paid by usage: "
            + (
                "; ".join(f"{count} x {kind} ({meaning})" for kind, meaning, count in bill.by_usage)
                or "nothing"
            )
            + ". Data transfer between zones is paid by the byte.",
            "",
            "## Access broader than one resource",
            "",
            *_table(
                ("Stack", "Who", "Actions", "On", "Narrowed by"),
                [
                    (
                        entry.stack,
                        entry.holder,
                        ", ".join(entry.actions),
                        ", ".join(entry.resources),
                        entry.conditions,
                    )
                    for entry in review.broad
                ],
            ),
            "",
            "Policies that AWS wrote:",
            "",
            *_table(
                ("Stack", "Who", "Policy"),
                [(entry.stack, entry.holder, entry.name) for entry in review.managed],
            ),
            "",
            "## Encryption",
            "",
            *_table(
                ("Stack", "What", "At rest", "In transit"),
                [(entry.stack, entry.what, entry.at_rest, entry.in_transit) for entry in review.encryption],
            ),
            "",
            "## Public",
            "",
            *(_items(review.exposed) or ["Nothing can be reached from the internet."]),
            "",
            *(_items(review.outbound) or ["Nothing reaches the internet."]),
            "",
            "## Installed into the cluster",
            "",
            *_table(
                ("Stack", "What", "Version", "From"),
                [(entry.stack, entry.name, entry.version, entry.source) for entry in review.installed],
            ),
            "",
            _sentence(_pulled(review)),
            "",
            "## Cannot change once deployed",
            "",
            *_table(
                ("Stack", "What", "Properties", "To know"),
                [
                    (entry.stack, entry.what, ", ".join(entry.properties), entry.note)
                    for entry in review.immutables
                ],
            ),
            "",
            "## Quotas to ask for",
            "",
            *_table(
                ("Service", "Quota", "Needed"),
                [(quota.service, quota.name, str(quota.needed)) for quota in review.quotas],
            ),
            "",
            "## Not seen",
            "",
            *(_items(review.unseen) or ["Nothing that exists already is used."]),
            "",
        ]
    )


def to_text(review: Review, directory: Path | str) -> str:
    """The short form: what decides, and where the page is."""
    charts = [entry for entry in review.installed if entry.source != "EKS"]
    open_ones = [entry.what for entry in review.encryption if entry.is_open]
    rows = [
        ("bill", _total(review.bill)),
        (
            "access",
            f"{len(review.broad)} statements broader than one resource, {len(review.managed)} AWS policies",
        ),
        (
            "encryption",
            f"{len(review.encryption)} stores of data, not encrypted: {', '.join(open_ones) or 'none'}",
        ),
        ("public", "; ".join(review.exposed) or "nothing can be reached from the internet"),
        ("outbound", f"{len(review.outbound)} ways out to the internet"),
        ("installed", ", ".join(f"{entry.name} {entry.version}" for entry in charts) or "no Helm chart"),
        ("images", _pulled(review)),
        ("fixed", f"{len(review.immutables)} things can't change once deployed"),
        ("quotas", "; ".join(f"{quota.name}: {quota.needed}" for quota in review.quotas) or "none"),
        *([("not seen", f"{len(review.unseen)} things that exist already")] if review.unseen else []),
        ("page", str(Path(directory) / MARKDOWN)),
    ]
    head = f"Review of {review.name}: {len(review.stacks)} stacks, {review.num_resources} resources"
    return "\n".join([head, *(f"  {name:<11} {value}" for name, value in rows)])


def _pulled(review: Review) -> str:
    if not review.pulled:
        return "nodes get an engine's image when the engine comes"
    return f"nodes of {', '.join(review.pulled)} get the engines' image ahead of them (images.prePull)"


def _sentence(said: str) -> str:
    """Names in it stay as they are written."""
    return f"{said[0].upper()}{said[1:]}."


def _total(bill: Bill) -> str:
    known = f"{_usd(bill.known_usd_per_hour, 2)} USD per hour, {_usd(bill.known_usd_per_month, 2)} per month"
    if not bill.unknown:
        return f"{known}, and usage"
    return f"unknown for {', '.join(dict.fromkeys(bill.unknown))}; the rest {known}, and usage"


def _usd(value: float | None, digits: int) -> str:
    return "unknown" if value is None else f"{value:,.{digits}f}"


def _line_json(line: BillLine) -> dict[str, Any]:
    return {
        "item": line.item,
        "quantity": line.quantity,
        "unit": line.unit,
        "usd_per_hour": line.usd_per_hour,
        "usd_per_month": line.usd_per_month,
        "source": line.price.source if line.price else None,
        "read_on": line.price.read_on.isoformat() if line.price else None,
        "note": line.note,
    }


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if not rows:
        yield "None."
        return
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"


def _items(entries: Sequence[str]) -> list[str]:
    return [f"- {entry}" for entry in entries]
