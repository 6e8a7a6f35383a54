"""Columns never import pandas, which takes as long as reading 300,000 records."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyarrow")

READ: Final = """
import types
from tidelog.consumer.decoding import ALL_COLUMNS, Decoding
from tidelog.consumer.fetched import Pushed
from tidelog.model import TopicPartition
from tidelog.records.builder import BatchBuilder

state = types.SimpleNamespace(name=TopicPartition("t", 3), generation=0, address="")
decoding = Decoding(None)
for headers in ((), (("name", b"value"), ("none", None))):
    builder = BatchBuilder()
    for number in range(40):
        assert builder.append(b"%d" % number, b"key", headers, number)
    batch = builder.build()
    for first in (0, 7):
        pushed = Pushed(state, batch, (0, len(batch)), (first, 40), 0)
        for names in (ALL_COLUMNS, ("topic", "partition"), ("value", "offset", "timestamp")):
            assert decoding.table([decoding.columns(pushed, names)], names).num_rows == 40 - first
            assert decoding.table([], names).num_rows == 0
"""

WRITTEN: Final = """
import numpy as np
import pyarrow as pa
from tidelog.records.columns import decode_columns, encode_columns
from tidelog.records.plain_arrays import of_bytes, of_numbers

value = of_bytes([b"v" * (number % 50) for number in range(2_000)], pa.binary())
key = of_bytes([b"key" if number % 3 else None for number in range(2_000)], pa.binary())
times = of_numbers(np.arange(2_000), pa.int64())
for columns in ({}, {"key": key}):
    for rows in (value, pa.chunked_array([value.slice(0, 900), value.slice(900)])):
        batches = b"".join(encode_columns(rows, timestamp=times, **columns))
        assert decode_columns(batches).num_rows == 2_000
"""


@pytest.mark.parametrize("script", [READ, WRITTEN], ids=["read", "written"])
def test_columns_do_without_pandas(tmp_path: Path, script: str) -> None:
    package = tmp_path / "pandas"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('pandas was imported')\n")
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert ran.returncode == 0, ran.stderr
