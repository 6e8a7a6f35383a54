"""Wall-clock time as a port: only record timestamps and retention may look at it.

Leases and timeouts run on the event loop's monotonic clock instead (`loop.time()`), since the
wall clock may jump. The simulator gives each node a clock that drifts.
"""

from __future__ import annotations

from typing import Protocol


class WallClock(Protocol):
    """The time people read off a watch."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC."""
