"""One batch of records that count on, all of one layout, into Arrow columns by its runs alone.

`column_decoder` tries this before it decodes the numbers of each record: a megabyte of records of
1 KB is a thousand of them, too few for the sixty calls of NumPy that those take. Invariant: a batch
is taken only when every byte that is a number is what it must be, and gives the same columns as the
general way; anything else is left to that, which also has the words for errors.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.records.batch import LOG_APPEND_TIME_BIT
from tidelog.records.binary_column import Span, span_column
from tidelog.records.column_numbers import Numbers, equally_wide
from tidelog.records.header_column import no_headers
from tidelog.records.plain_arrays import of_numbers
from tidelog.records.runs import column, counts_on, equal_lengths
from tidelog.records.source import BatchBody
from tidelog.records.varint import read_varint

#: So many runs are still cheaper than the general way: the number of a record grows by a byte
#: now and then, and so does its time.
_MOST_RUNS: Final = 8


class _Run(NamedTuple):
    """Records of one layout: `stamps` are deltas, one for all of them or one for each."""

    places: range
    stamps: int | Numbers
    key_start: int
    key_bytes: int
    value_start: int
    value_bytes: int


class RegularBlock:
    """The records of one batch. Offers what `column_decoder.Block` does."""

    __slots__ = ("_body", "_count", "_runs")

    def __init__(self, body: BatchBody, runs: list[_Run]) -> None:
        self._body = body
        self._runs = runs
        self._count = int(body.header.record_count)

    def key(self) -> Any:
        """The column of keys."""
        spans = [Span(run.places, run.key_start) for run in self._runs]
        return span_column(self._body.data, spans, self._runs[0].key_bytes)

    def value(self) -> Any:
        """The column of values."""
        spans = [Span(run.places, run.value_start) for run in self._runs]
        return span_column(self._body.data, spans, self._runs[0].value_bytes)

    def offset(self) -> Any:
        """The column of offsets."""
        first = int(self._body.header.base_offset)
        return of_numbers(np.arange(first, first + self._count, dtype=np.int64), pa.int64())

    def timestamp_type(self) -> Any:
        """The column that says whose clock a timestamp is of: a batch has one."""
        stamped = int(self._body.header.attributes & LOG_APPEND_TIME_BIT != 0)
        return of_numbers(np.full(self._count, stamped, np.int32), pa.int32())

    def headers(self) -> Any:
        """The column of headers: regular records have none."""
        return no_headers(self._count)

    def milliseconds(self) -> Numbers:
        """The timestamps."""
        header = self._body.header
        if header.attributes & LOG_APPEND_TIME_BIT:
            return np.full(self._count, header.max_timestamp, np.int64)
        stamps = np.empty(self._count, np.int64)
        cuts = [0]
        for run in self._runs:
            cuts.append(cuts[-1] + len(run.places))
        for (first, last), run in zip(pairwise(cuts), self._runs, strict=True):
            stamps[first:last] = run.stamps
        stamps += header.base_timestamp
        return stamps


def regular_block(body: BatchBody, starts: list[range | Numbers]) -> RegularBlock | None:
    """The batch whose records begin at these places; None where it is not regular."""
    if len(starts) > _MOST_RUNS:
        return None
    runs: list[_Run] = []
    following = 0
    for places in starts:
        if not isinstance(places, range):
            return None
        run = _run(body.data, places, following)
        if run is None or (runs and (run.key_bytes, run.value_bytes) != _lengths(runs[0])):
            return None
        runs.append(run)
        following += len(places)
    if following != body.header.record_count or following != body.header.last_offset_delta + 1:
        return None
    return RegularBlock(body, runs)


def _lengths(run: _Run) -> tuple[int, int]:
    return run.key_bytes, run.value_bytes


def _run(data: bytes, places: range, following: int) -> _Run | None:
    """The layout of records whose numbers in the batch count on from `following`."""
    _, after = read_varint(data, places.start)
    stamped = _stamps(data, places, after - places.start + 1)
    if stamped is None:
        return None
    stamps, place = stamped
    first, after = read_varint(data, places.start + place)
    if first != following or not counts_on(data, places, place, first):
        return None
    lengths = equal_lengths(data, places, after - places.start)
    return None if lengths is None else _Run(places, stamps, *lengths)


def _stamps(data: bytes, places: range, place: int) -> tuple[int | Numbers, int] | None:
    """The deltas at one place of each record, and the place after them; None as elsewhere."""
    stamp, after = read_varint(data, places.start + place)
    after -= places.start
    for at in range(place, after):
        octets = column(data, places, at)
        if octets.count(octets[:1]) != len(places):
            return equally_wide(data, places, place)
    return stamp, after
