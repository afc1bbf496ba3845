"""Rules of arguments, each broken once and kept once."""

from __future__ import annotations

from rule_cases.case import WORKER, Case

ARGS = f"{WORKER}args"
FULL = ["--tensor-parallel-size", "1", "--max-model-len", "8192"]

CASES = [
    Case("argument-unknown", {ARGS: ["--max-modle-len", "8192"]}, f"{ARGS}[0]", {ARGS: FULL}),
    Case(
        "argument-unknown",
        {ARGS: ["--max", "8192"]},
        f"{ARGS}[0]",
        {ARGS: ["--max-model", "8192"]},
        name="short for several",
    ),
    Case("several-nodes", {ARGS: ["--nnodes", "2"]}, f"{ARGS}[1]", {ARGS: ["--nnodes", "1"]}),
    Case("several-nodes", {ARGS: ["--nnod=2"]}, f"{ARGS}[0]", {ARGS: ["-n", "1"]}, name="short"),
    Case(
        "several-nodes", {ARGS: ["-n", "2"]}, f"{ARGS}[1]", {ARGS: ["--nnodes", "$(NODES)"]}, name="variable"
    ),
]
