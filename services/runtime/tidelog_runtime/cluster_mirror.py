"""Keeps a `ClusterView` equal to the metadata store: reads everything once, then watches.

Each process runs one and shares its view among its services. It survives compaction, and a store
that cannot be reached for a while, by reading anew; from time to time it does so unasked, should a
watch ever have lost something.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from tidelog_runtime.cluster_state import META
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.metadata_store.errors import CompactedError, MetadataStoreError
from tidelog_runtime.metadata_store.interface import MetadataStore

logger = logging.getLogger(__name__)

RELIST_AFTER_S: Final = 300.0
RETRY_AFTER_S: Final = 0.5


class ClusterMirror:
    """The task that feeds a view. `view` is current up to `view.revision`."""

    def __init__(self, store: MetadataStore, *, relist_after_s: float = RELIST_AFTER_S) -> None:
        self.view = ClusterView()
        self._store = store
        self._relist_after_s = relist_after_s
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read everything, then follow. Raises what the first read raises."""
        assert self._task is None, "a mirror is started once"
        self.view.replace(await self._store.range(""))
        self._task = asyncio.create_task(self._follow(), name="cluster-mirror")

    async def stop(self) -> None:
        """Follow no longer; the view stays as it is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def wait_for(self, revision: int) -> ClusterView:
        """The view, once it is at this revision or beyond."""
        while self.view.revision < revision:
            await self._moved.wait()
        return self.view

    async def latest_revision(self) -> int:
        """The revision the store is at now: what was committed before this call lies below it."""
        return (await self._store.range(META)).revision

    async def _follow(self) -> None:
        while True:
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._relist_after_s):
                        await self._watch()
                self.view.replace(await self._store.range(""))
            except MetadataStoreError as error:
                logger.warning("cannot follow the metadata store, trying again: %s", error)
                await asyncio.sleep(RETRY_AFTER_S)
            except Exception:  # a fault of ours: a view that nobody feeds looks whole
                logger.exception("cannot take over the metadata store's changes, reading it anew")
                await asyncio.sleep(RETRY_AFTER_S)
            self._wake()

    async def _watch(self) -> None:
        with contextlib.suppress(CompactedError):  # the caller reads anew
            watch = self._store.watch("", self.view.revision + 1)
            async with contextlib.aclosing(watch) as batches:
                async for batch in batches:
                    self.view.apply(batch)
                    self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
