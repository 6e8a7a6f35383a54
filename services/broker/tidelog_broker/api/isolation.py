"""The isolation level of a read, checked where `fetch`, its stream and `list_offsets` begin.

Without transactions nothing is undecided, so both levels read the same. Invariant: a level that
this broker doesn't know is refused, and not read as another.
"""

from __future__ import annotations

from tidelog.errors import InvalidRequest
from tidelog.wire.v1 import common_pb2


def check_isolation(level: int) -> None:
    """Refuses what is neither READ_UNCOMMITTED nor READ_COMMITTED."""
    if level not in common_pb2.IsolationLevel.values():
        known = ", ".join(
            f"{name} ({number})" for name, number in common_pb2.IsolationLevel.items()
        )
        raise InvalidRequest(
            f"isolation_level={level} is none that this broker knows", hint=f"Known are {known}"
        )
