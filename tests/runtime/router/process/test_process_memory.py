"""A router's process keeps what requests free, and is not searched for cycles after each few of them."""

from __future__ import annotations

import subprocess
import sys

FAULTS = """
import resource
from hypertier.router.process.process_memory import keep_freed_memory
{keep}
def take():
    bodies = [b"x" * 300_000 for _ in range(8)]
take(), take()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    take()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
COLLECTOR = """
import gc
from hypertier.router.process.process_memory import NEW_OBJECTS, collect_seldom
collect_seldom()
print(gc.get_threshold()[0] == NEW_OBJECTS, gc.get_freeze_count() > 1000)
"""


def said(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_bodies_that_come_and_go_take_the_same_pages() -> None:
    without, kept = (int(said(FAULTS.format(keep=keep))) for keep in ("", "assert keep_freed_memory()"))

    assert kept < 100 < without


def test_what_is_there_at_the_start_is_left_alone_by_the_collector() -> None:
    assert said(COLLECTOR).split() == ["True", "True"]
