"""P2: what was acknowledged is there in the end, at the offset that was told."""

from __future__ import annotations

from simulation.history import Batch, FinalLog, History


def check_durable(history: History) -> list[str]:
    """Acknowledged records that are missing, and log starts that moved unasked."""
    broken = []
    for batch in history.batches:
        if not history.is_promised(batch):
            continue
        final = history.final.get(batch.log)
        if final is not None:
            broken += _missing(batch, final)
        elif batch.log.topic_id not in history.deleted:
            broken.append(f"{batch} was acknowledged, and its partition is gone")
    for log, final in history.final.items():
        asked = max((trim.before_offset for trim in history.trims if trim.log == log), default=0)
        if final.log_start > asked and log.topic_id not in history.retained:
            broken.append(
                f"{log} begins at {final.log_start}, though at most {asked} was asked for"
            )
    return broken


def _missing(batch: Batch, final: FinalLog) -> list[str]:
    for place, value in enumerate(batch.values):
        offset = batch.base_offset + place
        if offset >= final.log_start and final.records.get(offset) != value:
            return [
                f"{batch} was acknowledged (acks={batch.acks.value}) at {batch.base_offset}:"
                f" {value[:24]!r} is not at {offset}, where {final.records.get(offset, b'')[:24]!r}"
                f" stands; the log holds {final.log_start} to {final.high_watermark}"
            ]
    return []
