"""The keys themselves: defaults as in Kafka, inheritance, and nothing accepted without effect."""

from __future__ import annotations

import dataclasses

import pytest

from tidelog.errors import InvalidConfig
from tidelog_runtime.config import SourceKind
from tidelog_runtime.configs.broker import BROKER_CONFIG, BrokerConfig, default_broker_config
from tidelog_runtime.configs.endpoint import Endpoint
from tidelog_runtime.configs.kafka_names import BROKER_NAMES_FOR_LATER, TOPIC_NAMES_FOR_LATER
from tidelog_runtime.configs.topic import (
    INHERITED_FROM,
    TOPIC_CONFIG,
    TopicConfig,
    topic_values,
)

KAFKA_TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "file.delete.delay.ms": "60000",
    "index.interval.bytes": "4096",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
}


def test_topic_defaults_are_kafkas() -> None:
    values = TOPIC_CONFIG.parse({})
    assert {name: values.text(name) for name in values} == KAFKA_TOPIC_DEFAULTS


def test_every_topic_key_is_inherited_and_viewed() -> None:
    assert {key.name for key in TOPIC_CONFIG.keys} == set(INHERITED_FROM)
    fields = {field.name for field in dataclasses.fields(TopicConfig)}
    assert fields == {key.field_name for key in TOPIC_CONFIG.keys}


def test_every_broker_key_has_an_effect_through_some_view() -> None:
    fields = {field.name for field in dataclasses.fields(BrokerConfig)}
    viewed = {key.name for key in BROKER_CONFIG.keys if key.field_name in fields}
    endpoints = {"listeners", "advertised.listeners"}
    assert viewed | endpoints | set(INHERITED_FROM.values()) == {
        key.name for key in BROKER_CONFIG.keys
    }


def test_a_topic_inherits_from_the_broker_and_overrides_it() -> None:
    broker = default_broker_config(**{"log.retention.ms": "1 h", "log.segment.bytes": "2 MiB"})
    values = topic_values({"segment.bytes": "3 MiB"}, broker.values)
    assert values["retention.ms"] == 3_600_000
    assert values.source("retention.ms").kind.is_static
    assert values["segment.bytes"] == 3 << 20
    assert values.source("segment.bytes").kind is SourceKind.TOPIC
    assert values.source("segment.ms").kind is SourceKind.DEFAULT
    assert broker.topic_config({}).segment_bytes == 2 << 20


@pytest.mark.parametrize("name", sorted(TOPIC_NAMES_FOR_LATER))
def test_topic_keys_of_kafka_without_effect_are_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match="Known from Kafka, not supported"):
        TOPIC_CONFIG.parse({name: "1"})


@pytest.mark.parametrize("name", sorted(BROKER_NAMES_FOR_LATER))
def test_broker_keys_of_kafka_without_effect_are_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match="Known from Kafka, not supported"):
        BROKER_CONFIG.parse({name: "1"})


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("cleanup.policy", "compact", "later version"),
        ("cleanup.policy", "compact,delete", "later version"),
        ("compression.type", "zstd", "as its producer compressed it"),
        ("retention.mss", "1", r"Did you mean 'retention\.ms'\?"),
        ("log.retention.ms", "1", r"the topic's is 'retention\.ms'"),
        ("segment.bytes", "1024", "from 1048576"),
        ("max.message.bytes", "129 MiB", "from 0 to 134217728"),
    ],
)
def test_refusals_of_topic_keys(name: str, text: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        TOPIC_CONFIG.parse({name: text})


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"retention.ms": "1"}, r"broker's default for it is 'log\.retention\.ms'"),
        ({"data.dir": "a,b"}, "one data directory"),
        ({"data.dir": ""}, "one data directory"),
        ({"message.max.bytes": "120 MiB"}, r"raise 'socket\.request\.max\.bytes'"),
        ({"queued.max.request.bytes": "1 MiB"}, r"Lower 'socket\.request\.max\.bytes'"),
        ({"listeners": "SSL://a:1"}, "Only PLAINTEXT"),
        ({"listeners": "a:9095"}, r"'metrics\.port' \(by default\) both take port 9095"),
        ({"metrics.port": "5", "internal.port": "5"}, "both take port 5"),
        ({"listeners": "a:1,b:2"}, "One listener"),
        ({"listeners": "::1:9094"}, "host:port"),
        ({"listeners": "[::1:9094"}, "host:port"),
        ({"listeners": "a:65536"}, "host:port"),
        ({"listeners": "9094"}, "host:port"),
        ({"listeners": "[localhost:99]:1"}, "no IPv6 address"),
        ({"listeners": "a" * 64 + ":1"}, "1 to 63 characters"),
        ({"listeners": "a..b:1"}, "1 to 63 characters"),
        ({"listeners": "a b:1"}, "no blanks"),
        ({"listeners": "a\nb:1"}, r"'a\\nb:1'.* no control characters"),
        ({"listeners": "a\udcff:1"}, r"'a\\udcff:1'.* no bytes that are no text"),
        ({"advertised.listeners": "a\udcff:1"}, "'advertised.listeners' .* no text"),
    ],
)
def test_refusals_of_broker_keys(texts: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        default_broker_config(**texts)


def test_broker_view() -> None:
    broker = default_broker_config(
        **{"broker.id": "7", "log.dirs": "/x", "listeners": "PLAINTEXT://[::1]:0"},
        flush_policy="os",
        advertised_listeners="example:1",
    )
    assert (broker.node_id, broker.data_dir, broker.flush_policy) == (7, "/x", "os")
    assert (broker.listener.host, broker.listener.port) == ("::1", 0)
    assert str(broker.listener) == "[::1]:0"
    assert broker.advertised_listener == Endpoint("example", 1)
    assert default_broker_config().advertised_listener is None
    default_broker_config(listeners="a:0", internal_port="0", metrics_port="0")


@pytest.mark.parametrize(
    "host",
    ["a" * 63, "a_b.c-d.", "bücher.example", "[fe80::1%eth0]", "[::ffff:1.2.3.4]", "0.0.0.0"],
)
def test_hosts_that_some_machine_may_have(host: str) -> None:
    listener = default_broker_config(listeners=f"{host}:1").listener
    assert str(listener) == f"{host}:1"


def test_defaults_are_accepted_by_their_own_keys() -> None:
    for definition in (TOPIC_CONFIG, BROKER_CONFIG):
        for key in definition.keys:
            assert key.parse(key.format(key.default)) == key.default, key.name
            assert key.documentation.endswith(".")
