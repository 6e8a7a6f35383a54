"""What a decision comes to: transactions to be made one after the other, and what to answer then.

Every decision in this package returns a `Plan` or raises the refusal. The order is the contract:
a transaction is made only after the one before it was, and the last one makes the change visible.
What an interrupted plan leaves behind is invisible, and swept up by `orphans`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidelog_runtime.control import TopicOutcome
from tidelog_runtime.metadata_store import OPERATIONS_MAX, Compare, Operation

#: One compare of each transaction is the controller's own fence.
COMPARES_MAX: Final = OPERATIONS_MAX - 1


@dataclass(frozen=True, slots=True)
class Transaction:
    """Operations that happen together if all compares hold."""

    compares: tuple[Compare, ...]
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Transactions in their order, and the outcome once the last one is committed."""

    transactions: tuple[Transaction, ...]
    outcome: TopicOutcome


def in_transactions(
    prepare: Sequence[Operation], compare: Compare, publish: Operation
) -> tuple[Transaction, ...]:
    """As few transactions as possible: all of `prepare`, and in the last one also `publish`.

    Only the last one compares: what is prepared is seen by nobody before it.
    """
    operations = [*prepare, publish]
    chunks = [
        tuple(operations[begin : begin + OPERATIONS_MAX])
        for begin in range(0, len(operations), OPERATIONS_MAX)
    ]
    return (
        *(Transaction((), chunk) for chunk in chunks[:-1]),
        Transaction((compare,), chunks[-1]),
    )
