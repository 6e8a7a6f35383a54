"""Wall clocks that drift and jump, as those of real machines do.

Record timestamps come from a wall clock, timeouts never. Each simulated host gets its own, so that
nothing can rely on two of them agreeing.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

#: An arbitrary moment (2030-01-01 UTC) at which simulations begin.
SIMULATION_BEGINS_MS = 1_893_456_000_000


class DriftingClock:
    """Milliseconds since 1970 as one machine believes them."""

    def __init__(
        self,
        now: Callable[[], float],
        random: Random,
        *,
        offset_s_max: float = 2.0,
        drift_ppm_max: float = 200.0,
    ) -> None:
        self._now = now
        self._offset_s = random.uniform(-offset_s_max, offset_s_max)
        self._rate = 1.0 + random.uniform(-drift_ppm_max, drift_ppm_max) / 1e6

    def now_ms(self) -> int:
        """What this machine's clock shows."""
        return SIMULATION_BEGINS_MS + round((self._now() * self._rate + self._offset_s) * 1000)

    def jump(self, seconds: float) -> None:
        """Somebody (an operator, NTP) sets the clock; back is possible too."""
        self._offset_s += seconds
