"""The leases of the embedded store: who is alive, on the event loop's monotonic clock.

A lease that ran out, or was revoked, is handed to `on_end` once; the store then deletes its keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tidelog_runtime.metadata_store.errors import LeaseLost
from tidelog_runtime.metadata_store.interface import NO_LEASE, LeaseId


@dataclass(slots=True)
class _Lease:
    ttl_s: float
    timer: asyncio.TimerHandle


class Leases:
    """The live leases of one store."""

    def __init__(self, on_end: Callable[[LeaseId], None]) -> None:
        self._on_end = on_end
        self._live: dict[LeaseId, _Lease] = {}
        self._last_id = 0

    def grant(self, ttl_ms: int) -> LeaseId:
        """A new lease."""
        if ttl_ms <= 0:
            raise ValueError(f"A lease of {ttl_ms} ms ends before it begins")
        self._last_id += 1
        lease_id = LeaseId(self._last_id)
        ttl_s = ttl_ms / 1_000
        self._live[lease_id] = _Lease(ttl_s, self._timer(lease_id, ttl_s))
        return lease_id

    def keep(self, lease_id: LeaseId) -> None:
        """Start its time anew; LeaseLost when it is gone."""
        self.check(lease_id)
        lease = self._live[lease_id]
        lease.timer.cancel()
        lease.timer = self._timer(lease_id, lease.ttl_s)

    def check(self, lease_id: LeaseId) -> None:
        """LeaseLost unless the lease lives (or there is none to live)."""
        if lease_id != NO_LEASE and lease_id not in self._live:
            raise LeaseLost(f"Lease {lease_id} ran out or was revoked")

    def end(self, lease_id: LeaseId) -> bool:
        """Forget the lease without calling `on_end`; whether it was there."""
        lease = self._live.pop(lease_id, None)
        if lease is not None:
            lease.timer.cancel()
        return lease is not None

    def close(self) -> None:
        """Let no lease run out any more."""
        for lease in self._live.values():
            lease.timer.cancel()
        self._live.clear()

    def _timer(self, lease_id: LeaseId, ttl_s: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(ttl_s, self._run_out, lease_id)

    def _run_out(self, lease_id: LeaseId) -> None:
        if self.end(lease_id):
            self._on_end(lease_id)
