"""A lease that is kept alive while its owner lives: brokers and controllers hold one each.

`lost` is set once the lease can no longer be counted on; its owner then acts as if it were dead
already. The deadline is local and counts from before a renewal was sent, so that an owner never
believes in its lease for longer than the store does.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tidelog_runtime.metadata_store.errors import LeaseLost, MetadataStoreError
from tidelog_runtime.metadata_store.interface import LeaseId, MetadataStore

RENEWALS_PER_TTL: Final = 3
RETRY_AFTER_S: Final = 0.2


class Session:
    """A lease and the task that renews it. `open_session` makes one."""

    def __init__(self, store: MetadataStore, lease_id: LeaseId, ttl_s: float, sent: float) -> None:
        self.lease_id = lease_id
        self.lost = asyncio.Event()
        self._store = store
        self._ttl_s = ttl_s
        self._deadline = sent + ttl_s
        self._renewals = asyncio.create_task(self._renew(), name=f"lease-{lease_id}")

    async def close(self) -> None:
        """Give the lease back: its keys go at once. Raises StoreUnavailable when they cannot."""
        self._renewals.cancel()
        await asyncio.gather(self._renewals, return_exceptions=True)
        self.lost.set()
        await self._store.revoke_lease(self.lease_id)

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = self._ttl_s / RENEWALS_PER_TTL
        try:
            while True:
                await asyncio.sleep(min(pause_s, self._deadline - loop.time()))
                sent = loop.time()
                if sent >= self._deadline:
                    return
                pause_s = RETRY_AFTER_S
                if await self._renewed():
                    self._deadline = sent + self._ttl_s
                    pause_s = self._ttl_s / RENEWALS_PER_TTL
        finally:
            self.lost.set()

    async def _renewed(self) -> bool:
        """One try. LeaseLost ends the session; a try that failed otherwise may be repeated."""
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._store.keep_lease(self.lease_id)
        except (MetadataStoreError, TimeoutError) as error:
            if isinstance(error, LeaseLost):
                self._deadline = asyncio.get_running_loop().time()
            return False
        return True


async def open_session(store: MetadataStore, *, ttl_ms: int) -> Session:
    """Grant a lease and keep it."""
    sent = asyncio.get_running_loop().time()
    lease_id = await store.grant_lease(ttl_ms)
    return Session(store, lease_id, ttl_ms / 1_000, sent)
