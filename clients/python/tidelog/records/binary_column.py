"""Spans of a buffer into an Arrow `binary` column: the copy that a columnar read cannot avoid.

`column_decoder` calls it for keys and for values. Invariant: the copy itself is one loop in C for
all records, never one Python object for each. Spans of one length at equal distances are taken as
a two-dimensional array; any others as a `binary_view` array over the buffer, which Arrow casts.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import MessageTooLarge
from tidelog.records.column_numbers import Bytes, Numbers

#: Arrow's binary columns count their bytes in 32 bits, and so do views into a buffer.
_LARGEST_BYTES: Final = 2**31 - 1
#: What a view holds in itself; longer ones hold a prefix and a place.
_INLINE_BYTES: Final = 12
#: More strides than one for this many records are no regular layout.
_RECORDS_A_STRIDE: Final = 64


class Span(NamedTuple):
    """Where payloads of one size lie: as far behind each of these places in the bytes."""

    data: bytes
    places: range
    distance: int


def span_column(spans: list[Span], size: int) -> Any:
    """The payloads of one size in all of these spans; a negative size makes them null.

    Raises `MessageTooLarge` as `binary_column` does.
    """
    count = sum(len(span.places) for span in spans)
    if size < 0:
        return pa.nulls(count, pa.binary())
    _check_size(count * size)
    # Arrow keeps freed memory; NumPy would fault it in anew.
    room = pa.allocate_buffer(count * size)
    payload = np.ndarray((count, size), np.uint8, room)
    first = 0
    for data, places, distance in spans:
        last = first + len(places)
        # (`as_strided` says the same and takes longer than the copy.)
        payload[first:last] = np.ndarray(
            (last - first, size), np.uint8, data, places.start + distance, (places.step, 1)
        )
        first = last
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), room])


def binary_column(data: bytes, octets: Bytes, start: Numbers, length: Numbers) -> Any:
    """The spans `length` bytes long from `start` on; a negative length is a null.

    Raises `MessageTooLarge` when the column would pass 2 GiB.
    """
    count = len(start)
    shortest, longest = (int(length.min()), int(length.max())) if count else (-1, -1)
    if longest < 0:
        return pa.nulls(count, pa.binary())
    _check_size(len(data))
    if shortest == longest:
        regular = _regular_column(data, start, longest)
        if regular is not None:
            return regular
    is_null = length < 0
    return _view_column(data, octets, start, np.where(is_null, 0, length), is_null)


def _check_size(size: int) -> None:
    if size > _LARGEST_BYTES:
        raise MessageTooLarge(
            f"{size} bytes of records do not fit into one Arrow column of 2 GiB",
            hint="Decode fewer batches at a time",
        )


def _regular_column(data: bytes, start: Numbers, size: int) -> Any | None:
    """A column of spans of one size, where their distances change seldom; None where not."""
    count = len(start)
    distance = start[1:] - start[:-1]
    changes = np.flatnonzero(distance[1:] != distance[:-1])
    if len(changes) > count // _RECORDS_A_STRIDE:
        return None
    cuts = [0, *(int(change) + 1 for change in changes), count]
    spans = []
    for first, last in pairwise(cuts):
        step = int(distance[first]) if last - first > 1 else max(size, 1)
        begin = int(start[first])
        spans.append(Span(data, range(begin, begin + (last - first) * step, step), 0))
    return span_column(spans, size)


def _view_column(
    data: bytes, octets: Bytes, start: Numbers, length: Numbers, is_null: npt.NDArray[np.bool_]
) -> Any:
    """A column of any spans: 16 bytes of view for each, cast to `binary` in C++."""
    count = len(start)
    views = np.zeros((count, 4), "<i4")  # length, then 12 bytes; or length, prefix, buffer, place
    views[:, 0] = length
    outside = np.flatnonzero(length > _INLINE_BYTES)
    if outside.size:
        prefixes = np.ndarray((len(data) - 3,), "<i4", data, 0, (1,))
        views[outside, 1] = prefixes[start[outside]]
        views[outside, 3] = start[outside]
    inside = np.flatnonzero((length > 0) & (length <= _INLINE_BYTES))
    if inside.size:
        inline = views.view(np.uint8)
        for index in range(int(length[inside].max())):
            rows = inside[length[inside] > index]
            inline[rows, 4 + index] = octets[start[rows] + index]
    valid = None
    if is_null.any():
        valid = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    buffers = [valid, pa.py_buffer(views), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary_view(), count, buffers).cast(pa.binary())
