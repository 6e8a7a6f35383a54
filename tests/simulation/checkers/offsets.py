"""P7: an offset means one record for ever; readers meet no gap and never go back."""

from __future__ import annotations

from simulation.history import History, LogKey


def check_offsets(history: History) -> list[str]:
    """Offsets with two records, gaps, steps back, and log starts that came back down."""
    return [
        *_two_at_one(history),
        *_jumps_of_readers(history),
        *_unread_ends_of_spans(history),
        *_gaps_at_the_end(history),
        *_trimmed_and_back(history),
    ]


def _two_at_one(history: History) -> list[str]:
    broken = []
    holds: dict[tuple[LogKey, int], bytes] = {}
    for log, offset, value in history.placed():
        first = holds.setdefault((log, offset), value)
        if first != value:
            broken.append(f"{offset} of {log} held {first[:24]!r} and {value[:24]!r}")
    for batch in history.batches:
        if not history.is_promised(batch):
            continue
        for offset, value in enumerate(batch.values, batch.base_offset):
            held = holds.get((batch.log, offset))
            if held is not None and held != value:
                broken.append(f"{batch} was given {offset}, which holds {held[:24]!r}")
    return broken


def _jumps_of_readers(history: History) -> list[str]:
    broken = []
    positions: dict[tuple[str, LogKey, int], int] = {}
    for read in history.reads:
        place = (read.reader, read.log, read.session)
        expected = positions.get(place, read.offset)
        if read.offset != expected:
            broken.append(
                f"{read.reader} was at {expected} of {read.log} and was shown {read.offset}"
            )
        positions[place] = read.offset + 1
    return broken


def _unread_ends_of_spans(history: History) -> list[str]:
    """What lies between is found by the jumps of its reader."""
    reads: dict[tuple[LogKey, str, int], tuple[int, int]] = {}
    for read in history.reads:
        place = (read.log, read.reader, read.session)
        first, _ = reads.get(place, (read.offset, 0))
        reads[place] = first, read.offset
    broken = []
    for span in history.spans:
        where = f"{span.reader} read {span.log} from {span.first_offset}"
        nothing = span.first_offset, span.first_offset - 1
        begun, last = reads.get((span.log, span.reader, span.session), nothing)
        if begun != span.first_offset:
            broken.append(f"{where} on and was shown {begun} first")
        reached = last + 1
        if span.end_offset is not None and reached != max(span.end_offset, span.first_offset):
            broken.append(f"{where} to {span.end_offset} and got no further than {reached}")
    return broken


def _gaps_at_the_end(history: History) -> list[str]:
    broken = []
    for log, final in history.final.items():
        wanted = range(final.log_start, final.high_watermark)
        missing = [offset for offset in wanted if offset not in final.records]
        beyond = [offset for offset in final.records if offset not in wanted]
        if missing:
            broken.append(f"{log} has no record at {missing[:5]} of {wanted}")
        if beyond:
            broken.append(f"{log} gave records at {beyond[:5]}, outside {wanted}")
    return broken


def _trimmed_and_back(history: History) -> list[str]:
    broken = []
    for trim in history.trims:
        if trim.low_watermark < 0:
            continue
        for read in history.reads:
            late = read.log == trim.log and read.begun_s > trim.ended_s
            if late and read.offset < trim.low_watermark:
                broken.append(
                    f"{read.reader} was shown {read.offset} of {read.log}, which was deleted"
                    f" up to {trim.low_watermark} before"
                )
        final = history.final.get(trim.log)
        if final is not None and final.log_start < trim.low_watermark:
            broken.append(
                f"{trim.log} begins at {final.log_start}, and was deleted up to"
                f" {trim.low_watermark}"
            )
    return broken
