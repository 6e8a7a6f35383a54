"""Handshake, metadata, its watch, producer ids, the cluster: what a client asks first."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata
from storage_kit.batches import batch

from harness.client import error_of
from harness.nodes import LiveNode, on_node, run_on_node
from tidelog.version import __version__
from tidelog.wire.v1 import (
    admin_pb2,
    common_pb2,
    handshake_pb2,
    metadata_pb2,
    producer_ids_pb2,
)
from tidelog_broker.api.metadata import HINTS_MAX


def hello(lowest: int, highest: int) -> handshake_pb2.HandshakeRequest:
    return handshake_pb2.HandshakeRequest(
        software_name="probe",
        software_version="9.9",
        protocol=handshake_pb2.VersionRange(min=lowest, max=highest),
    )


@on_node()
async def test_a_handshake_tells_what_both_can(node: LiveNode) -> None:
    answer = await node.client.broker.Handshake(hello(1, 99))
    assert not answer.HasField("error"), answer.error
    assert answer.protocol_version == 1
    assert (answer.protocol.min, answer.protocol.max) == (1, 1)
    assert answer.software_version == __version__
    assert answer.cluster_id == node.node.broker.cluster_id != ""
    assert answer.broker_id == 1
    assert answer.limits.produce_batches_in_flight_max == 5
    assert answer.limits.request_bytes_max == 100 * 1024 * 1024
    assert answer.limits.fetch_partitions_max == 10_000
    internal = await node.internal.broker.Handshake(hello(1, 1))
    assert internal.principal != answer.principal


@pytest.mark.parametrize(
    ("lowest", "highest", "upgrade"),
    [(2, 9, "broker"), (0, 0, "client"), (-5, -1, "client"), (7, 3, "")],
)
def test_a_protocol_that_nobody_speaks_is_refused_in_words(
    tmp_path: Path, lowest: int, highest: int, upgrade: str
) -> None:
    async def scenario(node: LiveNode) -> None:
        answer = await node.client.broker.Handshake(hello(lowest, highest))
        assert answer.error.code == common_pb2.UNSUPPORTED_VERSION
        assert f"{lowest} to {highest}" in answer.error.message
        assert "probe 9.9" in answer.error.message
        assert f"Upgrade the {upgrade}" in answer.error.hint or not upgrade
        assert (answer.protocol.min, answer.protocol.max) == (1, 1), "told all the same"

    run_on_node(tmp_path / "data", scenario)


@on_node()
async def test_a_client_that_does_not_know_a_settled_feature_is_refused(node: LiveNode) -> None:
    features = (await node.client.broker.Handshake(hello(1, 1))).features
    request = hello(1, 1)
    for name, level in features.items():
        request.features[name].CopyFrom(handshake_pb2.VersionRange(min=level + 1, max=level + 2))
    answer = await node.client.broker.Handshake(request)
    assert answer.HasField("error") == bool(features)
    request.features["of a later version"].CopyFrom(handshake_pb2.VersionRange(min=3, max=4))
    for name, level in features.items():
        request.features[name].CopyFrom(handshake_pb2.VersionRange(min=0, max=level))
    assert not (await node.client.broker.Handshake(request)).HasField("error")


@pytest.mark.parametrize("version", ["2", "0", "-1", "one", "", "1.0", "9" * 5_000, "\u0661"])
def test_the_protocol_header_is_checked_on_every_call(tmp_path: Path, version: str) -> None:
    async def scenario(node: LiveNode) -> None:
        headers = Metadata(("tidelog-protocol", version.encode("ascii", "replace").decode()))
        with pytest.raises(AioRpcError) as raised:
            await node.client.broker.Metadata(metadata_pb2.MetadataRequest(), metadata=headers)
        assert raised.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert "protocol" in (raised.value.details() or "")
        wire = error_of(raised.value)
        assert wire.code == common_pb2.UNSUPPORTED_VERSION
        stream = node.client.broker.ProduceStream(metadata=headers)
        assert await stream.code() == grpc.StatusCode.FAILED_PRECONDITION

    run_on_node(tmp_path / "data", scenario)


@on_node()
async def test_a_long_story_of_a_refused_call_still_fits_into_its_metadata(node: LiveNode) -> None:
    headers = Metadata(("tidelog-client-id", "x" * 6_000), ("tidelog-protocol", "7"))
    with pytest.raises(AioRpcError) as raised:
        await node.client.broker.Metadata(metadata_pb2.MetadataRequest(), metadata=headers)
    assert raised.value.code() == grpc.StatusCode.FAILED_PRECONDITION


@on_node()
async def test_the_right_protocol_header_is_welcome(node: LiveNode) -> None:
    headers = Metadata(("tidelog-protocol", "1"), ("tidelog-client-id", "till-4"))
    await node.client.broker.Metadata(metadata_pb2.MetadataRequest(), metadata=headers)


# --- metadata ------------------------------------------------------------------------------------


@on_node()
async def test_metadata_of_everything_leaves_internal_topics_out(node: LiveNode) -> None:
    topic_id = await node.client.create("orders", 2)
    await node.internal.create("__groups")
    request = metadata_pb2.MetadataRequest(all_topics=True)
    answer = await node.client.broker.Metadata(request)
    (topic,) = answer.topics
    assert (topic.name, topic.topic_id, topic.internal) == ("orders", topic_id, False)
    assert [partition.partition for partition in topic.partitions] == [0, 1]
    for partition in topic.partitions:
        assert (partition.leader_id, partition.leader_epoch) == (1, 0)
        assert list(partition.replicas) == list(partition.in_sync) == [1]
        assert list(partition.offline) == []
    assert answer.controller_id == 1
    assert answer.revision > 0
    request.include_internal = True
    names = [item.name for item in (await node.client.broker.Metadata(request)).topics]
    assert sorted(names) == ["__groups", "orders"]


@on_node()
async def test_metadata_by_name_and_id_says_what_is_missing(node: LiveNode) -> None:
    topic_id = await node.client.create("orders")
    request = metadata_pb2.MetadataRequest(
        topics=["ordres", "orders"], topic_ids=[topic_id, bytes(16)]
    )
    missing, found, by_id, unknown = (await node.client.broker.Metadata(request)).topics
    assert missing.error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION
    assert "orders" in missing.error.hint
    assert found.topic_id == by_id.topic_id == topic_id
    assert unknown.error.code == common_pb2.UNKNOWN_TOPIC_ID
    assert node.node.broker.view.topic("ordres") is None, "asking creates nothing"


@on_node()
async def test_a_producer_that_asks_gets_its_topic(node: LiveNode) -> None:
    request = metadata_pb2.MetadataRequest(topics=["orders", "a b"], create_for_produce=True)
    created, illegal = (await node.client.broker.Metadata(request)).topics
    assert len(created.partitions) == 1
    assert illegal.error.code == common_pb2.INVALID_TOPIC_EXCEPTION
    ack = await node.client.produce("orders", batch())
    assert not ack.HasField("error")


@on_node(auto_create_topics_enable="false")
async def test_asking_creates_nothing_where_that_is_switched_off(node: LiveNode) -> None:
    request = metadata_pb2.MetadataRequest(topics=["orders"], create_for_produce=True)
    (topic,) = (await node.client.broker.Metadata(request)).topics
    assert topic.error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION


@on_node()
async def test_brokers_are_told_at_the_address_that_was_dialled(node: LiveNode) -> None:
    for dialled, expected in (
        ("gateway.example:4711", ("gateway.example", 4711)),
        ("[::1]:4711", ("::1", 4711)),
        ("", ("127.0.0.1", node.node.broker.port)),
        ("nonsense", ("127.0.0.1", node.node.broker.port)),
        ("host:port", ("127.0.0.1", node.node.broker.port)),
        ("host:99999999999999", ("127.0.0.1", node.node.broker.port)),
    ):
        request = metadata_pb2.MetadataRequest(dialled_address=dialled)
        (endpoint,) = (await node.client.broker.Metadata(request)).brokers
        assert (endpoint.host, endpoint.port) == expected
        cluster = await node.client.admin.DescribeCluster(
            admin_pb2.DescribeClusterRequest(dialled_address=dialled)
        )
        assert (cluster.brokers[0].host, cluster.brokers[0].port) == expected


@on_node(advertised_listeners="tidelog.example:9094")
async def test_an_advertised_address_wins_over_the_dialled_one(node: LiveNode) -> None:
    request = metadata_pb2.MetadataRequest(dialled_address="gateway.example:4711")
    (endpoint,) = (await node.client.broker.Metadata(request)).brokers
    assert (endpoint.broker_id, endpoint.host, endpoint.port) == (1, "tidelog.example", 9094)


@on_node()
async def test_the_cluster_describes_itself(node: LiveNode) -> None:
    answer = await node.client.admin.DescribeCluster(admin_pb2.DescribeClusterRequest())
    assert answer.cluster_id == node.node.broker.cluster_id
    assert answer.software_version == __version__
    assert [broker.broker_id for broker in answer.brokers] == [1]
    assert answer.controller_id == 1


# --- watching ------------------------------------------------------------------------------------


async def next_update(watch: object) -> metadata_pb2.MetadataUpdate:
    update = await watch.read()  # type: ignore[attr-defined]
    assert isinstance(update, metadata_pb2.MetadataUpdate), "the watch has ended"
    return update


@on_node()
async def test_a_watch_tells_the_present_and_then_every_change(node: LiveNode) -> None:
    await node.client.create("orders")
    watch = node.client.broker.WatchMetadata(metadata_pb2.WatchMetadataRequest(all_topics=True))
    first = await next_update(watch)
    assert first.snapshot
    assert [topic.name for topic in first.topics] == ["orders"]
    assert [broker.broker_id for broker in first.brokers] == [1]

    await node.client.create("payments", 2)
    created = await next_update(watch)
    assert not created.snapshot
    assert [(topic.name, len(topic.partitions)) for topic in created.topics] == [("payments", 2)]
    assert created.revision > first.revision

    request = admin_pb2.CreatePartitionsRequest()
    request.topics.add(name="orders", total_partitions=3)
    await node.client.admin.CreatePartitions(request)
    grown = await next_update(watch)
    assert [(topic.name, len(topic.partitions)) for topic in grown.topics] == [("orders", 3)]

    await node.client.delete("payments")
    deleted = await next_update(watch)
    assert list(deleted.deleted_topics) == ["payments"]
    assert list(deleted.topics) == []
    watch.cancel()


@on_node()
async def test_a_watch_of_some_topics_hears_of_no_others(node: LiveNode) -> None:
    await node.client.create("orders")
    request = metadata_pb2.WatchMetadataRequest(topics=["orders", "later"])
    watch = node.client.broker.WatchMetadata(request)
    known, missing = (await next_update(watch)).topics
    assert known.name == "orders"
    assert missing.error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION
    await node.client.create("other")
    await node.client.create("later")
    assert [topic.name for topic in (await next_update(watch)).topics] == ["later"]
    await node.client.delete("other")
    await node.client.delete("orders")
    assert list((await next_update(watch)).deleted_topics) == ["orders"]
    await node.client.create("orders")
    anew = await next_update(watch)
    assert [topic.name for topic in anew.topics] == ["orders"]
    assert anew.topics[0].topic_id != known.topic_id
    watch.cancel()


@on_node()
async def test_a_watch_does_not_hear_of_internal_topics_unless_it_asks(node: LiveNode) -> None:
    plain = node.client.broker.WatchMetadata(metadata_pb2.WatchMetadataRequest(all_topics=True))
    curious = node.client.broker.WatchMetadata(
        metadata_pb2.WatchMetadataRequest(all_topics=True, include_internal=True)
    )
    await next_update(plain)
    await next_update(curious)
    await node.internal.create("__groups")
    await node.client.create("orders")
    assert [topic.name for topic in (await next_update(curious)).topics] == ["__groups"]
    assert [topic.name for topic in (await next_update(plain)).topics] == ["orders"]
    plain.cancel()
    curious.cancel()


@on_node()
async def test_a_watch_ends_when_the_broker_stops(node: LiveNode) -> None:
    watch = node.client.broker.WatchMetadata(metadata_pb2.WatchMetadataRequest(all_topics=True))
    await next_update(watch)
    ending = asyncio.ensure_future(watch.read())
    await node.node.broker.stop()
    await asyncio.wait([ending])
    with_error = ending.exception() is not None
    assert with_error or ending.result() is grpc.aio.EOF


# --- producer ids --------------------------------------------------------------------------------


@on_node()
async def test_producer_ids_are_never_given_twice(node: LiveNode) -> None:
    seen: list[int] = []
    for _ in range(3):
        ids = await asyncio.gather(*(node.client.new_producer_id() for _ in range(700)))
        seen += ids
        await node.restart()
    assert len(set(seen)) == len(seen) == 2_100
    assert min(seen) >= 0


@on_node()
async def test_an_id_goes_on_with_its_next_epoch(node: LiveNode) -> None:
    ask = producer_ids_pb2.InitProducerIdRequest
    init = node.client.broker.InitProducerId
    first = await init(ask())
    assert first.producer_epoch == 0
    second = await init(ask(producer_id=first.producer_id, producer_epoch=0))
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)
    worn_out = await init(ask(producer_id=first.producer_id, producer_epoch=32_766))
    assert worn_out.producer_id != first.producer_id
    assert worn_out.producer_epoch == 0
    for producer_id, epoch in ((-1, 0), (5, -1), (5, 40_000)):
        renewed = await init(ask(producer_id=producer_id, producer_epoch=epoch))
        assert renewed.producer_id not in (producer_id, first.producer_id)
        assert renewed.producer_epoch == 0


@on_node()
async def test_transactional_ids_are_refused(node: LiveNode) -> None:
    request = producer_ids_pb2.InitProducerIdRequest(transactional_id="till-4")
    answer = await node.client.broker.InitProducerId(request)
    assert answer.error.code == common_pb2.INVALID_TXN_STATE
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


@on_node()
async def test_only_so_many_unknown_names_are_told_the_nearest(node: LiveNode) -> None:
    """Finding it takes time in which nobody else is answered."""
    await node.client.create("orders")
    names = [f"order{number}" for number in range(HINTS_MAX + 5)]
    answer = await node.client.broker.Metadata(metadata_pb2.MetadataRequest(topics=names))
    assert all(topic.error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION for topic in answer.topics)
    hints = [topic.error.hint for topic in answer.topics]
    assert hints == ["Did you mean 'orders'?"] * HINTS_MAX + [""] * 5


@on_node()
async def test_a_topic_is_described_once_however_often_it_is_named(node: LiveNode) -> None:
    topic_id = await node.client.create("orders", 3)
    request = metadata_pb2.MetadataRequest(
        topics=["orders", "gone"] * 1_000, topic_ids=[topic_id, bytes(16)] * 1_000
    )
    topics = (await node.client.broker.Metadata(request)).topics
    assert [(topic.name, topic.topic_id) for topic in topics] == [
        ("orders", topic_id), ("gone", b""), ("orders", topic_id), ("", bytes(16)),
    ]  # fmt: skip
    watch = node.client.broker.WatchMetadata(
        metadata_pb2.WatchMetadataRequest(topics=["orders"] * 1_000)
    )
    update = await watch.read()
    assert isinstance(update, metadata_pb2.MetadataUpdate)
    assert [topic.name for topic in update.topics] == ["orders"]
    watch.cancel()
