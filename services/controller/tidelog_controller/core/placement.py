"""Which broker holds which replica of a new partition.

Round robin over the brokers that live: leaders follow each other from a random start, and the
followers of neighbouring partitions are shifted against each other, so that the load of a broker
that fails spreads over all that remain. Racks come later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidelog.errors import InvalidReplicaAssignment, InvalidReplicationFactor, NotEnoughReplicas

REPLICATION_FACTOR_MAX = 32_767


class RandomSource(Protocol):
    """The chance that the core is given; `random.Random` fits."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to stop - 1."""

    def randbytes(self, count: int, /) -> bytes:
        """That many random bytes."""


def place(
    partitions: range, replication_factor: int, live_brokers: Sequence[int], random: RandomSource
) -> dict[int, tuple[int, ...]]:
    """Brokers for each of these partitions, the preferred leader first.

    Raises NotEnoughReplicas (retriable) while fewer brokers live than there are to be replicas.
    """
    check_replication_factor(replication_factor, live_brokers)
    brokers = sorted(live_brokers)
    start = random.randrange(len(brokers))
    shift = random.randrange(len(brokers))
    return {
        partition: _replicas(brokers, start + index, shift + index // len(brokers))[
            :replication_factor
        ]
        for index, partition in enumerate(partitions)
    }


def check_replication_factor(replication_factor: int, live_brokers: Sequence[int]) -> None:
    """Refuse what can never be, and what cannot be yet."""
    if not 1 <= replication_factor <= REPLICATION_FACTOR_MAX:
        raise InvalidReplicationFactor(
            f"A replication factor of {replication_factor} is not possible",
            hint=f"Accepted: 1 to {REPLICATION_FACTOR_MAX}",
        )
    if replication_factor > len(live_brokers):
        raise NotEnoughReplicas(
            f"A replication factor of {replication_factor} needs as many live brokers;"
            f" {len(live_brokers)} live at the moment",
            hint="Start more brokers, or ask for fewer replicas",
        )


def check_assignment(
    assignment: Mapping[int, Sequence[int]], partitions: range, live_brokers: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """A manual assignment to exactly these partitions, checked.

    Raises InvalidReplicaAssignment where it contradicts itself, NotEnoughReplicas (retriable)
    where a broker that it names does not live.
    """
    if sorted(assignment) != list(partitions):
        raise InvalidReplicaAssignment(
            f"The assignment of {len(assignment)} partitions does not fit",
            hint=f"It must be for {partitions.start} to {partitions.stop - 1}, each of them once",
        )
    sizes = {len(brokers) for brokers in assignment.values()}
    if len(sizes) > 1 or 0 in sizes:
        raise InvalidReplicaAssignment(
            "The assignment gives its partitions different numbers of replicas",
            hint="Give each partition the same number, at least 1",
        )
    for partition, brokers in assignment.items():
        if len(set(brokers)) != len(brokers):
            raise InvalidReplicaAssignment(
                f"The assignment puts two replicas of partition {partition} on one broker:"
                f" {list(brokers)}"
            )
    missing = sorted({broker for brokers in assignment.values() for broker in brokers})
    missing = [broker for broker in missing if broker not in live_brokers]
    if missing:
        raise NotEnoughReplicas(
            f"The assignment names brokers that do not live: {missing}",
            hint=f"These live: {sorted(live_brokers)}",
        )
    return {partition: tuple(assignment[partition]) for partition in partitions}


def _replicas(brokers: Sequence[int], first: int, shift: int) -> tuple[int, ...]:
    """All brokers, in the order in which they take the replicas of one partition."""
    count = len(brokers)
    leader = brokers[first % count]
    if count == 1:
        return (leader,)
    followers = [
        brokers[(first + 1 + (shift + number) % (count - 1)) % count] for number in range(count - 1)
    ]
    return (leader, *followers)
