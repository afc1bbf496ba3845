"""A deployment's plan as text for people and as JSON."""

from __future__ import annotations

import textwrap
from typing import Any

from hypertier.catalog.instance_types import GIB
from hypertier.planning.break_even import BreakEven
from hypertier.planning.disaggregation import DisaggregationPlan, Split
from hypertier.planning.plan import DeploymentPlan, EndpointPlan, GroupPlan
from hypertier.spec.roles import WHOLE

GB = 10**9
MAX_WIDTH = 100


def as_data(plan: DeploymentPlan) -> dict[str, Any]:
    """The plan as plain values; bytes, seconds, tokens and US dollars, null where something is not known."""
    return {
        "name": plan.name,
        "endpoints": [_endpoint_data(endpoint) for endpoint in plan.endpoints],
        "disaggregation": [_disaggregation_data(each) for each in plan.disaggregations],
        "groups": [
            {
                "name": group.name,
                "instance_type": group.instance_type,
                "count": group.count,
                "engines_per_node": group.engines_per_node,
                "pods_per_node": group.pods_per_node,
                "max_pods": group.max_pods,
                "ip_addresses": group.ip_addresses,
            }
            for group in plan.groups
        ],
        "ip_addresses": plan.ip_addresses,
        "store": None
        if plan.store is None
        else {
            "node_type": plan.store.node_type.name,
            "num_shards": plan.store.num_shards,
            "num_nodes": plan.store.num_nodes,
            "size_bytes": plan.store.size_bytes,
            "bandwidth_bytes_per_second": plan.store.bandwidth_bytes_per_second,
        },
        "bill": {
            "known_usd_per_hour": round(plan.bill.known_usd_per_hour, 4),
            "known_usd_per_month": round(plan.bill.known_usd_per_month, 2),
            "unknown": list(plan.bill.unknown),
            "uncounted": list(plan.bill.uncounted),
            "rows": [
                {
                    "item": row.item,
                    "count": row.count,
                    "usd_per_hour": row.usd_per_hour,
                    "source": row.price.source if row.price else None,
                    "read_on": row.price.read_on.isoformat() if row.price else None,
                }
                for row in plan.bill.rows
            ],
        },
    }


def _endpoint_data(plan: EndpointPlan) -> dict[str, Any]:
    engine, capacity = plan.engine, plan.capacity
    return {
        "name": plan.name,
        "role": plan.role,
        "model": engine.model.name if engine.model else None,
        "instance_type": engine.node.name,
        "replicas": engine.replicas,
        "engines_per_node": engine.engines_per_node,
        "gpus": engine.gpus,
        "tensor_parallel_size": engine.tensor_parallel_size,
        "kv_bytes_per_token": engine.kv_bytes_per_token,
        "memory_bytes": engine.memory_bytes,
        "available_bytes": engine.available_bytes,
        "shm_bytes": engine.shm_bytes,
        "weights_bytes": capacity.weights_bytes,
        "gpu_bytes": capacity.gpu_bytes,
        "gpu_tokens": capacity.gpu_tokens,
        "l1_bytes": capacity.l1_bytes,
        "l1_tokens": capacity.l1_tokens,
        "l2_bytes": capacity.l2_bytes,
        "l2_tokens": capacity.l2_tokens,
        "cold_start_seconds": round(plan.cold_start.seconds, 1),
        "image_pull_seconds": plan.cold_start.image_seconds,
        "prefill_tokens_per_second": plan.prefill_tokens_per_second,
        "usd_per_million_prompt_tokens": plan.usd_per_million_prompt_tokens,
        "break_even": [
            {
                "num_tokens": row.num_tokens,
                "kv_bytes": row.kv_bytes,
                "recompute_seconds": row.recompute_seconds,
                "alone_seconds": row.alone_seconds,
                "shared_seconds": row.shared_seconds,
                "needed_bytes_per_second": row.needed_bytes_per_second,
                "wins_alone": row.wins_alone,
                "wins_shared": row.wins_shared,
            }
            for row in plan.break_even
        ],
    }


def _disaggregation_data(plan: DisaggregationPlan) -> dict[str, Any]:
    return {
        "name": plan.name,
        "threshold_tokens": plan.threshold_tokens,
        "transfer_bytes_per_second": plan.transfer_bytes_per_second,
        "is_measured": plan.is_measured,
        "token_seconds": plan.token_seconds,
        "splits": [
            {
                "num_tokens": split.num_tokens,
                "kv_bytes": split.kv_bytes,
                "prefill_seconds": split.prefill_seconds,
                "whole_seconds": split.whole_seconds,
                "transfer_seconds": split.transfer_seconds,
                "delay_seconds": split.delay_seconds,
                "step_seconds": split.step_seconds,
                "stretch_seconds": split.stretch_seconds,
                "pays_from": split.pays_from,
            }
            for split in plan.splits
        ],
    }


def as_text(plan: DeploymentPlan) -> str:
    """The plan as tables, each number with its unit."""
    lines = [f"deployment {plan.name}"]
    for endpoint in plan.endpoints:
        lines += ["", *_endpoint_lines(endpoint)]
    for disaggregation in plan.disaggregations:
        lines += ["", *_disaggregation_lines(disaggregation)]
    lines += ["", "instance groups"]
    lines += [_group_line(group) for group in plan.groups]
    lines.append(f"  {plan.ip_addresses} addresses must be free in the nodes' subnets")
    if plan.store is not None:
        store = plan.store
        lines += [
            "",
            f"L2: {store.num_shards} shards of {store.node_type.name}, {store.num_nodes} nodes with copies; "
            f"{_gib(store.size_bytes)}, {store.bandwidth_bytes_per_second / GB:.1f} GB/s",
        ]
    lines += ["", *_bill_lines(plan)]
    return "\n".join(folded for line in lines for folded in _folded(line))


def _endpoint_lines(plan: EndpointPlan) -> list[str]:
    engine, capacity = plan.engine, plan.capacity
    is_known = engine.model is not None
    model = engine.model.name if engine.model else "a model of unknown shape (--model-config FILE reads it)"
    per_token = f"{engine.kv_bytes_per_token:,} B" if engine.kv_bytes_per_token else "unknown"
    start = plan.cold_start
    lines = [
        f"endpoint {plan.name}{'' if plan.role == WHOLE else f', {plan.role}'}: {model}",
        f"  replicas          {engine.replicas}, each {engine.gpus} GPUs of {engine.node.name}, "
        f"tensor parallel {engine.tensor_parallel_size}, {engine.engines_per_node} a node",
        f"  pod memory        {_gib(engine.memory_bytes)} of {_gib(engine.available_bytes)} for a replica",
        f"                    L1 {_gib(engine.l1_bytes)}, engine {_gib(engine.base_bytes)}, "
        f"/dev/shm {_gib(engine.shm_bytes)}",
        f"  KV a token        {per_token}",
        f"  GPUs hold         {_tokens(capacity.gpu_tokens)} ({_gib(capacity.gpu_bytes)} a replica, beside "
        f"{_gib(capacity.weights_bytes)} of weights)"
        if is_known
        else f"  GPUs hold         unknown; weights of {_gib(capacity.weights_bytes)} are assumed",
        f"  L1 holds          {_tokens(capacity.l1_tokens)} ({_gib(capacity.l1_bytes)} a replica)"
        if capacity.l1_bytes
        else "  L1                off",
        f"  L2 holds          {_tokens(capacity.l2_tokens)} ({_gib(capacity.l2_bytes)} for all)"
        if capacity.l2_bytes
        else "  L2                off",
        f"  cold start        {start.seconds:.0f} s: image {start.image_seconds:.0f}"
        f"{'' if start.image_seconds else ' (pulled ahead)'}, weights {start.weights_seconds:.0f}, "
        f"L1 {start.prefault_seconds:.0f}, warm-up {start.warm_up_seconds:.0f}",
    ]
    if plan.prefill_tokens_per_second is not None:
        usd = plan.usd_per_million_prompt_tokens
        lines.append(
            f"  prefill           {plan.prefill_tokens_per_second:,.0f} tokens/s a replica at 8K"
            + ("" if usd is None else f", {usd:.3f} USD a million prompt tokens")
        )
    if plan.break_even:
        lines += ["", "  prompt     KV         compute   load alone  load, all  L2 wins    to win it needs"]
        lines += [_row_line(row) for row in plan.break_even]
    return lines


def _disaggregation_lines(plan: DisaggregationPlan) -> list[str]:
    whose = "measured" if plan.is_measured else "assumed; --kv-transfer-bandwidth takes yours"
    lines = [
        f"prefill apart, {plan.name}: prompts of {plan.threshold_tokens:,} tokens and more",
        f"  KV moves at       {plan.transfer_bytes_per_second / GB:,.1f} GB/s between two engines ({whose})",
    ]
    if not plan.splits:
        return [
            *lines,
            "  does it pay       unknown: the model's shape, the GPUs' or the network's rates are not known",
        ]
    return [
        *lines,
        f"  a token takes     {_ms(plan.token_seconds)} at least, while no prompt is computed beside it",
        "",
        "  prompt     KV         compute       move  first token  gap beside it  pays from    prompts/s",
        *(_split_line(split, plan) for split in plan.splits),
        "  gap beside it: between two tokens of an answer whose engine computes the prompt meanwhile",
        "  pays from: answers that such an engine must be writing to gain what the first token loses",
    ]


def _split_line(split: Split, plan: DisaggregationPlan) -> str:
    pays = split.pays_from
    said = {None: "never", 0: "always", 1: "1 answer"}.get(pays, f"{pays} answers")
    return (
        f"  {split.num_tokens:>7,}  {_gib(split.kv_bytes):>9}  {_ms(split.prefill_seconds):>9}  "
        f"{_ms(split.transfer_seconds):>9}  {split.delay_seconds * 1000:>+8,.0f} ms  "
        f"{_ms(split.step_seconds):>13}  {said:<11}  {plan.prefill_replicas / split.prefill_seconds:>9.1f}"
    )


def _row_line(row: BreakEven) -> str:
    wins = "always" if row.wins_shared else ("alone" if row.wins_alone else "never")
    return (
        f"  {row.num_tokens:>7,}  {_gib(row.kv_bytes):>9}  {_ms(row.recompute_seconds):>9}  "
        f"{_ms(row.alone_seconds):>10}  {_ms(row.shared_seconds):>9}  {wins:<8}  "
        f"{row.needed_bytes_per_second / GB:>6.1f} GB/s"
    )


def _group_line(group: GroupPlan) -> str:
    room = "unknown" if group.max_pods is None else str(group.max_pods)
    short = "" if group.fits else "  TOO MANY: pods would stay pending"
    return (
        f"  {group.name}: {group.count} x {group.instance_type}, {group.pods_per_node} pods a node of at "
        f"most {room}{short}"
    )


def _bill_lines(plan: DeploymentPlan) -> list[str]:
    lines = ["bill, for what runs all the time"]
    for row in plan.bill.rows:
        said = "" if row.price is None else f": {row.usd_per_hour:,.2f} USD/h ({row.price.source})"
        lines.append(f"  {row.count} x {row.item}{said}")
    if plan.bill.uncounted:
        lines.append(f"  not counted: nodes that Karpenter adds to {', '.join(plan.bill.uncounted)}")
    unknown = plan.bill.unknown
    if any(row.price is not None for row in plan.bill.rows):
        hour, month = plan.bill.known_usd_per_hour, plan.bill.known_usd_per_month
        lines.append(
            f"  {'in all' if not unknown else 'known'}: {hour:,.2f} USD an hour, {month:,.0f} a month"
        )
    if unknown:
        lines += [
            f"  no price is known here of {', '.join(unknown)}",
            "  to see dollars, give --prices FILE, with a line for each, in US dollars an hour, such as",
            f"    {unknown[0]}: {{usdPerHour: NUMBER, source: TEXT, date: 2026-12-01}}",
        ]
    return lines


def _folded(line: str) -> list[str]:
    """A line as those that a terminal shows whole, broken between words."""
    if len(line) <= MAX_WIDTH:
        return [line]
    return textwrap.wrap(
        line, MAX_WIDTH, subsequent_indent=" " * 4, break_long_words=False, break_on_hyphens=False
    )


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / GIB:,.1f} GiB"


def _tokens(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,} tokens"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"
