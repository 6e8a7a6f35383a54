"""How a broker enters the cluster: it writes its own registration, under its own lease.

The broker calls it at start, before it serves anything; the controller and everybody's view learn
of the broker through the key. The revision of that key is the broker's epoch: a quick restart
overwrites its own registration and gets a new one. Refused in words are a second broker of
the same id, another disk under a known id, a known disk under another id, and another flush.policy
than the cluster's.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.errors import InvalidConfig, InvalidRequest
from tidelog_runtime.cluster_state import (
    BROKER_STATES,
    LIVE_BROKERS,
    BrokerRegistration,
    BrokerState,
    broker_state_key,
    decode_broker_state,
    decode_registration,
    live_broker_key,
)
from tidelog_runtime.metadata_store.interface import (
    Absent,
    Committed,
    Compare,
    Delete,
    Item,
    LeaseId,
    MetadataStore,
    ModRevisionIs,
    Operation,
    Put,
)


async def register_broker(
    store: MetadataStore, registration: BrokerRegistration, lease_id: LeaseId
) -> int:
    """Enter the cluster; the broker's epoch.

    Raises InvalidConfig for another flush.policy than the cluster's, InvalidRequest where the
    broker is not the one that the cluster knows by this id, LeaseLost when the lease ended.
    """
    live_key = live_broker_key(registration.broker_id)
    state_key = broker_state_key(registration.broker_id)
    while True:
        state, live = await store.get(state_key), await store.get(live_key)
        _check_identity(registration, state, live)
        await _check_disk(store, registration)
        _check_flush_policy(registration, await _others(store, registration))
        compares: list[Compare] = [_unchanged(state_key, state), _unchanged(live_key, live)]
        operations: list[Operation] = [Put(live_key, registration.encode(), lease_id)]
        if state is None:
            operations.append(Put(state_key, BrokerState(registration.storage_uuid).encode()))
        outcome = await store.commit(compares, operations)
        if isinstance(outcome, Committed):
            await _withdraw_unless_it_fits(store, registration, outcome.revision)
            return outcome.revision


async def _withdraw_unless_it_fits(
    store: MetadataStore, registration: BrokerRegistration, broker_epoch: int
) -> None:
    """Two that came at once did not see each other: the later one sees the earlier one now."""
    others = await _others(store, registration)
    try:
        _check_flush_policy(
            registration, [other for other in others if other.broker_epoch < broker_epoch]
        )
    except InvalidConfig:
        key = live_broker_key(registration.broker_id)
        await store.commit([ModRevisionIs(key, broker_epoch)], [Delete(key)])
        raise


async def _others(
    store: MetadataStore, registration: BrokerRegistration
) -> list[BrokerRegistration]:
    live = await store.range(LIVE_BROKERS)
    brokers = [decode_registration(item) for item in live.items]
    return [broker for broker in brokers if broker.broker_id != registration.broker_id]


def _check_identity(
    registration: BrokerRegistration, state: Item | None, live: Item | None
) -> None:
    broker_id = registration.broker_id
    known = decode_broker_state(state).storage_uuid if state is not None else b""
    if known in (b"", registration.storage_uuid):
        return
    if live is not None:
        other = decode_registration(live)
        raise InvalidRequest(
            f"A broker with node.id={broker_id} is running already, at {other.host}:{other.port}",
            hint="Give each broker a node.id of its own",
        )
    raise InvalidRequest(
        f"The data directory (storage {registration.storage_uuid.hex()}) is not the one that the"
        f" cluster knows of broker {broker_id} (storage {known.hex()})",
        hint="Start the broker on its own data directory, or under a node.id that is not in use",
    )


async def _check_disk(store: MetadataStore, registration: BrokerRegistration) -> None:
    """What lies on a disk belongs to the broker that wrote it: under another id nobody finds it."""
    for item in (await store.range(BROKER_STATES)).items:
        other_id = int(item.key.removeprefix(BROKER_STATES))
        is_ours = decode_broker_state(item).storage_uuid == registration.storage_uuid
        if is_ours and other_id != registration.broker_id:
            raise InvalidRequest(
                f"The data directory is that of broker {other_id}, not of"
                f" node.id={registration.broker_id}",
                hint=f"Start it with node.id={other_id}, or broker {registration.broker_id} on a"
                " data directory of its own",
            )


def _check_flush_policy(
    registration: BrokerRegistration, others: Sequence[BrokerRegistration]
) -> None:
    for other in others:
        if other.flush_policy != registration.flush_policy:
            raise InvalidConfig(
                f"flush.policy={registration.flush_policy} of broker {registration.broker_id} is"
                f" not the cluster's: broker {other.broker_id} runs with {other.flush_policy}",
                hint=f"Set flush.policy={other.flush_policy}; to change it, stop all brokers first",
            )


def _unchanged(key: str, item: Item | None) -> Compare:
    return Absent(key) if item is None else ModRevisionIs(key, item.mod_revision)
