"""What the leader of a partition decides: epochs, in-sync replicas, the high watermark.

Called by `partition.py`, which does what is decided here. Pure: no clock, no disk, no network, so
that the rules can be tested as tables and run under the simulator. The invariants it keeps:

- the high watermark is the least durable end over the committed and the pending in-sync replicas,
  moves only while the committed ones are at least `min.insync.replicas`, and never goes back;
- a request that knows another leader epoch than ours is fenced before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.errors import (
    FencedLeaderEpoch,
    LeaderNotAvailable,
    NotEnoughReplicas,
    NotLeader,
    UnknownLeaderEpoch,
)
from tidelog.model import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset


class PartitionCore:
    """The state of one partition as its own broker sees it."""

    __slots__ = (
        "_durable_ends",
        "_in_sync",
        "_min_in_sync",
        "_pending_in_sync",
        "alone",
        "broker_id",
        "high_watermark",
        "leader_epoch",
        "leader_id",
        "leads",
        "name",
    )

    def __init__(self, name: str, broker_id: BrokerId, high_watermark: Offset) -> None:
        self.name = name
        self.broker_id = broker_id
        self.high_watermark = high_watermark
        self.leader_id: BrokerId | None = None
        self.leader_epoch = NO_LEADER_EPOCH
        self._in_sync: frozenset[BrokerId] = frozenset()
        self._pending_in_sync: frozenset[BrokerId] = frozenset()
        self._min_in_sync = 1
        self._durable_ends: dict[BrokerId, Offset] = {}
        #: True while this broker leads; kept beside `leader_id` because every batch asks for it.
        self.leads = False
        #: True while no other replica holds the high watermark back.
        self.alone = False

    @property
    def in_sync(self) -> frozenset[BrokerId]:
        """The in-sync replicas the controller has committed."""
        return self._in_sync

    def apply_leadership(
        self,
        leader_id: BrokerId | None,
        leader_epoch: LeaderEpoch,
        in_sync: Iterable[BrokerId],
        own_durable_end: Offset,
    ) -> None:
        """Takes over what the controller decided; an older epoch than the known one is ignored."""
        if leader_epoch < self.leader_epoch:
            return
        new_leadership = leader_epoch > self.leader_epoch
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self._in_sync = frozenset(in_sync)
        self._pending_in_sync = frozenset()
        self.leads = leader_id == self.broker_id
        self._settle_alone()
        if new_leadership:
            # What followers held under another leader says nothing about this one.
            self._durable_ends = {}
        if self.leads:
            self._durable_ends[self.broker_id] = own_durable_end

    def set_min_in_sync(self, replicas: int) -> None:
        """Follows the topic's min.insync.replicas."""
        self._min_in_sync = replicas
        self._settle_alone()

    def _settle_alone(self) -> None:
        self.alone = (
            self.leads
            and self._in_sync == {self.broker_id}
            and not self._pending_in_sync
            and self._min_in_sync <= 1
        )

    def resign(self) -> None:
        """Gives up leading, until the controller says otherwise (a faulty disk, a shutdown)."""
        self.leader_id = None
        self.leads = False
        self.alone = False

    def check_leader(self, known_epoch: int | None) -> None:
        """Refuses a request that isn't for this leader, or not for this epoch of it."""
        if not self.leads:
            if self.leader_id is None:
                raise LeaderNotAvailable(f"Partition {self.name} has no leader at this moment")
            raise NotLeader(
                f"Broker {self.broker_id} does not lead {self.name}; broker {self.leader_id} does"
            )
        if known_epoch is None or known_epoch == self.leader_epoch:
            return
        if known_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(
                f"{self.name} is at leader epoch {self.leader_epoch}, the request knows"
                f" {known_epoch}"
            )
        raise UnknownLeaderEpoch(
            f"{self.name} is at leader epoch {self.leader_epoch} here, the request knows"
            f" {known_epoch}: this broker has yet to hear of it"
        )

    def check_enough_in_sync(self) -> None:
        """Refuses acks=all before anything is written when too few replicas are in sync."""
        if len(self._in_sync) < self._min_in_sync:
            raise NotEnoughReplicas(
                f"{self.name} has {len(self._in_sync)} in-sync replicas,"
                f" min.insync.replicas is {self._min_in_sync}"
            )

    def record_durable(self, replica: BrokerId, end: Offset) -> bool:
        """Notes how far a replica's log is durable; True when the high watermark moved."""
        if self.alone and replica == self.broker_id:
            least = end
        else:
            self._durable_ends[replica] = end
            if not self.leads or len(self._in_sync) < self._min_in_sync:
                return False
            members = self._in_sync | self._pending_in_sync
            least = min([self._durable_ends.get(member, Offset(-1)) for member in members])
        if least <= self.high_watermark:
            return False
        self.high_watermark = least
        return True
