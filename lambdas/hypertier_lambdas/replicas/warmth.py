"""What each replica is worth, as the exporter wrote it to CloudWatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from .errors import FiguresError

NAMESPACE, SERIES = "Hypertier", "WarmTokens"
FRESH = timedelta(minutes=5)
"""An older figure counts as none. The exporter writes each minute, and CloudWatch shows it a while later."""
MAX_QUERIES = 500
"""Of one call.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html (read 2026-12-03)
"""
_CONFIG = Config(connect_timeout=2, read_timeout=4, retries={"total_max_attempts": 2, "mode": "standard"})


def read_warm_tokens(endpoint: str, addresses: Sequence[str], now: datetime) -> Mapping[str, float]:
    """Return the newest figure of each address that has a fresh one.

    Raises:
        FiguresError: CloudWatch did not answer, or may not be asked.
    """
    found: dict[str, float] = {}
    try:
        client = boto3.Session().client("cloudwatch", config=_CONFIG)
        for start in range(0, len(addresses), MAX_QUERIES):
            part = addresses[start : start + MAX_QUERIES]
            answer = client.get_metric_data(
                MetricDataQueries=[_query(f"r{i}", endpoint, ip) for i, ip in enumerate(part)],
                StartTime=now - FRESH,
                EndTime=now + timedelta(minutes=1),
                ScanBy="TimestampDescending",
            )
            for result in answer["MetricDataResults"]:
                if result["Values"]:
                    found[part[int(result["Id"][1:])]] = float(result["Values"][0])
    except (BotoCoreError, ClientError) as error:
        raise FiguresError(f"CloudWatch did not tell {SERIES}: {error}") from error
    return found


def _query(key: str, endpoint: str, address: str) -> dict[str, Any]:
    dimensions = {"Endpoint": endpoint, "Replica": address}
    metric = {
        "Namespace": NAMESPACE,
        "MetricName": SERIES,
        "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
    }
    return {"Id": key, "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Maximum"}}
