"""Rows that differ in nothing but their values, all of one size: the fastest way into a batch.

`column_encoder` comes here where no row has a key or headers and all carry one timestamp. Then all
records of a batch are laid out alike but for their number, and are written as one table of bytes,
each value copied once. Invariant: the bytes are those that `BatchBuilder` makes of the same rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidelog.records.builder import NULL_KEY_AND_LENGTH, ZERO
from tidelog.records.column_numbers import Bytes
from tidelog.records.varint import TABLE_SIZE, varint

#: Up to which number the place of a record in its batch takes one byte, two, and so on.
_WIDER_FROM: Final = (0, 1 << 6, 1 << 13, 1 << 20, 1 << 27)


def regular_values(column: Any) -> Bytes | None:
    """The values of a large binary array as a table, a row each; None where sizes differ."""
    count = len(column)
    places = np.frombuffer(column.buffers()[1], np.int64, count + 1, column.offset * 8)
    sizes = np.diff(places)
    size = int(sizes[0])
    if column.null_count or not 0 < size < TABLE_SIZE or np.any(sizes != size):
        return None
    first, last = int(places[0]), int(places[-1])
    return np.frombuffer(column.buffers()[2], np.uint8, last - first, first).reshape(count, size)


def regular_records(values: Bytes) -> memoryview:
    """The records of one batch that have these values and nothing else."""
    count, size = values.shape
    lengths = NULL_KEY_AND_LENGTH[size]
    cuts = [*(number for number in _WIDER_FROM if number < count), count]
    runs = []
    for width, (first, last) in enumerate(pairwise(cuts), start=1):
        # Attributes and the time behind the batch's are zero, and so is the count of headers.
        length = 2 + width + len(lengths) + size + 1
        runs.append((first, last, width, varint(length) + ZERO + ZERO, length))
    total = sum((last - first) * (len(head) - 2 + length) for first, last, _, head, length in runs)
    # Arrow keeps freed memory; NumPy would fault it in anew.
    octets = np.frombuffer(pa.allocate_buffer(total), np.uint8)
    at = 0
    for first, last, width, head, length in runs:
        record_bytes = len(head) - 2 + length
        end = at + (last - first) * record_bytes
        table = octets[at:end].reshape(last - first, record_bytes)
        _fill(table, head, (first, last, width), lengths)
        table[:, record_bytes - 1 - size : -1] = values[first:last]
        at = end
    return memoryview(octets)  # type: ignore[arg-type] # NumPy's arrays are buffers


def _fill(table: Bytes, head: bytes, numbers: tuple[int, int, int], lengths: bytes) -> None:
    """Writes what is not a value: all but the records' numbers is the same in each row."""
    first, last, width = numbers
    start = len(head)
    table[:, :start] = np.frombuffer(head, np.uint8)
    place = np.arange(first, last, dtype=np.int64) << 1
    for index in range(width):
        more = 0 if index == width - 1 else 128
        table[:, start + index] = (place >> (7 * index)) & 127 | more
    table[:, start + width : start + width + len(lengths)] = np.frombuffer(lengths, np.uint8)
    table[:, -1] = 0
