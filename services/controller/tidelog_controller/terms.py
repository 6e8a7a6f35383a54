"""Terms of office: campaign, take over, serve until the lease or the fence is lost, and again.

The controller owns one and asks it for the writer of the present term. A term begins with a view
that is at least as new as the election; nothing is served before the takeover is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from tidelog.errors import NotController, TidelogError
from tidelog_controller.fenced_writer import FencedWriter
from tidelog_runtime.cluster_mirror import ClusterMirror
from tidelog_runtime.cluster_state import CONTROLLER
from tidelog_runtime.lifecycle import Background
from tidelog_runtime.metadata_store import LeaseLost, MetadataStore, MetadataStoreError
from tidelog_runtime.metadata_store.election import Leadership, campaign
from tidelog_runtime.metadata_store.session import Session, open_session

logger = logging.getLogger(__name__)

LEASE_TTL_MS: Final = 10_000
RETRY_AFTER_S: Final = 1.0


class Terms:
    """One candidate's way through its elections."""

    def __init__(
        self,
        store: MetadataStore,
        mirror: ClusterMirror,
        take_over: Callable[[FencedWriter], Awaitable[None]],
        *,
        address: str,
        lease_ttl_ms: int,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._store = store
        self._mirror = mirror
        self._take_over = take_over
        self._address = address
        self._lease_ttl_ms = lease_ttl_ms
        self._writer: FencedWriter | None = None
        self._activated = asyncio.Event()
        self._stopping = asyncio.Event()
        self._background = Background(on_failure)
        self._task: asyncio.Task[None] | None = None

    @property
    def is_active(self) -> bool:
        """Whether a term is being served."""
        return self._activated.is_set()

    @property
    def writer(self) -> FencedWriter:
        """The writer of the present term; NotController where there is none."""
        if self._writer is None:
            raise NotController(
                "This controller is not the active one", hint="Repeat the request in a moment"
            )
        return self._writer

    def start(self) -> None:
        """Begin to campaign."""
        assert self._task is None, "a candidate is started once"
        self._task = self._background.spawn("controller-terms", self._serve_terms())

    async def wait_until_active(self) -> None:
        """Returns once a term is being served; raises when there will be none any more."""
        assert self._task is not None, "a candidate that was not started never becomes active"
        await _first_of(self._activated.wait(), asyncio.wait([self._task]))
        if not self._task.done():
            return
        failure = None if self._task.cancelled() else self._task.exception()
        raise NotController(
            "The controller ended, so it will not become active",
            cause=repr(failure) if failure is not None else "it was stopped",
        ) from failure

    async def stop(self) -> None:
        """End the present term and campaign no more."""
        self._stopping.set()
        if self._task is not None:
            # What it failed of was told when it did.
            await asyncio.wait([self._task])

    async def _serve_terms(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._serve_one_term()
            except TidelogError as error:
                # Whatever ended the term, the next one begins with a new election and a new view.
                logger.warning("the controller's term ended: %s", error)
                await _first_of(self._stopping.wait(), asyncio.sleep(RETRY_AFTER_S))

    async def _serve_one_term(self) -> None:
        session = await open_session(self._store, ttl_ms=self._lease_ttl_ms)
        try:
            leadership = await self._win(session)
            if leadership is not None:
                await self._serve(leadership, session)
        finally:
            self._writer = None
            self._activated.clear()
            # The lease ends by itself where the store cannot be told.
            with contextlib.suppress(MetadataStoreError):
                await session.close()

    async def _win(self, session: Session) -> Leadership | None:
        """The won election, or None when the controller is to stop before that."""
        won: list[Leadership] = []

        async def run() -> None:
            address = self._address.encode()
            won.append(await campaign(self._store, CONTROLLER, address, session.lease_id))

        await _first_of(run(), session.lost.wait(), self._stopping.wait())
        if session.lost.is_set():
            raise LeaseLost("The controller's lease ended while it campaigned")
        return won[0] if won else None

    async def _serve(self, leadership: Leadership, session: Session) -> None:
        await self._mirror.wait_for(leadership.create_revision)
        writer = FencedWriter(self._store, self._mirror, leadership)
        await self._take_over(writer)
        self._writer = writer
        self._activated.set()
        logger.info("this is the active controller now (token %d)", leadership.create_revision)
        await _first_of(session.lost.wait(), writer.deposed.wait(), self._stopping.wait())


async def _first_of(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all until one ends, then cancel the others; raises what the ended one raised."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
