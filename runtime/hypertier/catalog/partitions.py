"""MIG profiles by instance type.

Source: PyPI `sagemaker-hyperpod` 3.12.0 `cli/inference/constant.py` (p5) and
https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html.
"""

from __future__ import annotations

_A100_40 = ("mig-1g.5gb", "mig-1g.10gb", "mig-2g.10gb", "mig-3g.20gb", "mig-4g.20gb", "mig-7g.40gb")
_80 = ("mig-1g.10gb", "mig-1g.20gb", "mig-2g.20gb", "mig-3g.40gb", "mig-4g.40gb", "mig-7g.80gb")
_H200 = ("mig-1g.18gb", "mig-1g.35gb", "mig-2g.35gb", "mig-3g.71gb", "mig-4g.71gb", "mig-7g.141gb")
_B200 = ("mig-1g.23gb", "mig-1g.45gb", "mig-2g.45gb", "mig-3g.90gb", "mig-4g.90gb", "mig-7g.180gb")

PARTITIONS = {
    "ml.p4d.24xlarge": _A100_40,
    "ml.p4de.24xlarge": _80,
    "ml.p5.4xlarge": _80,
    "ml.p5.48xlarge": _80,
    "ml.p5e.48xlarge": _H200,
    "ml.p5en.48xlarge": _H200,
    "ml.p6-b200.48xlarge": _B200,
}


def partitions_of(instance_type: str) -> tuple[str, ...]:
    """The MIG profiles of a type's GPUs; empty for GPUs that can't be partitioned."""
    return PARTITIONS.get(instance_type, ())
