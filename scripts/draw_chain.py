"""Draws docs/chain.svg, the picture of the chain in the README: `python scripts/draw_chain.py`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 1080, 470
OUT = Path(__file__).parent.parent / "docs" / "chain.svg"


@dataclass(frozen=True)
class Box:
    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()
    fill: str = "#ffffff"
    stroke: str = "#5b6472"

    def svg(self) -> str:
        text = [
            f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="8" '
            f'fill="{self.fill}" stroke="{self.stroke}" stroke-width="1.4"/>',
            f'<text class="title" x="{self.x + 12}" y="{self.y + 24}">{escape(self.title)}</text>',
        ]
        text += [
            f'<text class="line" x="{self.x + 12}" y="{self.y + 45 + 18 * index}">{escape(line)}</text>'
            for index, line in enumerate(self.lines)
        ]
        return "\n".join(text)


def arrow(x1: int, y1: int, x2: int, y2: int, label: str = "", dx: int = 0, dy: int = -7) -> str:
    line = f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="arrow" marker-end="url(#head)"/>'
    if not label:
        return line
    return (
        line
        + f'<text class="label" x="{(x1 + x2) // 2 + dx}" y="{(y1 + y2) // 2 + dy}">{escape(label)}</text>'
    )


YELLOW, BLUE, GREEN, GREY = "#fff6dc", "#e3effc", "#e4f5e8", "#f4f5f7"

SHAPES = [
    # what a user writes, what comes out for review
    Box(20, 20, 220, 92, "InferenceEndpointConfig", ("as AWS documents it", "+ a deployment file"), YELLOW),
    arrow(240, 66, 300, 66, "lint"),
    Box(300, 20, 200, 92, "hypertier", ("typed spec, rules,", "memory and L1 plan"), GREY),
    arrow(500, 48, 560, 48, "synth"),
    arrow(500, 86, 560, 152, "render", -4, -12),
    Box(560, 20, 240, 74, "CloudFormation templates", ("VPC, EKS, HyperPod, Valkey",), GREEN),
    arrow(800, 56, 850, 56),
    Box(850, 20, 210, 74, "review page", ("memory, bill, IAM, keys",), GREEN),
    Box(560, 116, 240, 74, "Kubernetes manifests", ("engines, router, policies",), GREEN),
    # the same manifests, running
    '<rect x="20" y="226" width="1040" height="226" rx="12" class="zone"/>',
    '<text class="zonetitle" x="36" y="250">the rendered endpoint: pods on p5.48xlarge,'
    " or processes on a laptop (hypertier lab up)</text>",
    arrow(680, 190, 680, 222),
    Box(40, 300, 110, 62, "client", ("OpenAI API",)),
    arrow(150, 331, 200, 331),
    Box(200, 286, 190, 92, "router x2", ("prefixaware, kvaware,", "session, roundrobin"), BLUE),
    arrow(390, 315, 450, 296),
    arrow(390, 347, 450, 396),
    Box(
        450, 262, 310, 82, "vLLM replica", ("GPU prefix cache -> L1 host memory", "-> L2 -> recompute"), BLUE
    ),
    Box(450, 360, 310, 74, "vLLM replica", ("the same blocks, found in L2",), BLUE),
    arrow(760, 304, 836, 330, "store", 0, -9),
    arrow(836, 362, 760, 396, "load", -8, -6),
    Box(836, 300, 204, 92, "Valkey (L2)", ("shared, checked, encrypted", "in transit"), BLUE),
]

STYLE = """
.title{font:600 14px sans-serif;fill:#1d2430}
.line{font:13px sans-serif;fill:#3b4453}
.label{font:italic 12px sans-serif;fill:#3b4453;text-anchor:middle}
.arrow{stroke:#3b4453;stroke-width:1.6}
.zone{fill:none;stroke:#9aa4b2;stroke-width:1.4;stroke-dasharray:6 5}
.zonetitle{font:600 13px sans-serif;fill:#5b6472}
"""


def main() -> None:
    shapes = "\n".join(shape.svg() if isinstance(shape, Box) else shape for shape in SHAPES)
    OUT.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="From one manifest to a cache hit">\n'
        f"<style>{STYLE}</style>\n"
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="#3b4453"/></marker></defs>\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n{shapes}\n</svg>\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
