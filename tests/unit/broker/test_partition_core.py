"""What a partition's leader decides: fencing, in-sync replicas, the high watermark."""

from __future__ import annotations

import pytest

from tidelog.errors import (
    FencedLeaderEpoch,
    LeaderNotAvailable,
    NotEnoughReplicas,
    NotLeader,
    UnknownLeaderEpoch,
)
from tidelog.model import BrokerId, LeaderEpoch, Offset
from tidelog_broker.partition.core import PartitionCore

ME, OTHER, THIRD = BrokerId(1), BrokerId(2), BrokerId(3)


def leading(
    in_sync: tuple[BrokerId, ...] = (ME,), *, min_in_sync: int = 1, epoch: int = 5
) -> PartitionCore:
    core = PartitionCore("orders-0", ME, Offset(0))
    core.set_min_in_sync(min_in_sync)
    core.apply_leadership(ME, LeaderEpoch(epoch), in_sync, Offset(0))
    return core


def test_a_partition_without_a_leader_asks_to_try_again() -> None:
    core = PartitionCore("orders-0", ME, Offset(0))
    with pytest.raises(LeaderNotAvailable, match="orders-0"):
        core.check_leader(None)


def test_a_follower_names_the_leader() -> None:
    core = PartitionCore("orders-0", ME, Offset(0))
    core.apply_leadership(OTHER, LeaderEpoch(1), (OTHER, ME), Offset(0))
    with pytest.raises(NotLeader, match="broker 2 does"):
        core.check_leader(None)


def test_epochs_fence_in_both_directions() -> None:
    core = leading(epoch=5)
    core.check_leader(None)
    core.check_leader(5)
    with pytest.raises(FencedLeaderEpoch):
        core.check_leader(4)
    with pytest.raises(UnknownLeaderEpoch):
        core.check_leader(6)


def test_an_older_decision_of_the_controller_is_ignored() -> None:
    core = leading(epoch=5)
    core.apply_leadership(OTHER, LeaderEpoch(4), (OTHER,), Offset(0))
    assert core.leads
    assert core.leader_epoch == 5


def test_the_high_watermark_is_the_least_durable_end_in_sync() -> None:
    core = leading((ME, OTHER, THIRD), min_in_sync=2)
    assert not core.record_durable(ME, Offset(10))
    assert not core.record_durable(OTHER, Offset(7))
    assert core.record_durable(THIRD, Offset(4))
    assert core.high_watermark == 4
    assert core.record_durable(THIRD, Offset(20))
    assert core.high_watermark == 7


def test_a_replica_out_of_sync_does_not_hold_the_watermark_back() -> None:
    core = leading((ME, OTHER))
    core.record_durable(THIRD, Offset(1))
    core.record_durable(ME, Offset(9))
    core.record_durable(OTHER, Offset(9))
    assert core.high_watermark == 9


def test_the_watermark_stands_still_below_min_in_sync() -> None:
    core = leading((ME,), min_in_sync=2)
    assert not core.record_durable(ME, Offset(10))
    assert core.high_watermark == 0
    with pytest.raises(NotEnoughReplicas, match=r"min\.insync\.replicas is 2"):
        core.check_enough_in_sync()


def test_the_watermark_never_goes_back() -> None:
    core = leading()
    core.record_durable(ME, Offset(10))
    assert not core.record_durable(ME, Offset(6))
    assert core.high_watermark == 10


def test_what_followers_held_under_an_older_leadership_counts_no_more() -> None:
    core = leading((ME, OTHER))
    core.record_durable(OTHER, Offset(50))
    core.apply_leadership(ME, LeaderEpoch(6), (ME, OTHER), Offset(40))
    assert not core.record_durable(ME, Offset(45))
    assert core.high_watermark == 0


def test_one_who_resigned_moves_nothing() -> None:
    core = leading()
    core.resign()
    assert not core.record_durable(ME, Offset(10))
    with pytest.raises(LeaderNotAvailable):
        core.check_leader(None)
