"""Rules of arguments, each broken once and kept once."""

from __future__ import annotations

from rule_cases.case import WORKER, Case

ARGS = f"{WORKER}args"
COMMAND = f"{WORKER}command"
IMAGE = f"{WORKER}image"
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
    Case(
        "argument-unknown",
        {ARGS: ["--max-modle-len", "8192"], COMMAND: ["vllm", "serve"]},
        f"{ARGS}[0]",
        {ARGS: ["--max-modle-len", "8192"], COMMAND: ["python3", "server.py"]},
        name="of another program",
    ),
    Case(
        "argument-unknown",
        {ARGS: ["--max-modle-len", "8192"], IMAGE: "vllm/vllm-openai:v0.28.1"},
        f"{ARGS}[0]",
        {ARGS: ["--max-modle-len", "8192"], IMAGE: "vllm/vllm-openai:v0.29.0"},
        name="of a version that was not read",
    ),
    *(
        Case(
            "argument-unknown",
            {ARGS: [f"{dash}max-model-len", "8192"]},
            f"{ARGS}[0]",
            {ARGS: ["--max-model-len", "8192", "-tp", "1", "--seed", "-1"]},
            name=name,
        )
        for name, dash in (("one dash", "-"), ("a typographer's dash", "\u2013"), ("another", "\u2014"))
    ),
    Case(
        "argument-unknown",
        {ARGS: ["/opt/ml/model --max-model-len 8192"]},
        f"{ARGS}[0]",
        {ARGS: ["vllm serve /opt/ml/model --max-model-len 8192"], COMMAND: ["/bin/sh", "-c"]},
        name="several in one",
    ),
    *(
        Case(
            "argument-doubtful",
            {ARGS: ["--max-modle-len", "8192"], IMAGE: image},
            f"{ARGS}[0]",
            {ARGS: ["--max-modle-len", "8192"], IMAGE: "vllm/vllm-openai:v0.32.0"},
            name=name,
        )
        for name, image in (
            ("older", "vllm/vllm-openai:v0.19.1"),
            ("newer", "vllm/vllm-openai:v1.0.0"),
            ("nobody knows which", "vllm/vllm-openai:latest"),
            ("AWS's", "763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:0.32-gpu-py312"),
        )
    ),
    Case("several-nodes", {ARGS: ["--nnodes", "2"]}, f"{ARGS}[1]", {ARGS: ["--nnodes", "1"]}),
    Case("several-nodes", {ARGS: ["--nnod=2"]}, f"{ARGS}[0]", {ARGS: ["-n", "1"]}, name="short"),
    Case(
        "several-nodes", {ARGS: ["-n", "2"]}, f"{ARGS}[1]", {ARGS: ["--nnodes", "$(NODES)"]}, name="variable"
    ),
]
