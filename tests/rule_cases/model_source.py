"""Rules of model source, each broken once and kept once."""

from __future__ import annotations

from rule_cases.case import HF, WORKER, Case

from hypertier.spec.rules.rule import JUMPSTART

CASES = [
    Case(
        "model-source-block",
        {"spec.modelSourceConfig.modelSourceType": "fsx"},
        "spec.modelSourceConfig.fsxStorage",
    ),
    Case(
        "model-location",
        {"spec.modelSourceConfig.modelLocation": "s3://elsewhere/llama"},
        "spec.modelSourceConfig.modelLocation",
        {"spec.modelSourceConfig.modelLocation": "llama/s3"},
    ),
    Case(
        "model-location",
        {
            "spec.modelSourceConfig.s3Storage.bucketName": "models",
            "spec.modelSourceConfig.modelLocation": "s3://models/llama/",
        },
        "spec.modelSourceConfig.modelLocation",
        name="in its bucket",
    ),
    Case(
        "model-source-unused",
        {"spec.modelSourceConfig.fsxStorage": {"fileSystemId": "fs-1"}},
        "spec.modelSourceConfig.fsxStorage",
    ),
    Case(
        "huggingface-commit",
        {
            "spec.modelSourceConfig": {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {"modelId": "a/b"},
            }
        },
        "spec.modelSourceConfig.huggingFaceModel.commitSHA",
        {"spec.modelSourceConfig": {"modelSourceType": "huggingface", "huggingFaceModel": HF}},
    ),
    Case(
        "huggingface-token-key",
        {
            "spec.modelSourceConfig": {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {**HF, "tokenSecretRef": {"name": "hf", "key": "HF_TOKEN"}},
            }
        },
        "spec.modelSourceConfig.huggingFaceModel.tokenSecretRef.key",
        {
            "spec.modelSourceConfig": {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {**HF, "tokenSecretRef": {"name": "hf", "key": "token"}},
            }
        },
    ),
    Case(
        "huggingface-token-name",
        {
            "spec.modelSourceConfig": {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {**HF, "tokenSecretRef": {"key": "token"}},
            }
        },
        "spec.modelSourceConfig.huggingFaceModel.tokenSecretRef.name",
    ),
    Case(
        "kubernetes-volume",
        {"spec.modelSourceConfig": {"modelSourceType": "kubernetesVolume"}},
        "spec.kubernetes.volumes",
        {
            "spec.modelSourceConfig": {"modelSourceType": "kubernetesVolume"},
            "spec.kubernetes.volumes": [{"name": "model-weights"}],
        },
    ),
    Case(
        "kubernetes-volume-location",
        {"spec.modelSourceConfig.modelSourceType": "kubernetesVolume"},
        "spec.modelSourceConfig.modelLocation",
    ),
    Case("reserved-volume", {f"{WORKER}modelVolumeMount.name": "shm"}, "spec.worker.modelVolumeMount.name"),
    Case(
        "reserved-volume",
        {"spec.kubernetes.volumes": [{"name": "scratch"}, {"name": "lmcache-config"}]},
        "spec.kubernetes.volumes[1].name",
        {"spec.kubernetes.volumes": [{"name": "scratch"}]},
        name="volumes",
    ),
    Case(
        "custom-service-account",
        {"spec.kubernetes.serviceAccountName": "models"},
        "spec.kubernetes.serviceAccountName",
        {"spec.kubernetes.serviceAccountName": "default"},
    ),
    Case(
        "weights-path",
        {f"{WORKER}args": ["--model", "meta-llama/Llama-3.1-8B", "--tensor-parallel-size=4"]},
        "spec.worker.args[1]",
        {f"{WORKER}args": ["--model", "/opt/ml/model", "--tensor-parallel-size=4"]},
    ),
    Case(
        "accept-eula",
        {"spec.model.modelId": "meta-textgeneration-llama-3-1-8b"},
        "spec.model.acceptEula",
        kind=JUMPSTART,
    ),
    Case(
        "gated-download-role",
        {"spec.model.modelId": "meta-textgeneration-llama-3-1-8b", "spec.model.acceptEula": True},
        "spec.model.gatedModelDownloadRole",
        kind=JUMPSTART,
    ),
]
