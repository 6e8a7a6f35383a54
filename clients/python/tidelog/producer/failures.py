"""Batches that failed and that nobody has asked about: what leaving a producer must not hide.

`pipeline` adds each batch that was refused or is unknown; `close` and the context managers ask for
the sum. A failure that its handle, awaiting or callback has told of is not told again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tidelog.errors import OutcomeUnknown, Refused, TidelogError
from tidelog.wording import counted

if TYPE_CHECKING:
    from tidelog.producer.delivery import BatchDelivery

#: So many failed batches are remembered one by one; of more, only their number.
REMEMBERED_MAX: Final = 10_000
_NAMED_MAX: Final = 5
#: What a program can do to learn more; nothing to somebody at a terminal.
ASK_EACH: Final = "Ask each handle for its result(), or pass on_delivery, to learn of each record"


class Failures:
    """See the module."""

    def __init__(self) -> None:
        self._batches: list[BatchDelivery] = []
        self._forgotten = 0

    def add(self, batch: BatchDelivery) -> None:
        """A batch that was not acknowledged."""
        if len(self._batches) == REMEMBERED_MAX:
            kept = [batch for batch in self._batches if not batch.is_asked]
            self._batches = kept[REMEMBERED_MAX // 2 :] if len(kept) == REMEMBERED_MAX else kept
            self._forgotten += len(kept) - len(self._batches)
        self._batches.append(batch)

    def summary(self) -> TidelogError | None:
        """The error that tells of all of them; None when everybody was told."""
        untold = [batch for batch in self._batches if not batch.is_asked]
        if not untold:
            return None
        counts: Counter[tuple[str, str]] = Counter()
        for batch in untold:
            counts[f"{batch.topic}-{batch.partition}", type(batch.error).__name__] += batch.count
        named = [
            f"{count} for {partition} ({kind})"
            for (partition, kind), count in counts.most_common(_NAMED_MAX)
        ]
        if len(counts) > _NAMED_MAX:
            named.append("and others")
        if self._forgotten:
            named.append(f"and those of {self._forgotten} earlier batches")
        unknown = [b for b in untold if isinstance(b.error, OutcomeUnknown)]
        count = sum(counts.values())
        first = (unknown or untold)[0].error
        kind = OutcomeUnknown if unknown else Refused
        return kind(
            f"{counted(count, 'record')} {'was' if count == 1 else 'were'} not acknowledged:"
            f" {', '.join(named)}",
            cause=str(first),
            hint=ASK_EACH,
        )
