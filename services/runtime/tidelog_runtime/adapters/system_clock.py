"""The machine's own wall clock."""

from __future__ import annotations

import time


class SystemClock:
    """`WallClock` of the real world."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC."""
        return time.time_ns() // 1_000_000
