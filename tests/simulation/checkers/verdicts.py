"""P3: every batch has one verdict, and what was refused was not written."""

from __future__ import annotations

from simulation.history import Acks, Batch, History, LogKey, Verdict


def check_verdicts(history: History) -> list[str]:
    """Batches without a verdict, refused ones that were written, values that nobody sent."""
    broken = list(history.anomalies)
    sent: dict[tuple[LogKey, bytes], Batch] = {}
    for batch in history.batches:
        if batch.verdict is Verdict.OPEN:
            broken.append(f"{batch} never had a verdict")
        if batch.verdict is Verdict.OK and batch.acks is Acks.NONE:
            broken.append(f"{batch} was acknowledged, which it did not ask for")
        for value in batch.values:
            sent[batch.log, value] = batch
    told: dict[int, None] = {}
    for log, offset, value in history.placed():
        author = sent.get((log, value))
        if author is None:
            broken.append(f"nobody sent {value[:24]!r}, which stands at {offset} of {log}")
        elif author.verdict is Verdict.REFUSED and id(author) not in told:
            told[id(author)] = None
            broken.append(f"{author} was refused, and {value[:24]!r} stands at {offset}")
    return broken
