"""P9: after any kill the node comes back by itself, soon."""

from __future__ import annotations

from simulation.history import History


def check_restart(history: History) -> list[str]:
    """Recoveries that took too long (one that never ended has an endless time)."""
    return [
        f"the node served again after {took_s} s; {limit_s} s were allowed"
        for took_s, limit_s in history.recoveries_s
        if took_s > limit_s
    ]
