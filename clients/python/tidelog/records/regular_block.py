"""Batches of records that count on, all of one layout, into Arrow columns by their runs alone.

`column_decoder` tries this before it decodes the numbers of each record: a megabyte of records of
1 KB is a thousand of them, too few for the sixty calls of NumPy that those take. Invariant: a batch
is taken only when every byte that is a number is what it must be, and gives the same columns as the
general way; anything else is left to that, which also has the words for errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
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


class _Batch(NamedTuple):
    """The records of one batch and their layouts."""

    body: BatchBody
    runs: list[_Run]


class RegularBlock:
    """The records of some batches. Offers what `column_decoder.Block` does."""

    __slots__ = ("_batches", "_count")

    def __init__(self, batches: list[_Batch]) -> None:
        self._batches = batches
        self._count = sum(int(batch.body.header.record_count) for batch in batches)

    def key(self) -> Any:
        """The column of keys."""
        spans = [
            Span(body.data, run.places, run.key_start)
            for body, runs in self._batches
            for run in runs
        ]
        return span_column(spans, self._batches[0].runs[0].key_bytes)

    def value(self) -> Any:
        """The column of values."""
        spans = [
            Span(body.data, run.places, run.value_start)
            for body, runs in self._batches
            for run in runs
        ]
        return span_column(spans, self._batches[0].runs[0].value_bytes)

    def offset(self) -> Any:
        """The column of offsets."""
        return of_numbers(_one_after_the_other(_offsets, self._batches), pa.int64())

    def timestamp_type(self) -> Any:
        """The column that says whose clock a timestamp is of."""
        return of_numbers(_one_after_the_other(_clocks, self._batches), pa.int32())

    def headers(self) -> Any:
        """The column of headers: regular records have none."""
        return no_headers(self._count)

    def milliseconds(self) -> Numbers:
        """The timestamps."""
        stamps: Numbers = _one_after_the_other(_milliseconds, self._batches)
        return stamps


def _one_after_the_other(made: Callable[[_Batch], Any], batches: list[_Batch]) -> Any:
    arrays = [made(batch) for batch in batches]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _offsets(batch: _Batch) -> Numbers:
    header = batch.body.header
    first = int(header.base_offset)
    return np.arange(first, first + int(header.record_count), dtype=np.int64)


def _clocks(batch: _Batch) -> npt.NDArray[np.int32]:
    header = batch.body.header
    stamped = int(header.attributes & LOG_APPEND_TIME_BIT != 0)
    return np.full(int(header.record_count), stamped, np.int32)


def _milliseconds(batch: _Batch) -> Numbers:
    header = batch.body.header
    if header.attributes & LOG_APPEND_TIME_BIT:
        return np.full(int(header.record_count), header.max_timestamp, np.int64)
    stamps = np.empty(int(header.record_count), np.int64)
    first = 0
    for run in batch.runs:
        last = first + len(run.places)
        stamps[first:last] = run.stamps
        first = last
    stamps += header.base_timestamp
    return stamps


def regular_block(
    bodies: list[BatchBody], record_starts: Callable[[BatchBody], Iterable[range | Numbers]]
) -> RegularBlock | None:
    """The batches, whose records begin at the places told; None where one is not regular."""
    batches: list[_Batch] = []
    for body in bodies:
        runs = _runs(body, record_starts(body))
        if runs is None or (batches and _lengths(runs[0]) != _lengths(batches[0].runs[0])):
            return None
        batches.append(_Batch(body, runs))
    return RegularBlock(batches)


def _runs(body: BatchBody, starts: Iterable[range | Numbers]) -> list[_Run] | None:
    runs: list[_Run] = []
    following = 0
    for places in starts:
        if not isinstance(places, range) or len(runs) == _MOST_RUNS:
            return None
        run = _run(body.data, places, following)
        if run is None or (runs and _lengths(run) != _lengths(runs[0])):
            return None
        runs.append(run)
        following += len(places)
    if following != body.header.record_count or following != body.header.last_offset_delta + 1:
        return None
    return runs or None


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
