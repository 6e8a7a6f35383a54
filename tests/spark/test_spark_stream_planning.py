"""What micro-batches hold: limits, new partitions, AvailableNow, replays and every kind of loss."""

from __future__ import annotations

import logging

import pytest
from pyspark.sql.datasource import InputPartition

from spark_kit.logs import FakeLogs, FakeTopic
from tidelog.errors import UnknownTopic
from tidelog.model import TopicPartition
from tidelog_spark.data_loss import DataLoss
from tidelog_spark.offsets import OffsetMap
from tidelog_spark.options import stream_options
from tidelog_spark.stream_planning import StreamPlanning
from tidelog_spark.tasks import RangePartition


class Stream:
    """A stream over fake logs, with time that passes when it waits."""

    def __init__(self, logs: FakeLogs, **options: str) -> None:
        self.logs = logs
        self.now = 100.0
        given = {
            "kafka.bootstrap.servers": "localhost:9094",
            "subscribe": "orders",
            "startingOffsets": "earliest",
            "latestOffset.pollMs": "0",
            "partition.metadata.cache.ttl.ms": "0",
        } | options
        if "subscribePattern" in options:
            del given["subscribe"]
        self.planning = StreamPlanning(
            stream_options(given), logs, clock=lambda: self.now, wait=self.wait
        )

    def wait(self, seconds: float) -> None:
        """Lets time pass."""
        self.now += seconds

    def end(self, start: OffsetMap, *, is_limited: bool = True) -> OffsetMap:
        """The next end."""
        return self.planning.next_end(start, is_limited)

    def tasks(self, start: OffsetMap, end: OffsetMap) -> list[tuple[str, int, int | None]]:
        """The tasks between two offsets."""
        return [(str(one.partition), one.start, one.end) for one in self.planning.tasks(start, end)]


def at(topic_id: str = "id", **offsets: list[int]) -> OffsetMap:
    """Offsets of topics whose identity is the same."""
    return OffsetMap(
        {
            TopicPartition(topic, number): offset
            for topic, numbers in offsets.items()
            for number, offset in enumerate(numbers)
        },
        dict.fromkeys(offsets, topic_id),
    )


def orders(*ends: int, starts: list[int] | None = None, topic_id: str = "id") -> FakeLogs:
    """Logs with one topic."""
    return FakeLogs(orders=FakeTopic(topic_id, list(ends), starts or []))


def test_batches_follow_each_other() -> None:
    logs = orders(5, 3)
    stream = Stream(logs)
    begin = stream.planning.initial()
    assert begin == at(orders=[0, 0])
    end = stream.end(begin)
    assert end == at(orders=[5, 3])
    assert stream.tasks(begin, end) == [("orders-0", 0, 5), ("orders-1", 0, 3)]
    assert stream.end(end) == end
    logs.topics["orders"].ends = [6, 3]
    assert stream.tasks(end, stream.end(end)) == [("orders-0", 5, 6)]


def test_the_beginning_is_remembered_and_the_first_batch_from_latest_is_empty() -> None:
    logs = orders(5)
    stream = Stream(logs, startingOffsets="latest")
    begin = stream.planning.initial()
    logs.topics["orders"].ends = [9]
    assert stream.planning.initial() == begin == at(orders=[5])
    assert stream.end(begin) == begin
    assert stream.end(begin) == at(orders=[9])


def test_a_replayed_first_batch_that_would_begin_after_its_end_is_empty() -> None:
    """Spark has logged that batch 0 ended at 5; a restart looks "latest" up anew."""
    stream = Stream(orders(8), startingOffsets="latest")
    begin = stream.planning.initial()
    assert stream.tasks(begin, at(orders=[5])) == []


def test_no_more_than_the_limit_in_proportion() -> None:
    stream = Stream(orders(90, 10, 0), maxOffsetsPerTrigger="10")
    begin = stream.planning.initial()
    end = stream.end(begin)
    assert end == at(orders=[9, 1, 0])
    assert stream.end(begin, is_limited=False) == at(orders=[90, 10, 0])


def test_no_more_than_the_limit_in_bytes() -> None:
    stream = Stream(orders(90, 10), maxBytesPerTrigger="1000")
    assert stream.end(stream.planning.initial()) == at(orders=[9, 1])
    stream = Stream(orders(90, 10), maxBytesPerTrigger="1")
    assert stream.end(stream.planning.initial()) == at(orders=[1, 1])
    stream = Stream(orders(90, 10), maxBytesPerTrigger="1m")
    assert stream.end(stream.planning.initial()) == at(orders=[90, 10])


def test_few_records_wait_until_the_delay_has_passed() -> None:
    logs = orders(5)
    stream = Stream(logs, minOffsetsPerTrigger="10", maxTriggerDelay="60s")
    begin = stream.planning.initial()
    assert stream.end(begin) == begin
    assert stream.end(begin, is_limited=False) == at(orders=[5])
    stream = Stream(logs, minOffsetsPerTrigger="10", maxTriggerDelay="60s")
    stream.wait(61)
    assert stream.end(begin) == at(orders=[5])
    logs.topics["orders"].ends = [15]
    assert stream.end(at(orders=[5])) == at(orders=[15])


def test_an_idle_stream_waits_and_asks_again() -> None:
    logs = orders(5)
    stream = Stream(logs, **{"latestOffset.pollMs": "200"})
    end = at(orders=[5])
    logs.questions.clear()
    assert stream.end(end) == end
    assert 0.199 < stream.now - 100 < 0.201
    assert 3 < logs.questions.count("ends") < 20


def test_a_new_partition_begins_at_its_first_record() -> None:
    logs = orders(5)
    stream = Stream(logs)
    logs.topics["orders"] = FakeTopic("id", [5, 4])
    start = at(orders=[5])
    end = stream.end(start)
    assert end == at(orders=[5, 4])
    assert stream.tasks(start, end) == [("orders-1", 0, 4)]


def test_a_topic_that_begins_to_match_is_read_from_its_first_record() -> None:
    logs = orders(5)
    stream = Stream(logs, subscribePattern="order.*")
    logs.topics["orders-2"] = FakeTopic("other", [3])
    start = at(orders=[5])
    end = stream.end(start)
    assert stream.tasks(start, end) == [("orders-2-0", 0, 3)]


def test_topics_are_remembered_for_a_while() -> None:
    logs = orders(5)
    stream = Stream(logs, **{"partition.metadata.cache.ttl.ms": "5000"})
    start = stream.end(stream.planning.initial())
    logs.topics["orders"] = FakeTopic("id", [5, 4])
    assert stream.end(start) == start
    stream.wait(6)
    assert stream.end(start) == at(orders=[5, 4])


def test_available_now_ends_where_the_logs_ended() -> None:
    logs = orders(5)
    stream = Stream(logs, maxOffsetsPerTrigger="4")
    stream.planning.freeze()
    logs.topics["orders"] = FakeTopic("id", [50, 7])
    begin = stream.planning.initial()
    assert begin.offsets[TopicPartition("orders", 0)] == 0
    first = stream.end(at(orders=[0]))
    assert first == at(orders=[4])
    assert stream.end(first) == at(orders=[5])
    assert stream.end(at(orders=[5])) == at(orders=[5])


def test_available_now_waits_for_no_minimum() -> None:
    stream = Stream(orders(5), minOffsetsPerTrigger="10")
    stream.planning.freeze()
    assert stream.end(stream.planning.initial()) == at(orders=[5])


def test_available_now_from_latest_reads_nothing() -> None:
    logs = orders(5)
    stream = Stream(logs, startingOffsets="latest")
    stream.planning.freeze()
    logs.topics["orders"].ends = [9]
    begin = stream.planning.initial()
    assert begin == at(orders=[5])
    assert stream.end(begin) == begin


def test_a_topic_that_never_was_is_an_error() -> None:
    with pytest.raises(UnknownTopic, match="'orders' does not exist"):
        Stream(FakeLogs()).planning.initial()


LOSSES = {
    "retention": (orders(9, starts=[4]), at(orders=[2]), "begins at offset 4: .* from 2 up to"),
    "a cut end": (orders(9), at(orders=[12]), "ends at offset 9, before 12"),
    "another topic": (orders(9, topic_id="new"), at(orders=[5]), "deleted and created anew"),
    "no topic": (FakeLogs(), at(orders=[5]), "does not exist any more"),
    "no partition": (orders(9), at(orders=[5, 5]), "orders-1, .* is not among"),
    "an old new partition": (orders(5, 4, starts=[0, 2]), at(orders=[5]), "orders-1 is new"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_lost_data_fails_the_query(loss: str) -> None:
    logs, start, words = LOSSES[loss]
    stream = Stream(logs)
    with pytest.raises(DataLoss, match=words) as raised:
        stream.tasks(start, stream.end(start))
    assert "failOnDataLoss=false" in str(raised.value)


@pytest.mark.parametrize(
    ("loss", "tasks"),
    [
        ("retention", [("orders-0", 4, 9)]),
        ("a cut end", []),
        ("another topic", [("orders-0", 0, 9)]),
        ("no topic", []),
        ("no partition", [("orders-0", 5, 9)]),
        ("an old new partition", [("orders-1", 2, 4)]),
    ],
)
def test_lost_data_is_warned_about_where_it_may_be_lost(
    loss: str, tasks: list[tuple[str, int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    logs, start, _ = LOSSES[loss]
    stream = Stream(logs, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        end = stream.end(start)
        assert stream.tasks(start, end) == tasks
    assert "Reading goes on" in caplog.text
    assert stream.end(end) == end


def test_a_replayed_batch_of_a_topic_that_is_gone_says_so() -> None:
    start, end = at(orders=[0]), at(orders=[5])
    with pytest.raises(DataLoss, match="does not exist any more"):
        Stream(FakeLogs()).planning.tasks(start, end)
    with pytest.raises(DataLoss, match="created anew"):
        Stream(orders(9, topic_id="new")).planning.tasks(start, end)


def test_offsets_from_kafka_go_on_here() -> None:
    """A checkpoint of Kafka's connector has no identities: nothing is taken for recreated."""
    stream = Stream(orders(9))
    start = OffsetMap({TopicPartition("orders", 0): 5})
    assert stream.tasks(start, stream.end(start)) == [("orders-0", 5, 9)]


def test_tasks_are_cut_as_asked() -> None:
    stream = Stream(orders(9), minPartitions="3")
    begin = stream.planning.initial()
    assert stream.tasks(begin, stream.end(begin)) == [
        ("orders-0", 0, 3),
        ("orders-0", 3, 6),
        ("orders-0", 6, 9),
    ]


def test_a_task_is_one_of_sparks_and_says_what_it_is() -> None:
    task = RangePartition(TopicPartition("orders", 0), "id", 3, 9)
    assert isinstance(task, InputPartition)
    assert repr(task) == "RangePartition(orders-0, 3 to 9)"


@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_beginning_after_the_end_is_lost_data(is_frozen: bool) -> None:
    def begin(**options: str) -> OffsetMap:
        stream = Stream(orders(5, 3), startingOffsets='{"orders": {"0": 2, "1": 99}}', **options)
        if is_frozen:
            stream.planning.freeze()
        return stream.planning.initial()

    with pytest.raises(DataLoss, match="orders-1 ends at offset 3, before 99"):
        begin()
    assert begin(failOnDataLoss="false") == at(orders=[2, 3])


@pytest.mark.parametrize("wanted", [{"subscribe": "bills"}, {"subscribePattern": "b.*"}])
def test_a_topic_that_is_not_wanted_any_more_was_not_deleted(wanted: dict[str, str]) -> None:
    logs = orders(5)
    logs.topics["bills"] = FakeTopic("other", [1])
    with pytest.raises(DataLoss, match=r"'orders', which .* is not among the topics to read"):
        Stream(logs, **wanted).end(at(orders=[5]))
