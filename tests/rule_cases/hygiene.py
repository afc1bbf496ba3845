"""Rules of hygiene, each broken once and kept once."""

from __future__ import annotations

from rule_cases.case import WORKER, Case

CASES = [
    Case(
        "placeholder",
        {"spec.modelSourceConfig.s3Storage.bucketName": "${BUCKET}"},
        "spec.modelSourceConfig.s3Storage.bucketName",
    ),
    Case("placeholder", {"spec.modelName": "<your model>"}, "spec.modelName", name="angle"),
    Case("placeholder", {"spec.modelName": "$MODEL_NAME"}, "spec.modelName", name="dollar"),
    Case("placeholder", {"spec.modelName": "{MODEL_NAME}"}, "spec.modelName", name="braces"),
    Case(
        "placeholder",
        {f"{WORKER}args": ["serve $MODEL_PATH"]},
        "spec.worker.args[0]",
        {f"{WORKER}command": ["sh", "-c"], f"{WORKER}args": ["exec vllm serve $MODEL_PATH"]},
        name="not-a-shell",
    ),
    *(
        Case(
            "argument-form",
            {f"{WORKER}args": ["/opt/ml/model", name, bad]},
            "spec.worker.args[2]",
            {f"{WORKER}args": ["/opt/ml/model", name, good]},
            name=f"{name.strip('-')}-{bad or 'empty'}",
        )
        for name, bad, good in (
            ("--max-model-len", "nonsense", "64K"),
            ("--max-model-len", "", "25.6k"),
            ("--max-model-len", "-5", "auto"),
            ("--max-num-batched-tokens", "8,192", "8192"),
            ("--tensor-parallel-size", "9" * 30, "4"),
            ("--tensor-parallel-size", "four", "4"),
            ("--max-num-seqs", "0", "256"),
            ("--port", "http", "8000"),
            ("--gpu-memory-utilization", "95", "0.95"),
            ("--gpu-memory-utilization", "90%", ".9"),
        )
    ),
    Case("refused-later", {"spec.replicas": -1}, "spec.replicas"),
    *(
        Case("refused-later", {where: value}, where, name=f"{where.rpartition('.')[2]}-{number}")
        for where, values in {
            "spec.modelSourceConfig.s3Storage.bucketName": ("", "a b", "B", "a/b"),
            "spec.modelSourceConfig.s3Storage.region": ("", "nowhere", "us-west-2a"),
            f"{WORKER}modelVolumeMount.name": ("", "model weights", "M", "a" * 64),
            f"{WORKER}modelVolumeMount.mountPath": ("", "opt/ml", "/a:b"),
        }.items()
        for number, value in enumerate(values)
    ),
    *(
        Case(
            "refused-later",
            {f"{WORKER}environmentVariables.0": {"name": name, "value": "x"}},
            "spec.worker.environmentVariables[0].name",
            name=f"variable-{number}",
        )
        for number, name in enumerate(("", "A B", "A=B", "\u00e9", "A\n"))
    ),
    Case(
        "literal-secret",
        {f"{WORKER}environmentVariables.0": {"name": "HF_TOKEN", "value": "not-in-the-open"}},
        "spec.worker.environmentVariables[0].value",
        {f"{WORKER}environmentVariables.0": {"name": "MAX_TOKENS", "value": "4096"}},
    ),
    Case("literal-secret", {f"{WORKER}args.0": "hf_" + "a1B2" * 8}, "spec.worker.args[0]", name="shape"),
]
