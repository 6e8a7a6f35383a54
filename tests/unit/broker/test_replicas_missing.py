"""What a request is told for a partition that is not served here: the reason, and no other one."""

from __future__ import annotations

import pytest

from tidelog.errors import (
    LogCorrupt,
    NotLeader,
    StorageError,
    UnknownTopic,
    UnknownTopicId,
)
from tidelog.model import PartitionId, TopicId
from tidelog_broker.partition.replicas import Replicas
from tidelog_runtime.principal import ANONYMOUS

ID = TopicId(b"i" * 16)
OLD_ID = TopicId(b"o" * 16)
NO_ID = TopicId(b"")


@pytest.fixture
def replicas() -> Replicas:
    """Knows one topic of two partitions, the first of which could not be opened."""
    found = Replicas()
    found.know_topic("orders", ID, 2)
    found.add_failure(PartitionId(ID, 0), StorageError("no space"))
    return found


@pytest.mark.parametrize(("name", "topic_id"), [("orders", NO_ID), ("orders", ID), ("", ID)])
def test_a_partition_that_could_not_be_opened_exists(
    replicas: Replicas, name: str, topic_id: TopicId
) -> None:
    with pytest.raises(StorageError, match=r"orders-0 could not be opened.*no space"):
        replicas.find(name, topic_id, 0, ANONYMOUS)
    with pytest.raises(NotLeader):
        replicas.find(name, topic_id, 1, ANONYMOUS)
    with pytest.raises(UnknownTopic, match="no partition 2"):
        replicas.find(name, topic_id, 2, ANONYMOUS)


def test_an_earlier_topic_of_the_name_is_gone(replicas: Replicas) -> None:
    with pytest.raises(UnknownTopicId, match="another one"):
        replicas.find("orders", OLD_ID, 0, ANONYMOUS)
    with pytest.raises(UnknownTopicId, match="No topic has the id"):
        replicas.find("", OLD_ID, 0, ANONYMOUS)


def test_a_deleted_topic_leaves_no_failure_behind(replicas: Replicas) -> None:
    assert replicas.topics_to_reopen == [ID]
    replicas.forget_topic(ID, {"orders"})
    assert replicas.topics_to_reopen == []
    assert replicas.known_topic_ids == []
    with pytest.raises(UnknownTopicId):
        replicas.find("", ID, 0, ANONYMOUS)


def test_damage_does_not_pass(replicas: Replicas) -> None:
    replicas.add_failure(PartitionId(ID, 0), LogCorrupt("damaged"))
    assert replicas.topics_to_reopen == []
