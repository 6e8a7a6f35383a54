"""Who is the one that acts: elections over one leased key, the same for every metadata store.

The controller campaigns here. A lease or an election is no mutual exclusion: what stops a leader
that was replaced without noticing is the `fence` that it puts into each of its transactions.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from tidelog_runtime.metadata_store.errors import CompactedError, StoreOutcomeUnknown
from tidelog_runtime.metadata_store.interface import (
    Absent,
    Committed,
    CreateRevisionIs,
    Delete,
    Deleted,
    Item,
    LeaseId,
    MetadataStore,
    Put,
)


@dataclass(frozen=True, slots=True)
class Leadership:
    """A won election; `create_revision` is the fencing token, higher with each new leader."""

    key: str
    create_revision: int
    lease_id: LeaseId

    @property
    def fence(self) -> CreateRevisionIs:
        """The compare that makes a transaction fail once somebody else leads."""
        return CreateRevisionIs(self.key, self.create_revision)


async def campaign(store: MetadataStore, key: str, value: bytes, lease_id: LeaseId) -> Leadership:
    """Wait until this candidate leads. LeaseLost when its lease ends before that."""
    while True:
        with contextlib.suppress(StoreOutcomeUnknown):  # the key itself tells what happened
            await store.commit([Absent(key)], [Put(key, value, lease_id)])
        holder = await store.get(key)
        if holder is not None and holder.lease_id == lease_id:
            return Leadership(key, holder.create_revision, lease_id)
        if holder is not None:
            await _wait_for_end(store, holder)


async def resign(store: MetadataStore, leadership: Leadership) -> bool:
    """Give the office up at once; False when it was lost already."""
    outcome = await store.commit([leadership.fence], [Delete(leadership.key)])
    return isinstance(outcome, Committed)


async def observe(store: MetadataStore, key: str) -> AsyncGenerator[Item | None, None]:
    """Who leads now, then each change: the key's item, or None while nobody does."""
    while True:
        result = await store.range(key)
        held = [item for item in result.items if item.key == key]
        yield held[0] if held else None
        with contextlib.suppress(CompactedError):  # a slow observer reads anew
            async with contextlib.aclosing(store.watch(key, result.revision + 1)) as batches:
                async for batch in batches:
                    for event in batch.events:
                        if event.key == key:
                            yield None if isinstance(event, Deleted) else event


async def _wait_for_end(store: MetadataStore, holder: Item) -> None:
    with contextlib.suppress(CompactedError):  # then the key is looked at anew anyway
        watch = store.watch(holder.key, holder.mod_revision + 1)
        async with contextlib.aclosing(watch) as batches:
            async for batch in batches:
                if any(event == Deleted(holder.key, batch.revision) for event in batch.events):
                    return
