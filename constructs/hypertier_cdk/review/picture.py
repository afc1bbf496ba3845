"""The architecture as an SVG picture, drawn from the templates: what is not deployed is not drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from hypertier_cdk.review.kubernetes import objects_of, of_kind
from hypertier_cdk.review.templates import Assembly

_WIDTH, _HEIGHT = 1420, 560
_BOX_WIDTH, _BOX_HEIGHT = 210, 84
_OUTSIDE = 1190  # what AWS runs, right of the VPC
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2933}.t{font-weight:600}.s{font-size:11px;fill:#52606d}"
    ".b{fill:#fff;stroke:#3e4c59;stroke-width:1.2}.z{fill:#f5f7fa;stroke:#9aa5b1;stroke-dasharray:6 4}"
    ".a{stroke:#3e4c59;stroke-width:1.4;fill:none;marker-end:url(#arrow)}"
)


@dataclass(frozen=True, slots=True)
class Box:
    """One part: where its left upper corner is, its name, and up to three lines about it."""

    key: str
    x: int
    y: int
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Zone:
    """A frame around boxes."""

    x: int
    y: int
    width: int
    height: int
    title: str


ENGINES = ("engine", "prefill", "decode")
ARROWS = (
    ("client", "router", "HTTP"),
    ("router", "engines", "picks a replica"),
    ("client", "operator", "HTTPS"),
    ("operator", "engines", "runs"),
    ("engines", "l2", "TLS"),
    ("verify", "router", "a prompt, twice"),
    ("engines", "exporter", "/metrics"),
    ("exporter", "alarms", "CloudWatch"),
    ("alarms", "hook", "ALARM"),
    ("hook", "engines", "replicas"),
    ("nodes", "engines", "runs"),
)


def picture_of(assembly: Assembly) -> str:
    """One SVG document of 1420 by 560; text only, no scripts, no outside references."""
    boxes = tuple(_boxes(assembly))
    by_key = {box.key: box for box in boxes}
    parts = [_zone(zone) for zone in _zones(assembly)]
    parts += [
        _arrow(by_key[start], by_key[end], label)
        for start, end, label in ARROWS
        if start in by_key and end in by_key
    ]
    parts += [_box(box) for box in boxes]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="Architecture of {escape(", ".join(assembly.stacks))}"><style>{_STYLE}</style>'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#3e4c59"/></marker></defs>'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _boxes(assembly: Assembly) -> Iterator[Box]:
    objects = objects_of(assembly)
    deployments = of_kind(objects, "Deployment")
    endpoints = of_kind(objects, "InferenceEndpointConfig")
    yield Box("client", 20, 200, "Client", ("OpenAI's HTTP API",))
    for name, key, x, y in (("router", "router", 320, 200), ("exporter", "exporter", 640, 60)):
        found = [entry for entry in deployments if _component(entry) == name]
        if found:
            yield Box(
                key,
                x,
                y,
                name.capitalize(),
                tuple(_replicas(entry["spec"].get("replicas")) for entry in found),
            )
    jobs = of_kind(objects, "CronJob")
    if jobs:
        often = f"cron {jobs[0]['spec']['schedule']}"
        yield Box("verify", 320, 60, "Verification", (often, "outcome to CloudWatch"))
    engines = [entry for entry in deployments if _component(entry) in ENGINES]
    if engines or endpoints:
        lines = tuple(
            f"{entry['metadata']['name']}: {_replicas(entry['spec'].get('replicas'))}"
            for entry in (*engines, *endpoints)
        )
        yield Box("engines", 640, 200, "vLLM, L1 in host memory", lines[:3])
    if endpoints:
        yield Box("operator", 320, 200, "HyperPod operator", ("router, load balancer",))
    clusters = assembly.of_type("AWS::SageMaker::Cluster")
    groups = [group for cluster in clusters for group in cluster.get("InstanceGroups", default=())]
    if groups:
        yield Box("nodes", 640, 400, "HyperPod nodes", tuple(map(_group, groups))[:3])
    for store in assembly.of_type("AWS::ElastiCache::ReplicationGroup"):
        shards = store.get("NumNodeGroups", default=1)
        yield Box("l2", 900, 340, "L2: Valkey", (f"{shards} shards of {store.get('CacheNodeType')}",))
    alarms = assembly.of_type("AWS::CloudWatch::Alarm")
    if alarms:
        yield Box("alarms", _OUTSIDE, 60, "CloudWatch", (f"{len(alarms)} alarms",))
    functions = assembly.of_type("AWS::Lambda::Function")
    hooks = [function for function in functions if "replicas.handler" in str(function.get("Handler"))]
    if hooks:
        # Lambda's own network, unless the function was put into the VPC.
        x = 900 if all(hook.get("VpcConfig") for hook in hooks) else _OUTSIDE
        stepped = sorted(str(hook.get("Environment", "Variables", "DEPLOYMENT")) for hook in hooks)
        yield Box("hook", x, 200, "Hook (Lambda)", tuple(f"steps {name}" for name in stepped)[:3])


def _component(deployment: dict[str, object]) -> str:
    metadata = deployment["metadata"]
    labels = metadata.get("labels", {}) if isinstance(metadata, dict) else {}
    return str(labels.get("app.kubernetes.io/component", ""))


def _replicas(count: object) -> str:
    return f"{count or 1} replica{'s' if count not in (1, None) else ''}"


def _group(group: dict[str, object]) -> str:
    return f"{group['InstanceCount']} x {group.get('InstanceType', 'several types')}"


def _zones(assembly: Assembly) -> Iterator[Zone]:
    if assembly.of_type("AWS::EC2::VPC"):
        yield Zone(300, 20, 830, 520, "VPC")
    if assembly.of_type("AWS::EKS::Cluster"):
        yield Zone(308, 44, 560, 484, "EKS cluster")


def _zone(zone: Zone) -> str:
    return (
        f'<rect class="z" x="{zone.x}" y="{zone.y}" width="{zone.width}" height="{zone.height}" rx="8"/>'
        f'<text class="s" x="{zone.x + 10}" y="{zone.y + 16}">{escape(zone.title)}</text>'
    )


def _box(box: Box) -> str:
    lines = "".join(
        f'<text class="s" x="{box.x + 12}" y="{box.y + 42 + 15 * index}">{escape(_cut(line, 34))}</text>'
        for index, line in enumerate(box.lines)
    )
    return (
        f'<rect class="b" x="{box.x}" y="{box.y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6"/>'
        f'<text class="t" x="{box.x + 12}" y="{box.y + 23}">{escape(_cut(box.title, 24))}</text>{lines}'
    )


def _cut(text: str, num_characters: int) -> str:
    """As much as a box is wide: 34 small characters, 24 of its title."""
    return text if len(text) <= num_characters else text[: num_characters - 1] + "…"


def _arrow(start: Box, end: Box, label: str) -> str:
    x1, y1, x2, y2 = _ends(start, end)
    x, y = (x1 + x2) // 2, (y1 + y2) // 2
    # Beside an upright arrow, above any other.
    place = f'x="{x + 8}" y="{y + 4}"' if x1 == x2 else f'x="{x}" y="{y - 7}" text-anchor="middle"'
    return f'<path class="a" d="M{x1} {y1}L{x2} {y2}"/><text class="s" {place}>{escape(label)}</text>'


def _ends(start: Box, end: Box) -> tuple[int, int, int, int]:
    """The middles of the two sides that face each other."""
    middle = _BOX_HEIGHT // 2
    if end.x >= start.x + _BOX_WIDTH:
        return start.x + _BOX_WIDTH, start.y + middle, end.x, end.y + middle
    if end.x + _BOX_WIDTH <= start.x:
        return start.x, start.y + middle, end.x + _BOX_WIDTH, end.y + middle
    half = _BOX_WIDTH // 2
    if end.y > start.y:
        return start.x + half, start.y + _BOX_HEIGHT, end.x + half, end.y
    return start.x + half, start.y, end.x + half, end.y + _BOX_HEIGHT
