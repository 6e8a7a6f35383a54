"""P1: records of one producer to one partition stand in the order in which they were sent."""

from __future__ import annotations

from simulation.history import Batch, History, LogKey


def check_order(history: History) -> list[str]:
    """Where a later batch stands before an earlier one, or a batch is torn apart."""
    offsets: dict[LogKey, dict[bytes, int]] = {}
    for log, offset, value in history.placed():
        offsets.setdefault(log, {})[value] = offset
    broken: list[str] = []
    highest: dict[tuple[str, LogKey], tuple[int, Batch]] = {}
    for batch in sorted(history.batches, key=lambda one: (one.producer, one.log, one.number)):
        base_offset = _base_offset(batch, offsets.get(batch.log, {}), history, broken)
        if base_offset is None:
            continue
        before = highest.get((batch.producer, batch.log))
        if before is not None and base_offset < before[0]:
            broken.append(
                f"{batch} stands at {base_offset}, before {before[1]}, which reaches {before[0]}"
            )
        highest[batch.producer, batch.log] = base_offset + len(batch.values), batch
    return broken


def _base_offset(
    batch: Batch, offsets: dict[bytes, int], history: History, broken: list[str]
) -> int | None:
    """Where the batch begins by what was read, or by what was promised."""
    bases = {offsets[value] - place for place, value in enumerate(batch.values) if value in offsets}
    if len(bases) > 1:
        broken.append(f"{batch} is torn: its records do not follow each other")
    if bases:
        return min(bases)
    return batch.base_offset if history.is_promised(batch) else None
