"""Carries plans out for as long as one term of office lasts.

The controller holds one writer for each term. Every transaction carries the fence of the election,
so that nothing is written once another controller leads. A conflict is decided anew on a newer
view; an unknown outcome is read back and compared: nothing is repeated on hope.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from tidelog.errors import NotController, RequestTimedOut, StorageError
from tidelog_controller.core.plan import Transaction
from tidelog_runtime.cluster_mirror import ClusterMirror
from tidelog_runtime.cluster_state import CONTROLLER
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.metadata_store import (
    Committed,
    Conflict,
    Delete,
    DeletePrefix,
    MetadataStore,
    MetadataStoreError,
    Operation,
    Put,
    StoreOutcomeUnknown,
    StoreUnavailable,
)
from tidelog_runtime.metadata_store.election import Leadership

ATTEMPTS_MAX: Final = 10
_Result = TypeVar("_Result")


class FencedWriter:
    """Writes as the active controller. `deposed` is set once the fence has failed."""

    def __init__(self, store: MetadataStore, mirror: ClusterMirror, leadership: Leadership) -> None:
        self.deposed = asyncio.Event()
        self._store = store
        self._mirror = mirror
        self._leadership = leadership
        self._turn = asyncio.Lock()

    async def perform(
        self, decide: Callable[[ClusterView], tuple[_Result, Sequence[Transaction]]]
    ) -> _Result:
        """Decide on the present view and write what was decided; what was decided to answer.

        Raises what `decide` raises, NotController when this term is over, RequestTimedOut when it
        is not known whether the change was written, StorageError when certainly it was not.
        """
        async with self._turn:
            for _ in range(ATTEMPTS_MAX):
                if self.deposed.is_set():
                    break
                result, transactions = decide(self._mirror.view)
                if await self._carry_out(transactions):
                    return result
        raise NotController(
            "This controller was replaced while it worked on the request",
            hint="Repeat the request: it goes to the new one",
        )

    async def _carry_out(self, transactions: Sequence[Transaction]) -> bool:
        for transaction in transactions:
            outcome = await self._commit(transaction)
            await self._mirror.wait_for(outcome.revision)
            if isinstance(outcome, Conflict):
                await self._check_fence()
                return False
        return True

    async def _commit(self, transaction: Transaction) -> Committed | Conflict:
        compares = (self._leadership.fence, *transaction.compares)
        try:
            return await self._store.commit(compares, transaction.operations)
        except StoreOutcomeUnknown as unknown:
            return await self._read_back(transaction, unknown)
        except StoreUnavailable as unavailable:
            raise StorageError(
                "The cluster's metadata cannot be written at the moment; nothing was changed",
                cause=str(unavailable),
                hint="Repeat the request",
            ) from unavailable

    async def _read_back(self, transaction: Transaction, unknown: StoreOutcomeUnknown) -> Committed:
        """It stands there as a whole, or it is not known whether it still comes."""
        stands = False
        with contextlib.suppress(MetadataStoreError):
            stands = all([await self._stands(operation) for operation in transaction.operations])
        if not stands:
            raise RequestTimedOut(
                "It is not known whether the change was written to the cluster's metadata",
                cause=str(unknown),
                hint="Look at the cluster before you repeat the request",
            ) from unknown
        return Committed((await self._store.range(CONTROLLER)).revision)

    async def _stands(self, operation: Operation) -> bool:
        match operation:
            case Put(key=key, value=value):
                item = await self._store.get(key)
                return item is not None and item.value == value
            case Delete(key=key):
                return await self._store.get(key) is None
            case DeletePrefix(prefix=prefix):
                return not (await self._store.range(prefix)).items

    async def _check_fence(self) -> None:
        leader = await self._store.get(self._leadership.key)
        if leader is None or leader.create_revision != self._leadership.create_revision:
            self.deposed.set()
