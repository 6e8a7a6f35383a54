"""Produce requests that wait for commits: who is answered when, and once only."""

from __future__ import annotations

from tidelog.errors import RequestTimedOut, StorageError
from tidelog.model import Offset
from tidelog_broker.partition.waiting import CommitQueue, PendingProduce


class Finished:
    """Remembers which requests were finished."""

    def __init__(self) -> None:
        self.requests: list[PendingProduce] = []

    def __call__(self, pending: PendingProduce) -> None:
        self.requests.append(pending)


def test_a_request_finishes_when_its_last_partition_commits() -> None:
    finished = Finished()
    pending = PendingProduce(finished)
    first, second = CommitQueue(), CommitQueue()
    first.wait(Offset(3), pending, 0)
    second.wait(Offset(5), pending, 1)
    pending.close()
    first.release(Offset(3))
    assert finished.requests == []
    second.release(Offset(4))
    assert finished.requests == []
    second.release(Offset(9))
    assert finished.requests == [pending]
    assert pending.failures == {}


def test_a_commit_releases_only_what_lies_below_it() -> None:
    finished = Finished()
    queue = CommitQueue()
    waiting = [PendingProduce(finished) for _ in range(3)]
    for end, pending in zip((1, 2, 3), waiting, strict=True):
        queue.wait(Offset(end), pending, 0)
        pending.close()
    queue.release(Offset(2))
    assert finished.requests == waiting[:2]
    assert len(queue) == 1


def test_a_repeated_batch_waits_below_what_came_after_it() -> None:
    finished = Finished()
    queue = CommitQueue()
    later, repeated = PendingProduce(finished), PendingProduce(finished)
    queue.wait(Offset(9), later, 0)
    queue.wait(Offset(4), repeated, 0)
    later.close()
    repeated.close()
    queue.release(Offset(5))
    assert finished.requests == [repeated]
    queue.release(Offset(9))
    assert finished.requests == [repeated, later]


def test_failure_reaches_everything_that_waits_once() -> None:
    finished = Finished()
    queue = CommitQueue()
    pending = PendingProduce(finished)
    queue.wait(Offset(1), pending, 7)
    pending.close()
    failure = StorageError("the disk is gone")
    queue.fail_all(failure)
    queue.release(Offset(1))
    assert finished.requests == [pending]
    assert pending.failures == {7: failure}


def test_a_failure_while_batches_are_written_waits_for_those_behind_it() -> None:
    finished = Finished()
    failing, sound = CommitQueue(), CommitQueue()
    pending = PendingProduce(finished)
    failing.wait(Offset(1), pending, 0)
    failure = StorageError("the disk is gone")
    failing.fail_all(failure)
    sound.wait(Offset(1), pending, 2)
    pending.close()
    assert finished.requests == []
    sound.release(Offset(1))
    assert finished.requests == [pending]
    assert pending.failures == {0: failure}


def test_a_failure_of_the_last_that_waits_is_told_when_all_are_written() -> None:
    finished = Finished()
    queue = CommitQueue()
    pending = PendingProduce(finished)
    queue.wait(Offset(1), pending, 0)
    queue.fail_all(StorageError("the disk is gone"))
    assert finished.requests == []
    pending.close()
    assert finished.requests == [pending]
    assert set(pending.failures) == {0}


def test_what_has_expired_is_not_answered_again() -> None:
    finished = Finished()
    queue = CommitQueue()
    pending = PendingProduce(finished)
    queue.wait(Offset(1), pending, 0)
    pending.close()
    pending.expire(RequestTimedOut())
    queue.release(Offset(1))
    assert finished.requests == [pending]
    assert set(pending.failures) == {0}


def test_nobody_is_told_after_the_caller_has_gone() -> None:
    finished = Finished()
    queue = CommitQueue()
    pending = PendingProduce(finished)
    queue.wait(Offset(1), pending, 0)
    pending.close()
    pending.abandon()
    queue.release(Offset(1))
    assert finished.requests == []
