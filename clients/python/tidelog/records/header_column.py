"""The column of headers: a list of pairs for each record, most often an empty one.

`column_decoder` and `regular_block` come here when headers are asked for. Invariant: a list is
never null, and a record whose headers do not end where it ends is malformed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import CorruptMessage
from tidelog.records.column_numbers import Numbers
from tidelog.records.decoder import read_headers
from tidelog.records.plain_arrays import of_bytes, of_numbers

HEADERS_TYPE: Final = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
)


def headers_column(data: bytes, position: Numbers, stop: Numbers) -> Any:
    """The headers that lie between these places, behind their count, of each record."""
    names: list[bytes] = []
    values: list[bytes | None] = []
    counts = np.zeros(len(position) + 1, np.int32)
    for row in np.flatnonzero(stop - position > 1):
        headers, end = read_headers(data, int(position[row]), int(stop[row]))
        if end != stop[row]:
            raise CorruptMessage("the headers of a record and its length disagree")
        names += [name.encode() for name, _ in headers]
        values += [value for _, value in headers]
        counts[row + 1] = len(headers)
    return _lists(names, values, counts)


def no_headers(count: int) -> Any:
    """The column for records without any."""
    return _lists([], [], np.zeros(count + 1, np.int32))


def _lists(names: list[bytes], values: list[bytes | None], counts: npt.NDArray[np.int32]) -> Any:
    pairs = pa.StructArray.from_arrays(
        [of_bytes(names, pa.string()), of_bytes(values, pa.binary())],
        fields=list(HEADERS_TYPE.value_type),
    )
    offsets = of_numbers(np.cumsum(counts, dtype=np.int32), pa.int32())
    return pa.ListArray.from_arrays(offsets, pairs, type=HEADERS_TYPE)
