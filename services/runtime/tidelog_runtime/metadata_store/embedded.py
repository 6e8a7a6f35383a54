"""The metadata store of a one-process cluster: the whole state in memory, one file behind it.

The composition root opens it on the node's own disk where no etcd is configured. One writer task
takes whatever transactions wait, stages them in order, appends them as one frame, syncs once,
publishes, and answers: nothing is shown to anybody before it is durable. Whoever held a lease lived
in this process, so opening the store ends the leases that an earlier process left.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog_runtime.disk import Disk
from tidelog_runtime.metadata_store.errors import (
    LeaseLost,
    StoreOutcomeUnknown,
    StoreUnavailable,
)
from tidelog_runtime.metadata_store.history import History
from tidelog_runtime.metadata_store.interface import (
    NO_LEASE,
    Committed,
    Compare,
    Conflict,
    EventBatch,
    Item,
    LeaseId,
    Operation,
    Put,
    RangeResult,
    check_transaction,
)
from tidelog_runtime.metadata_store.leases import Leases
from tidelog_runtime.metadata_store.log_file import Growth, StoreLog
from tidelog_runtime.metadata_store.state import KeyValueState, Stage

logger = logging.getLogger(__name__)

DEFAULT_PATH: Final = "metadata/store.log"
_RETRY_END_OF_LEASE_S: Final = 1.0

_Outcome = asyncio.Future[Committed | Conflict]
_Verdict = EventBatch | Conflict | LeaseLost


@dataclass(frozen=True, slots=True)
class _Request:
    """A transaction, or the end of a lease, that waits for the writer."""

    outcome: _Outcome
    compares: Sequence[Compare] = ()
    operations: Sequence[Operation] = ()
    ended_lease: LeaseId = NO_LEASE


class EmbeddedMetadataStore:
    """Implements `MetadataStore`. Call `open` first; `close` when every user of it has stopped."""

    def __init__(
        self,
        disk: Disk,
        *,
        path: str = DEFAULT_PATH,
        history_events_max: int = 20_000,
        growth: Growth | None = None,
    ) -> None:
        self._log = StoreLog(disk, path, growth or Growth())
        self._history_events_max = history_events_max
        self._state = KeyValueState()
        self._history = History(0, events_max=history_events_max)
        self._leases = Leases(self._end_lease_later)
        self._requests: asyncio.Queue[_Request | None] = asyncio.Queue()
        self._published = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._fault = "The metadata store is not open"

    async def open(self) -> None:
        """Recover what is on the disk; StoreCorrupt, an OSError or StoreUnavailable stop it."""
        self._state = await self._recover()
        self._history = History(self._state.revision, events_max=self._history_events_max)
        self._fault = ""
        self._writer = asyncio.create_task(self._write(), name="metadata-store-writer")
        orphans = {item.lease_id for item in self._state.items.values()} - {NO_LEASE}
        for lease_id in sorted(orphans):
            await self._request(ended_lease=lease_id)

    async def _recover(self) -> KeyValueState:
        """What is on the disk.

        A thread reads and mends it, which goes on when this is cancelled. So that is waited for:
        the next to happen may be that the directory's lock is given back.
        """
        recovering = asyncio.get_running_loop().run_in_executor(None, self._log.recover)
        try:
            return await asyncio.shield(recovering)
        except asyncio.CancelledError:
            await asyncio.wait([recovering])
            recovering.exception()  # asked for, since asyncio complains of what nobody asks for
            self._log.close()
            raise

    async def close(self) -> None:
        """Finish what was asked, then give the file back. Watches end with StoreUnavailable."""
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        self._leases.close()
        self._requests.put_nowait(None)
        await writer
        if not self._fault:
            # All that was answered is durable already; this is for the last mark alone.
            with contextlib.suppress(OSError):
                await asyncio.get_running_loop().run_in_executor(None, self._log.sync)
        self._stop_serving("The metadata store is closed")
        self._log.close()

    async def get(self, key: str) -> Item | None:
        """See `MetadataStore`."""
        return self._state.items.get(key)

    async def range(self, prefix: str) -> RangeResult:
        """See `MetadataStore`."""
        return RangeResult(self._state.revision, self._state.with_prefix(prefix))

    async def commit(
        self, compares: Sequence[Compare], operations: Sequence[Operation]
    ) -> Committed | Conflict:
        """See `MetadataStore`."""
        check_transaction(compares, operations)
        return await self._request(compares=tuple(compares), operations=tuple(operations))

    async def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[EventBatch, None]:
        """See `MetadataStore`."""
        next_revision = from_revision
        while not self._fault:
            published = self._published
            batches = self._history.since(next_revision, prefix)
            next_revision = max(next_revision, self._state.revision + 1)
            for batch in batches:
                yield batch
            await published.wait()
        raise StoreUnavailable(self._fault)

    async def grant_lease(self, ttl_ms: int) -> LeaseId:
        """See `MetadataStore`."""
        self._check_serving()
        return self._leases.grant(ttl_ms)

    async def keep_lease(self, lease_id: LeaseId) -> None:
        """See `MetadataStore`."""
        self._check_serving()
        self._leases.keep(lease_id)

    async def revoke_lease(self, lease_id: LeaseId) -> None:
        """See `MetadataStore`."""
        self._check_serving()
        if self._leases.end(lease_id):
            await self._request(ended_lease=lease_id)

    def _check_serving(self) -> None:
        if self._fault or self._writer is None:
            raise StoreUnavailable(self._fault or "The metadata store is closing")

    async def _request(
        self,
        *,
        compares: Sequence[Compare] = (),
        operations: Sequence[Operation] = (),
        ended_lease: LeaseId = NO_LEASE,
    ) -> Committed | Conflict:
        self._check_serving()
        outcome: _Outcome = asyncio.get_running_loop().create_future()
        self._requests.put_nowait(_Request(outcome, compares, operations, ended_lease))
        # A caller that is cancelled only stops waiting; the writer finishes what it began.
        return await outcome

    def _end_lease_later(self, lease_id: LeaseId) -> None:
        """Have the keys of a lease deleted that nobody waits for."""
        if self._fault or self._writer is None:
            return
        outcome = asyncio.get_running_loop().create_future()
        outcome.cancel()
        self._requests.put_nowait(_Request(outcome, ended_lease=lease_id))

    async def _write(self) -> None:
        """The writer: one group of requests after the other until `close`."""
        group: list[_Request] = []
        try:
            while (first := await self._requests.get()) is not None:
                group = [first]
                closing = self._take_waiting(group)
                await self._write_group(group)
                if self._log.is_overgrown and not self._fault:
                    await self._replace_log()
                if closing:
                    return
        finally:
            waiting = [request for request in group if not request.outcome.done()]
            _fail(waiting, StoreOutcomeUnknown("The metadata store stopped while it was writing"))
            if self._writer is not None:
                self._stop_serving("The metadata store has stopped")

    def _take_waiting(self, group: list[_Request]) -> bool:
        """Add all that waits to the group; True when `close` was among it."""
        while not self._requests.empty():
            request = self._requests.get_nowait()
            if request is None:
                return True
            group.append(request)
        return False

    async def _write_group(self, group: list[_Request]) -> None:
        if self._fault:
            _fail(group, StoreUnavailable(self._fault))
            return
        stage = Stage(self._state)
        verdicts = [self._stage(request, stage) for request in group]
        if stage.batches and not await self._make_durable(stage.batches, group):
            return
        self._publish(stage.batches)
        for request, verdict in zip(group, verdicts, strict=True):
            _answer(request.outcome, verdict)

    def _stage(self, request: _Request, stage: Stage) -> _Verdict:
        if request.ended_lease != NO_LEASE:
            return stage.end_lease(request.ended_lease)
        try:
            for operation in request.operations:
                if isinstance(operation, Put):
                    self._leases.check(operation.lease_id)
        except LeaseLost as lost:
            return lost
        return stage.transact(request.compares, request.operations)

    async def _make_durable(self, batches: Sequence[EventBatch], group: list[_Request]) -> bool:
        """Append and sync; on a failure the whole group has its verdict."""
        try:
            self._log.append(batches)
        except OSError as error:
            refusal = StoreUnavailable("Cannot write the metadata store", cause=str(error))
            _fail(group, refusal)
            self._retry_ends_of_leases(group)
            return False
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._log.sync)
        except OSError as error:
            # What a failed sync left on the disk is unknown for good: it is never tried again.
            self._stop_serving(
                f"The metadata store could not be synced ({error}): restart the node"
            )
            _fail(group, StoreOutcomeUnknown(self._fault, cause=str(error)))
            return False
        self._log.synced()
        return True

    def _publish(self, batches: Sequence[EventBatch]) -> None:
        if not batches:
            return
        self._state.publish(batches)
        for batch in batches:
            self._history.add(batch)
        self._published.set()
        self._published = asyncio.Event()

    async def _replace_log(self) -> None:
        content = self._log.snapshot(self._state)
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._log.replace, content)
        except OSError as error:
            logger.warning("cannot write a snapshot of the metadata store: %s", error)
            try:
                self._log.postpone_replacing()
            except OSError as second_error:
                self._stop_serving(f"The metadata store cannot go on: {second_error}")

    def _retry_ends_of_leases(self, group: list[_Request]) -> None:
        loop = asyncio.get_running_loop()
        for request in group:
            if request.ended_lease != NO_LEASE:
                loop.call_later(_RETRY_END_OF_LEASE_S, self._end_lease_later, request.ended_lease)

    def _stop_serving(self, fault: str) -> None:
        self._fault = self._fault or fault
        waiting = []
        while not self._requests.empty():
            request = self._requests.get_nowait()
            waiting += [request] if request is not None else []
        _fail(waiting, StoreUnavailable(self._fault))
        self._published.set()


def _answer(outcome: _Outcome, verdict: _Verdict) -> None:
    if outcome.done():
        return
    match verdict:
        case EventBatch():
            outcome.set_result(Committed(verdict.revision))
        case Conflict():
            outcome.set_result(verdict)
        case LeaseLost():
            outcome.set_exception(verdict)


def _fail(group: Sequence[_Request], error: StoreUnavailable | StoreOutcomeUnknown) -> None:
    for request in group:
        if not request.outcome.done():
            request.outcome.set_exception(error)
