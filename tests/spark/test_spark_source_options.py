"""The options of a source: names and values as Spark's Kafka users know them, or a reason."""

from __future__ import annotations

import logging

import pytest

from tidelog.errors import InvalidConfig
from tidelog_spark.options import SourceOptions, batch_options, stream_options
from tidelog_spark.positions import AtOffsets, AtTime, Earliest, Latest, LatestEachRead
from tidelog_spark.selection import Selection

BOOTSTRAP = {"kafka.bootstrap.servers": "localhost:9094"}
SUBSCRIBED = BOOTSTRAP | {"subscribe": "orders"}


def of_batch(**options: str) -> SourceOptions:
    """The options of a batch that subscribes to orders."""
    return batch_options(SUBSCRIBED | options)


def of_stream(**options: str) -> SourceOptions:
    """The options of a stream that subscribes to orders."""
    return stream_options(SUBSCRIBED | options)


def test_the_defaults_are_those_of_spark_and_kafka() -> None:
    batch, stream = of_batch(), of_stream()
    assert (batch.start, batch.end) == (Earliest(), Latest())
    assert stream.start == Latest()
    assert batch.fail_on_data_loss
    assert not batch.push_filters
    assert not stream.limits.are_given
    assert stream.limits.delay_ms == 15 * 60_000
    assert not batch.split.are_given
    assert batch.read_timeout_ms == 120_000


@pytest.mark.parametrize(
    "name", ["kafka.bootstrap.servers", "bootstrap.servers", "KAFKA.Bootstrap.Servers"]
)
def test_the_address_goes_by_both_names(name: str) -> None:
    assert batch_options({name: "one:1, two:2", "subscribe": "orders"}).bootstrap == "one:1,two:2"


def test_two_different_addresses_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="different clusters"):
        of_batch(**{"bootstrap.servers": "elsewhere:1"})
    assert of_batch(**{"bootstrap.servers": "localhost:9094"}).bootstrap == "localhost:9094"


@pytest.mark.parametrize(
    ("options", "selection"),
    [
        ({"subscribe": "b, a ,b"}, Selection(topics=("a", "b"))),
        ({"path": "orders"}, Selection(topics=("orders",))),
        ({"subscribePattern": "orders-.*"}, Selection(pattern="orders-.*")),
        ({"assign": '{"orders": [2, 0, 2]}'}, Selection(assigned={"orders": (0, 2)})),
    ],
)
def test_what_is_read(options: dict[str, str], selection: Selection) -> None:
    assert batch_options(BOOTSTRAP | options).selection == selection


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Nothing says what to read"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "subscribe and assign say each"),
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"subscribePattern": ""}, "is empty"),
        ({"assign": "orders"}, "is no JSON"),
        ({"assign": "[]"}, "no JSON object"),
        ({"assign": '{"orders": 1}'}, "instead of partition numbers"),
        ({"assign": '{"orders": [-1]}'}, "instead of partition numbers"),
        ({"assign": '{"orders": [true]}'}, "instead of partition numbers"),
        ({"assign": "{}"}, "names no partition"),
    ],
)
def test_a_selection_that_is_none_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        batch_options(BOOTSTRAP | options)


def test_offsets_in_every_form() -> None:
    named = '{"orders": {"0": 23, "1": -2}}'
    assert of_batch(startingOffsets="EARLIEST").start == Earliest()
    assert of_stream(startingOffsets="latest").start == Latest()
    assert of_batch(startingOffsets=named).start == AtOffsets(
        "startingOffsets", {"orders": {0: 23, 1: -2}}
    )
    assert of_batch(endingOffsets="latest").end == Latest()
    assert of_batch(endingOffsets='{"orders": {"0": -1}}').end == AtOffsets(
        "endingOffsets", {"orders": {0: -1}}
    )
    assert of_batch(endingOffsets="latest-each-read").end == LatestEachRead()


def test_a_time_for_all_goes_before_times_by_partition_and_these_before_offsets() -> None:
    by_partition = {"startingOffsetsByTimestamp": '{"orders": {"0": 7}}'}
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    offsets = {"startingOffsets": "earliest"}
    assert of_stream(**offsets, **by_partition).start == AtTime(
        "startingOffsetsByTimestamp", {"orders": {0: 7}}, or_latest=False
    )
    assert of_stream(**offsets, **by_partition, **strategy, startingTimestamp="9").start == AtTime(
        "startingTimestamp", 9, or_latest=True
    )
    assert of_batch(endingTimestamp="9", endingOffsets="latest").end == AtTime(
        "endingTimestamp", 9, or_latest=True
    )
    assert of_batch(endingOffsetsByTimestamp='{"orders": {"0": 7}}').end == AtTime(
        "endingOffsetsByTimestamp", {"orders": {0: 7}}, or_latest=True
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "not possible in a batch"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "not possible in a batch"),
        ({"startingOffsets": "ealiest"}, "Did you mean 'earliest'"),
        ({"startingOffsets": "{"}, "is no JSON"),
        ({"startingOffsets": '{"orders": 5}'}, "instead of its partitions"),
        ({"startingOffsets": '{"orders": {"x": 5}}'}, "no partition and number"),
        ({"startingOffsets": '{"orders": {"0": "5"}}'}, "no partition and number"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "-2 is earliest"),
        ({"startingOffsets": "group"}, "groups come later"),
        ({"endingOffsets": "earliest"}, "nothing lies before"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "nothing lies before"),
        ({"startingTimestamp": "yesterday"}, "no whole number"),
        ({"startingTimestamp": "9223372036854775808"}, "too large"),
        ({"startingOffsets": '{"orders": {"0": 9223372036854775808}}'}, "is the largest"),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, "since 1970"),
        ({"startingOffsetsByTimestampStrategy": "first"}, "Give error or latest"),
        ({"endingOffsets": "latest-each-read", "minPartitions": "4"}, "does not go with minPart"),
    ],
)
def test_a_position_that_is_none_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        of_batch(**options)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(InvalidConfig, match=f"'{name}' is not possible in a stream"):
        of_stream(**{name: "1"})


def test_limits_and_splits() -> None:
    limits = of_stream(
        maxOffsetsPerTrigger="100",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="30s",
        maxBytesPerTrigger="64m",
    ).limits
    assert (limits.offsets_max, limits.offsets_min, limits.bytes_max) == (100, 10, 64 << 20)
    assert limits.delay_ms == 30_000
    split = of_batch(minPartitions="8", maxRecordsPerPartition="5", maxBytesPerPartition="1g").split
    assert (split.partitions_min, split.records_max, split.bytes_max) == (8, 5, 1 << 30)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maxOffsetsPerTrigger": "0"}, "at least 1"),
        ({"maxOffsetsPerTrigger": "many"}, "no whole number"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "is more than"),
        ({"maxTriggerDelay": "soon"}, "no duration"),
        ({"maxTriggerDelay": "5 parsecs"}, "no duration"),
        ({"maxBytesPerTrigger": "a lot"}, "no size"),
        ({"minPartitions": "-1"}, "at least 1"),
        ({"failOnDataLoss": "maybe"}, "Give true or false"),
        ({"onInvalidUtf8": "ignore"}, "Give error or null"),
        ({"includeHeaders": "yes"}, "Give true or false"),
        ({"batchRows": "0"}, "at least 1"),
        ({"commitOffsets": "true"}, "groups come later"),
        ({"pushFilters": "true"}, "Spark pushes no filters"),
    ],
)
def test_a_wrong_value_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        of_stream(**options)


def test_what_only_triggers_obey_is_warned_about_in_a_batch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        of_batch(maxOffsetsPerTrigger="5")
    assert "maxOffsetsPerTrigger: without effect in a batch" in caplog.text


def test_the_settings_of_the_client() -> None:
    options = of_batch(
        **{
            "kafka.client.id": "mine",
            "kafka.fetch.max.bytes": "1000",
            "kafka.check.crcs": "false",
            "kafka.security.protocol": "PLAINTEXT",
            "isolation.level": "read_committed",
            "kafkaConsumer.pollTimeoutMs": "5s",
        }
    )
    assert options.consumer_settings == {
        "client_id": "mine",
        "fetch_max_bytes": 1000,
        "check_crcs": False,
        "isolation_level": "read_committed",
    }
    assert options.admin_settings == {"client_id": "mine"}
    assert options.read_timeout_ms == 5_000


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("startingOfsets", "Did you mean 'startingOffsets'"),
        ("nonsense", "There are .*assign"),
        ("topic", "it is one of writing"),
        ("deliveryGuarantee", "it is one of writing"),
        ("group.id", "groups come later"),
        ("groupIdPrefix", "groups come later"),
        ("kafka.group.id", "groups come later"),
        ("kafka.auto.offset.reset", "startingOffsets says where"),
        ("kafka.key.deserializer", "keys are bytes"),
        ("kafka.value.deserializer", "values are bytes"),
        ("kafka.enable.auto.commit", "checkpoint keeps"),
        ("kafka.interceptor.classes", "no interceptors"),
        ("kafka.ssl.truststore.location", "plain text"),
        ("kafka.fetch.max.byte", "Did you mean 'kafka.fetch.max.bytes'"),
        ("fetch.max.bytes", "write it 'kafka.fetch.max.bytes'"),
        ("checkpointLocation", "give it to writeStream"),
        ("queryName", "give it to writeStream"),
        ("fetchOffset.numRetries", "repeated until"),
    ],
)
def test_an_option_that_sets_nothing_is_refused(name: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        of_batch(**{name: "1"})


def test_a_setting_that_can_not_be_is_refused_before_any_task() -> None:
    with pytest.raises(InvalidConfig, match="isolation_level='serializable'"):
        of_batch(**{"isolation.level": "serializable"})


def test_security_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="Give plaintext"):
        of_batch(**{"kafka.security.protocol": "SASL_SSL"})


@pytest.mark.parametrize("name", ["truncate", "provider", "owner", "option.subscribe"])
def test_what_spark_has_for_others_is_refused_too(name: str) -> None:
    with pytest.raises(InvalidConfig, match="There is no option"):
        of_stream(**{name: "x"})


def test_two_levels_of_isolation_are_refused() -> None:
    both = {"isolation.level": "read_committed", "kafka.isolation.level": "read_uncommitted"}
    with pytest.raises(InvalidConfig, match="differ"):
        of_batch(**both)
    same = of_batch(**dict.fromkeys(both, "read_committed"))
    assert same.consumer_settings == {"isolation_level": "read_committed"}
