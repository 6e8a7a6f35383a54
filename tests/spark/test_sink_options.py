"""Options of a sink: obeyed, or refused with what to do instead."""

from __future__ import annotations

import pickle

import pytest

from tidelog.errors import InvalidConfig
from tidelog_spark.sink_options import PRODUCER_SETTINGS, SinkOptions, sink_options

ADDRESS = {"kafka.bootstrap.servers": "localhost:9094"}


def test_what_a_kafka_job_says_is_understood() -> None:
    found = sink_options(
        {
            **ADDRESS,
            "Topic": " orders ",
            "checkpointLocation": "/somewhere",
            "queryName": "mine",
            "kafka.acks": "-1",
            "kafka.batch.size": "65536",
            "kafka.compression.type": "zstd",
            "kafka.compression.zstd.level": "7",
            "kafka.enable.idempotence": "true",
            "kafka.linger.ms": "20",
            "kafka.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            "kafka.security.protocol": "PLAINTEXT",
        }
    )
    settings = {
        "acks": "all",
        "batch_size": 65_536,
        "compression": "zstd",
        "compression_level": 7,
        "enable_idempotence": True,
        "linger_ms": 20,
        "partitioner": "round_robin",
    }
    assert found == SinkOptions("localhost:9094", "orders", "default", settings)
    assert pickle.loads(pickle.dumps(found)) == found


def test_the_path_is_the_topic() -> None:
    assert sink_options({**ADDRESS, "path": "orders"}).topic == "orders"
    assert sink_options({**ADDRESS, "path": "orders", "topic": "orders"}).topic == "orders"
    with pytest.raises(InvalidConfig, match="different topics"):
        sink_options({**ADDRESS, "path": "orders", "topic": "bills"})


def test_one_guarantee_is_there_and_the_other_is_refused() -> None:
    options = {"bootstrap.servers": "a:1", "deliveryGuarantee": "at_least_once", "sinkId": "left"}
    assert sink_options(options).sink_id == "left"
    with pytest.raises(InvalidConfig, match=r"transactions, which come later.*twice"):
        sink_options({**ADDRESS, "deliveryGuarantee": "Exactly_Once"})
    with pytest.raises(InvalidConfig, match="at_least_once"):
        sink_options({**ADDRESS, "deliveryGuarantee": "at_most_once"})


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("txnAppId", "job", "transactions"),
        ("txnVersion", "7", "transactions"),
        ("transaction.timeout.ms", "1", "transactions"),
        ("kafka.transactional.id", "x", "transactions"),
        ("topicc", "orders", "Did you mean 'topic'"),
        ("subscribe", "orders", "it is one of reading"),
        ("startingOffsets", "latest", "it is one of reading"),
        ("compression.type", "zstd", "write it 'kafka.compression.type'"),
        ("kafka.compresion.type", "zstd", "Did you mean 'kafka.compression.type'"),
        ("kafka.compression.type", "zip", "compression='zip' is not possible"),
        ("kafka.compression.gzip.level", "9", "kafka.compression.type is 'none'"),
        ("truncate", "false", "There is no option 'truncate'"),
        ("kafka.batch.size", "many", "kafka.batch.size"),
        ("kafka.batch.size", "0", "too small"),
        ("kafka.acks", "2", "acks='2' is not possible"),
        ("kafka.partitioner.class", "com.example.Mine", "There is no partitioner"),
        ("kafka.key.serializer", "x", "keys are bytes"),
        ("kafka.interceptor.classes", "x", "no interceptors"),
        ("kafka.sasl.mechanism", "PLAIN", "without authentication"),
        ("kafka.security.protocol", "SSL", "plaintext"),
    ],
)
def test_what_is_not_possible_is_said(option: str, value: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        sink_options({**ADDRESS, "topic": "orders", option: value})


def test_a_level_is_one_of_the_codec_that_is_used() -> None:
    levels = {"kafka.compression.zstd.level": "3", "kafka.compression.gzip.level": "9"}
    with pytest.raises(InvalidConfig, match=r"gzip.level' sets nothing: .* is 'zstd'"):
        sink_options({**ADDRESS, "kafka.compression.type": "zstd", **levels})


def test_the_address_is_needed() -> None:
    with pytest.raises(InvalidConfig, match=r"'kafka.bootstrap.servers' is missing"):
        sink_options({"topic": "orders"})


def test_every_setting_reaches_the_producer() -> None:
    texts = {
        "acks": "1",
        "client.id": "me",
        "compression.type": "zstd",
        "compression.zstd.level": "3",
        "enable.idempotence": "false",
        "max.in.flight.requests.per.connection": "2",
        "partitioner.class": "round_robin",
    }
    for name, (keyword, kind) in PRODUCER_SETTINGS.items():
        if name in {"compression.gzip.level", "compression.lz4.level"}:
            continue
        given = {f"kafka.{name}": texts.get(name, "1000")}
        if name == "compression.zstd.level":
            given["kafka.compression.type"] = "zstd"
        assert isinstance(sink_options({**ADDRESS, **given}).settings[keyword], kind)
