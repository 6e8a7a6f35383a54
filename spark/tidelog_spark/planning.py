"""How much a micro-batch takes and how it is cut into tasks: arithmetic over offsets, no more.

The stream reader limits with `share_out`, both readers cut with `split_ranges`. Pure. Invariants:
the cut ranges tile the whole ones exactly, whatever the limits; a share never passes the end and
leaves nothing that waits without a share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from tidelog.model import TopicPartition
from tidelog_spark.offsets import Offsets


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition from `start` up to and without `end`."""

    partition: TopicPartition
    topic_id: str
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets it spans."""
        return self.end - self.start


def share_out(limit: int, start: Mapping[TopicPartition, int], end: Offsets) -> Offsets:
    """Ends that take about `limit` offsets, from each partition in proportion to its backlog.

    Whatever waits gets one offset at least, so that a small partition never starves.
    """
    sizes = {one: end[one] - start[one] for one in end if end[one] > start[one]}
    total = sum(sizes.values())
    if total <= limit:
        return end
    ends = dict(end)
    for one, size in sizes.items():
        ends[one] = min(end[one], start[one] + max(1, limit * size // total))
    return ends


def split_ranges(
    ranges: list[OffsetRange], partitions_min: int | None, records_max: Mapping[TopicPartition, int]
) -> list[OffsetRange]:
    """The ranges cut for tasks; empty ones fall away.

    First each is cut into equal parts of at most `records_max` of its partition, then large ones
    are cut in proportion to their size until there are about `partitions_min` in all. Small ones
    are set aside before, so that one large partition does not take the parts of the others.
    """
    whole = [one for one in ranges if one.size > 0]
    pieces = []
    for one in whole:
        limit = records_max.get(one.partition, one.size)
        pieces += _cut(one, -(-one.size // limit))
    if partitions_min is None or len(pieces) >= partitions_min:
        return pieces
    total = sum(piece.size for piece in pieces)
    small = [piece for piece in pieces if _parts(piece.size, total, partitions_min) == 1]
    left = max(partitions_min - len(small), 1)
    large_total = total - sum(piece.size for piece in small)
    set_aside = set(small)
    cut = []
    for piece in pieces:
        parts = 1 if piece in set_aside else _parts(piece.size, large_total, left)
        cut += _cut(piece, parts)
    return cut


def _parts(size: int, total: int, wanted: int) -> int:
    return max(1, math.floor(size / total * wanted + 0.5))


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Equal parts, none empty."""
    parts = min(parts, whole.size)
    edges = [whole.start + whole.size * index // parts for index in range(parts + 1)]
    return [replace(whole, start=first, end=last) for first, last in pairwise(edges)]
