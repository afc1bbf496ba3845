"""Everything that differs between the rendered endpoint and the lab, declared once and printed at start.

What stands in no list here is not understood, and the lab refuses to start rather than to guess.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypertier.errors import ConfigError
from hypertier.lab.arguments import Option, edit_json

MIB = 2**20
SECRET = "***"
SHOWN_CHARACTERS = 30
LEFT_OUT = "left out by --without"


@dataclass(frozen=True)
class Place:
    """Where one process of the lab runs. Ports are on 127.0.0.1."""

    port: int
    model_directory: str = ""
    served_model_name: str = ""
    l1_bytes: int = 128 * MIB
    kv_cache_bytes: int = 128 * MIB
    max_model_len: int = 8192
    l2_port: int = 0
    l2_password: str = field(default="", repr=False)
    replica_urls: tuple[str, ...] = ()
    metrics_port: int = 0


@dataclass(frozen=True)
class Rule:
    """One difference. `here` is a template over the fields of `Place`, `""` a flag, None removes it.

    `--option.a.0.b` names a member of an option's JSON value. With `only_if_set` nothing is added that the
    manifest does not have. `numeric` makes a JSON member a number.
    """

    setting: str
    here: str | None
    why: str
    only_if_set: bool = False
    numeric: bool = False


@dataclass(frozen=True)
class Difference:
    """A line of the table: a setting, its value in the manifest and here; None means that it is not set."""

    setting: str
    rendered: str | None
    here: str | None
    why: str


@dataclass(frozen=True)
class Overlay:
    """The rules for one kind of process, and what is kept as rendered."""

    options: tuple[Rule, ...]
    kept_options: frozenset[str]
    env: tuple[Rule, ...]
    kept_env: frozenset[str]

    def without(self, names: Collection[str]) -> Overlay:
        """Leave further options (`--name`) and variables out, whatever the rules said of them."""
        return Overlay(
            options=rules_without(self.options, [name for name in names if name.startswith("-")]),
            kept_options=self.kept_options - frozenset(names),
            env=rules_without(self.env, [name for name in names if not name.startswith("-")]),
            kept_env=self.kept_env - frozenset(names),
        )


def rules_without(rules: Iterable[Rule], names: Sequence[str]) -> tuple[Rule, ...]:
    """Replace the rules for these settings by ones that remove them."""
    others = (rule for rule in rules if rule.setting.partition(".")[0] not in names)
    return (*others, *(Rule(name, None, LEFT_OUT, only_if_set=True) for name in names))


NO_GPU = "there is no GPU here"
ONE_MACHINE = "everything runs on this machine, on 127.0.0.1"
SMALL_MACHINE = "two engines share a small machine's memory"

TIERS = "--kv-transfer-config.kv_connector_extra_config"
ENGINE = Overlay(
    options=(
        Rule("--served-model-name", "{served_model_name}", "clients keep the name they know"),
        Rule("--tensor-parallel-size", "1", NO_GPU + " to split the model over"),
        Rule("--max-model-len", "{max_model_len}", SMALL_MACHINE),
        Rule("--dtype", "float32", "CPUs compute float32; bfloat16 would be emulated"),
        Rule("--enforce-eager", "", "CUDA graphs and compilation do nothing for a CPU of this size"),
        Rule("--block-size", "128", "vLLM's blocks on CPUs are multiples of 32 tokens"),
        Rule("--kv-cache-memory-bytes", "{kv_cache_bytes}", SMALL_MACHINE),
        Rule("--gpu-memory-utilization", None, NO_GPU, only_if_set=True),
        Rule("--distributed-executor-backend", "uni", "one process per engine less to start"),
        Rule("--enable-prompt-tokens-details", "", "answers tell how many tokens came from a cache"),
        Rule("--host", "127.0.0.1", ONE_MACHINE),
        Rule("--port", "{port}", ONE_MACHINE),
        Rule("--kv-events-config", None, "nobody listens for KV events here", only_if_set=True),
        Rule("--pipeline-parallel-size", None, NO_GPU, only_if_set=True),
        Rule("--data-parallel-size", None, NO_GPU, only_if_set=True),
        Rule("--enable-expert-parallel", None, NO_GPU, only_if_set=True),
        Rule("--attention-backend", None, NO_GPU, only_if_set=True),
        Rule("--compilation-config", None, NO_GPU, only_if_set=True),
        Rule("--quantization", None, "the small model is not quantized", only_if_set=True),
        Rule("--kv-cache-dtype", None, "CPUs keep KV in the model's type", only_if_set=True),
        Rule("--load-format", None, "the small model is a file on this disk", only_if_set=True),
        Rule("--model-loader-extra-config", None, "the small model is a file on this disk", only_if_set=True),
        Rule("--revision", None, "the small model has none", only_if_set=True),
        Rule("--tokenizer", None, "the small model brings its own", only_if_set=True),
        Rule("--chat-template", None, "the small model brings its own", only_if_set=True),
        Rule("--max-num-seqs", "8", SMALL_MACHINE),
        Rule("--max-num-batched-tokens", "{max_model_len}", SMALL_MACHINE),
        Rule(f"{TIERS}.spec_name", "PortableTieringSpec", "vLLM's own spec copies with CUDA alone"),
        Rule(f"{TIERS}.spec_module_path", "hypertier.tier.spec", "vLLM's own spec copies with CUDA alone"),
        Rule(f"{TIERS}.cpu_bytes_to_use", "{l1_bytes}", SMALL_MACHINE, numeric=True),
        Rule(f"{TIERS}.blocks_per_chunk", "1", "a block of 128 tokens is chunk enough", numeric=True),
        Rule(
            f"{TIERS}.secondary_tiers.0.lookup_deadline_ms",
            "2000",
            "engines, router and Valkey share a few slow cores",
            numeric=True,
        ),
        Rule(
            f"{TIERS}.secondary_tiers.0.io_timeout_ms",
            "5000",
            "engines, router and Valkey share a few slow cores",
            numeric=True,
        ),
    ),
    kept_options=frozenset(
        {
            "--api-server-count",
            "--disable-access-log-for-endpoints",
            "--disable-log-stats",
            "--disable-uvicorn-access-log",
            "--enable-auto-tool-choice",
            "--enable-chunked-prefill",
            "--enable-force-include-usage",
            "--enable-log-requests",
            "--enable-prefix-caching",
            "--enable-request-id-headers",
            "--generation-config",
            "--max-log-len",
            "--no-enable-log-requests",
            "--override-generation-config",
            "--kv-transfer-config",
            "--prefix-caching-hash-algo",
            "--scheduling-policy",
            "--seed",
            "--shutdown-timeout",
            "--tool-call-parser",
            "--trust-remote-code",
            "--uvicorn-log-level",
        }
    ),
    env=(
        Rule("HYPERTIER_L2_URL", "redis://127.0.0.1:{l2_port}", "an embedded Valkey, without TLS", True),
        Rule("HYPERTIER_L2_SECRET_ARN", None, "no AWS here: the password is made up at start", True),
        Rule("HYPERTIER_L2_USERNAME", None, "Valkey's default user", True),
        Rule("HYPERTIER_L2_PASSWORD", "{l2_password}", "made up at start"),
        Rule("POD_IP", "127.0.0.1", ONE_MACHINE, True),
        Rule("POD_NAME", "lab", ONE_MACHINE, True),
        Rule("POD_NAMESPACE", "lab", ONE_MACHINE, True),
        Rule("NODE_NAME", "localhost", ONE_MACHINE, True),
        Rule("HF_TOKEN", None, "nothing is downloaded", True),
        Rule("HF_HUB_OFFLINE", "1", "nothing is downloaded"),
        Rule("TRANSFORMERS_OFFLINE", "1", "nothing is downloaded"),
        Rule("VLLM_NO_USAGE_STATS", "1", "nothing is sent anywhere"),
        Rule("DO_NOT_TRACK", "1", "nothing is sent anywhere"),
        Rule("OMP_NUM_THREADS", "1", "one core per engine; more threads would wait for each other"),
        Rule("VLLM_ENABLE_V1_MULTIPROCESSING", "0", "one process per engine less to start"),
        Rule("VLLM_SERVER_DEV_MODE", "1", "POST /reset_prefix_cache, to show what L1 does"),
        Rule("NCCL_DEBUG", None, NO_GPU, True),
        Rule("NVIDIA_VISIBLE_DEVICES", None, NO_GPU, True),
        Rule("NVIDIA_DRIVER_CAPABILITIES", None, NO_GPU, True),
        Rule("CUDA_VISIBLE_DEVICES", None, NO_GPU, True),
    ),
    kept_env=frozenset(
        {
            "PYTHONHASHSEED",
            "PYTHONUNBUFFERED",
            "VLLM_LOGGING_LEVEL",
            "AWS_REGION",
            "AWS_DEFAULT_REGION",
            "HOME",
        }
        | {"HF_HOME", "VLLM_CACHE_ROOT", "XDG_CACHE_HOME", "TMPDIR"}
    ),
)

ROUTER = Overlay(
    options=(
        Rule("--listen", "127.0.0.1:{port}", ONE_MACHINE),
        Rule("--discover", None, "there is no DNS of a cluster here; the replicas are named", True),
        Rule("--metrics-port", "{metrics_port}", ONE_MACHINE, True),
        Rule("--explain", "", "answers tell which replica served them"),
        Rule("--lameduck-seconds", "0", "no load balancer has to notice that the router leaves", True),
        Rule("--drain-seconds", "5", "nobody waits for long answers here"),
    ),
    kept_options=frozenset(
        {"--strategy", "--session-key", "--retries", "--max-body-bytes", "--max-head-bytes"}
        | {"--max-buffered-bytes", "--index-bytes", "--connect-timeout", "--response-timeout"}
        | {"--read-timeout", "--idle-timeout", "--health-interval", "--health-timeout"}
    ),
    env=(
        Rule("POD_IP", "127.0.0.1", ONE_MACHINE, True),
        Rule("POD_NAME", "lab", ONE_MACHINE, True),
        Rule("POD_NAMESPACE", "lab", ONE_MACHINE, True),
    ),
    kept_env=frozenset({"PYTHONUNBUFFERED", "PYTHONHASHSEED", "AWS_REGION", "AWS_DEFAULT_REGION"}),
)


def lay_over_options(
    overlay: Overlay, options: Sequence[Option], place: Place, container: str
) -> tuple[tuple[Option, ...], list[Difference]]:
    """Apply the rules to a container's options, in their order; what is added comes last.

    Raises:
        ConfigError: an option that no rule and no list knows.
    """
    rules = {rule.setting: rule for rule in overlay.options if "." not in rule.setting}
    known = overlay.kept_options | rules.keys()
    for option in options:
        if option.name not in known:
            raise not_understood(f"{container}: {option.name}", option.text, option.name)
    result = list(options)
    differences: list[Difference] = []
    for rule in overlay.options:
        name, *path = rule.setting.split(".")
        here = None if rule.here is None else rule.here.format_map(vars(place))
        given = [option for option in result if option.name == name]
        if path:
            if given:
                value: Any = int(here) if rule.numeric and here is not None else here
                text, old = edit_json(name, given[-1].text, path, value)
                result[result.index(given[-1])] = Option(name, (text,))
                if text != given[-1].text:
                    note(differences, rule, old, here)
            continue
        if rule.only_if_set and not given:
            continue
        wanted = None if here is None else Option(name, (here,) if here else ())
        if given == [wanted]:
            continue
        note(differences, rule, given[-1].text if given else None, here)
        place_of = result.index(given[0]) if given else len(result)
        result = [option for option in result if option.name != name]
        if wanted is not None:
            result.insert(min(place_of, len(result)), wanted)
    return tuple(result), differences


def lay_over_env(
    overlay: Overlay, env: Mapping[str, str | None], place: Place, container: str
) -> tuple[dict[str, str], list[Difference]]:
    """Apply the rules to a container's environment; a value of None comes from the cluster and needs a rule.

    Raises:
        ConfigError: a variable that no rule and no list knows, or one that only the cluster can fill.
    """
    rules = {rule.setting: rule for rule in overlay.env}
    known = overlay.kept_env | rules.keys()
    for name, value in env.items():
        if name not in known:
            got = "from the cluster" if value is None else SECRET  # it may be one
            raise not_understood(f"{container}: env {name}", got, name)
        if value is None and name not in rules:
            raise not_understood(f"{container}: env {name}", "from the cluster", name)
    result = {name: value for name, value in env.items() if value is not None}
    differences: list[Difference] = []
    for rule in overlay.env:
        if rule.only_if_set and rule.setting not in env:
            continue
        here = None if rule.here is None else rule.here.format_map(vars(place)) or None
        rendered = env.get(rule.setting, None) if rule.setting in env else None
        if rule.setting in env and rendered is None:
            rendered = "from the cluster"
        if here is None:
            result.pop(rule.setting, None)
        else:
            result[rule.setting] = here
        if here != rendered:
            note(differences, rule, rendered, here)
    return result, differences


def note(differences: list[Difference], rule: Rule, rendered: str | None, here: str | None) -> None:
    """Add a line to the table; passwords are blotted out."""
    if here and "PASSWORD" in rule.setting:
        here = SECRET
    differences.append(Difference(rule.setting, rendered, here, rule.why))


def not_understood(setting: str, got: str | None, name: str) -> ConfigError:
    """The error for what stands in no list."""
    return ConfigError(
        setting,
        got,
        "nothing, or a setting that the lab knows how to carry over to this machine "
        f"(docs/lab.md): leave it out with --without {name}",
    )


def table(differences: Sequence[Difference]) -> list[str]:
    """Lay out the differences as lines, one a setting; equal lines of several processes are merged."""
    rows = [("setting", "in the manifest", "here", "why")]
    for difference in differences:
        row = (
            shown_setting(difference.setting),
            shown(difference.rendered),
            shown(difference.here),
            difference.why,
        )
        if row not in rows:
            rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*(row[i].ljust(widths[i]) for i in range(3)), row[3]]) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in (*widths, 3)))
    return lines


def summary(differences: Sequence[Difference], width: int) -> list[str]:
    """What the manifests set and is another here, in few lines: a reason, then the settings it changes."""
    by_reason: dict[str, dict[str, str]] = {}
    for each in differences:
        if each.rendered is not None:
            name = each.setting.rpartition(".")[2] or each.setting
            change = f"{name} {shown(each.rendered)} -> {shown(each.here)}"
            by_reason.setdefault(each.why, {}).setdefault(name, change)
    lines = []
    for reason, changes in by_reason.items():
        text = f"{', '.join(changes.values())}: {reason}"
        lines += textwrap.wrap(text, width, subsequent_indent="    ", break_on_hyphens=False)
    return lines


def shown_setting(setting: str) -> str:
    """A setting in the table: of a member of an option's JSON, the option and the last name."""
    option, *path = setting.split(".")
    return f"{option} ...{path[-1]}" if path else setting


def shown(value: str | None) -> str:
    """A value in the table: a dash where it is not set, `on` for a flag, cut where it is long."""
    if value is None:
        return "-"
    if value == "":
        return "on"
    return value if len(value) <= SHOWN_CHARACTERS else f"...{value[3 - SHOWN_CHARACTERS :]}"
