"""Every record once, in order and whole, by columns and by iteration, sync and asyncio.

`make read-whole` does the same with a million records of each compression.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from harness.processes import running_node
from harness.wholeness import Whole, read_in_thread, read_on_loop, send_all, sent

RECORDS = 200_000


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_columns_come_whole_in_every_way(tmp_path: Path, compression: str) -> None:
    with running_node(tmp_path / "data") as node:
        send_all(node.bootstrap, "whole", RECORDS, compression)
        read_in_thread(node.bootstrap, "whole", RECORDS)
        read_on_loop(node.bootstrap, "whole", RECORDS)


@pytest.mark.parametrize("column", ["timestamp", "key", "value", "headers"])
def test_the_comparison_finds_one_wrong_field(column: str) -> None:
    rows = sent(0, 50) | {"offset": pa.array(range(50)), column: sent(1, 51)[column]}
    with pytest.raises(AssertionError, match=column):
        Whole(50).take(rows)
