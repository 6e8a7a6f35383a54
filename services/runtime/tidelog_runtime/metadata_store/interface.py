"""The port behind which cluster metadata lies: etcd for a cluster, one file for a single node.

Controllers write topics and partitions through it, brokers register and mirror it. It is worded
as what we need: consistent reads of a prefix, compare-and-swap transactions, watches that skip
nothing, leases that take their keys along. Every write has a revision; revisions only grow. What
a read, a watch or a Committed shows is durable.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final, NewType, Protocol

LeaseId = NewType("LeaseId", int)
NO_LEASE: Final = LeaseId(0)

#: How many compares, and how many operations, one transaction may hold (etcd's limit is 128).
OPERATIONS_MAX: Final = 120
#: How many bytes of keys and values one transaction may hold (etcd refuses more than 1.5 MB).
TRANSACTION_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Item:
    """One key as it stands. `create_revision` changes only when the key was gone in between."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease_id: LeaseId = NO_LEASE


@dataclass(frozen=True, slots=True)
class RangeResult:
    """All keys of a prefix, sorted, as they stood together at one revision."""

    revision: int
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Absent:
    """The key does not exist."""

    key: str


@dataclass(frozen=True, slots=True)
class ModRevisionIs:
    """The key was last written at this revision."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class CreateRevisionIs:
    """The key was created at this revision: the fence of an election."""

    key: str
    revision: int


Compare = Absent | ModRevisionIs | CreateRevisionIs


@dataclass(frozen=True, slots=True)
class Put:
    """Write the key; with a lease it goes when the lease goes."""

    key: str
    value: bytes
    lease_id: LeaseId = NO_LEASE


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the key; nothing happens when it is not there."""

    key: str


@dataclass(frozen=True, slots=True)
class DeletePrefix:
    """Remove every key that begins with the prefix, as one operation however many there are."""

    prefix: str


Operation = Put | Delete | DeletePrefix


@dataclass(frozen=True, slots=True)
class Committed:
    """All compares held and all operations are durable."""

    revision: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """A compare did not hold at this revision; nothing was written."""

    revision: int


@dataclass(frozen=True, slots=True)
class Deleted:
    """A key is gone: deleted, or its lease ended."""

    key: str
    mod_revision: int


Event = Item | Deleted


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Everything that one transaction changed below a watched prefix."""

    revision: int
    events: tuple[Event, ...]


class MetadataStore(Protocol):
    """See the module. Failures are `MetadataStoreError`s."""

    async def get(self, key: str) -> Item | None:
        """The key as it stands, or None."""

    async def range(self, prefix: str) -> RangeResult:
        """All keys that begin with the prefix."""

    async def commit(
        self, compares: Sequence[Compare], operations: Sequence[Operation]
    ) -> Committed | Conflict:
        """Do all operations if all compares hold, else none.

        At most OPERATIONS_MAX of each, and no key may be touched twice: ValueError otherwise. When
        nothing changes (no operations, or deletes of what is not there) no revision is used.
        Raises LeaseLost for a put under a lease that is gone; StoreUnavailable when certainly
        nothing was written; StoreOutcomeUnknown when it may have been.
        """

    def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[EventBatch, None]:
        """Every change below the prefix from this revision on, in order, none left out.

        A reader may be as slow as it likes until history passes it by: then CompactedError.
        Close the generator (or cancel the task that reads it) to end the watch.
        """

    async def grant_lease(self, ttl_ms: int) -> LeaseId:
        """A new lease that ends `ttl_ms` after its last keep_lease, at the earliest."""

    async def keep_lease(self, lease_id: LeaseId) -> None:
        """Start its time anew; LeaseLost when it is gone already."""

    async def revoke_lease(self, lease_id: LeaseId) -> None:
        """End the lease now and delete its keys; no error when it is gone already."""


def check_transaction(compares: Sequence[Compare], operations: Sequence[Operation]) -> None:
    """ValueError where a transaction breaks a limit that some implementation has."""
    if len(compares) > OPERATIONS_MAX or len(operations) > OPERATIONS_MAX:
        raise ValueError(
            f"A transaction has {len(compares)} compares and {len(operations)} operations;"
            f" at most {OPERATIONS_MAX} of each are possible: split it"
        )
    touched = [operation.key for operation in operations if not isinstance(operation, DeletePrefix)]
    if len(set(touched)) != len(touched):
        raise ValueError(f"A transaction touches a key twice: {sorted(touched)}")
    for operation in operations:
        if isinstance(operation, DeletePrefix):
            inside = [key for key in touched if key.startswith(operation.prefix)]
            if inside:
                raise ValueError(f"DeletePrefix({operation.prefix!r}) covers {inside}")
    puts = [operation for operation in operations if isinstance(operation, Put)]
    size_bytes = sum(len(put.key) + len(put.value) for put in puts)
    if size_bytes > TRANSACTION_BYTES_MAX:
        raise ValueError(
            f"A transaction holds {size_bytes} bytes; at most {TRANSACTION_BYTES_MAX} are possible"
        )
