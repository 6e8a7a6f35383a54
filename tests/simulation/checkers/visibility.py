"""P4: a reader is shown only what lies below the high watermark, and so never goes away."""

from __future__ import annotations

from simulation.history import History


def check_visibility(history: History) -> list[str]:
    """Records shown too early, and records that were shown and are not there in the end."""
    broken = []
    for read in history.reads:
        if read.offset >= read.high_watermark:
            broken.append(
                f"{read.reader} was shown {read.offset} of {read.log},"
                f" whose high watermark was {read.high_watermark}"
            )
        final = history.final.get(read.log)
        if final is None or read.offset < final.log_start:
            continue
        if final.records.get(read.offset) != read.value:
            broken.append(
                f"{read.reader} was shown {read.value[:24]!r} at {read.offset} of {read.log}"
                f" at t={read.begun_s}, which is not there in the end"
            )
    return broken
