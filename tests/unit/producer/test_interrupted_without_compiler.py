"""Python's own code may be interrupted between any two steps; compiled code is not.

So these run in a process that takes nothing compiled.
"""

from __future__ import annotations

import os
import subprocess
import sys


def purely(code: str) -> str:
    """What it prints."""
    environment = {**os.environ, "TIDELOG_PURE": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_lock_that_an_interrupt_left_is_let_go() -> None:
    found = purely(
        """
import threading
from tidelog.producer.accumulator import Accumulator, TopicRoute

def add(accumulator):
    accumulator.add(accumulator.routes["t"], 0, b"x", None, (), 1000)

def interrupted(accumulator):
    raise KeyboardInterrupt

whole = Accumulator._end_adding
for goes_on in (Accumulator.is_adding_here, add):
    accumulator = Accumulator(
        batch_bytes=200, limit_bytes=9000, clock=float, wake=int, hurry=print, is_shared=True
    )
    accumulator.routes["t"] = TopicRoute("t", b"id", 1, 0)
    Accumulator._end_adding = interrupted
    try:
        add(accumulator)
    except KeyboardInterrupt:
        Accumulator._end_adding = whole
    print(goes_on(accumulator))
    thread = threading.Thread(target=lambda: print(len(accumulator.take()[1])), daemon=True)
    thread.start()
    thread.join(30)
"""
    )
    assert found.split() == ["False", "1", "None", "1"]


def test_half_a_first_record_is_like_no_other() -> None:
    found = purely(
        """
from tidelog.records.builder import BatchBuilder

class Cut(list):
    def append(self, piece):
        super().append(piece)
        if len(self) == 1:
            raise KeyboardInterrupt

def add(builder):
    builder.append(b"xyz", None, (), 1000)

half, whole = BatchBuilder(1000), BatchBuilder(1000)
half._pieces = Cut()
try:
    add(half)
except KeyboardInterrupt:
    add(half)
add(whole)
print(half.build() == whole.build())
"""
    )
    assert found == "True\n"
