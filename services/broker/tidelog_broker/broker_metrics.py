"""What a broker tells Prometheus: counted as plain integers, shaped here at each scrape.

Meanings follow Kafka's metrics; names begin with `tidelog_`. docs/metrics.md lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tidelog.version import __version__
from tidelog_runtime.metrics import CallMetrics, call_families, counter, gauge

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from tidelog_broker.broker import Broker
    from tidelog_broker.partition.partition import Partition


class BrokerMetrics:
    """The `MetricsSource` of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.calls: dict[str, CallMetrics] = {}

    def collect_metrics(self) -> Iterator[Metric]:
        """The present values."""
        broker = self._broker
        partitions = list(broker.replicas)
        yield gauge(
            "tidelog_build_info", "The version that runs", ("version",), [((__version__,), 1)]
        )
        yield gauge("tidelog_cluster_brokers", "Live brokers", (), [((), len(broker.view.brokers))])
        yield from self._partition_counts(partitions)
        yield from self._traffic(partitions)
        yield from self._positions(partitions)
        yield from self._disk()
        yield gauge(
            "tidelog_produce_in_flight_bytes",
            "Produced data that waits for its acknowledgement",
            (),
            [((), broker.in_flight.bytes)],
        )
        yield gauge(
            "tidelog_running_calls",
            "Calls and streams served now",
            (),
            [((), broker.running_calls)],
        )
        yield counter(
            "tidelog_refused_calls",
            "Calls that max.concurrent.rpcs left no room for",
            (),
            [((), broker.refused_calls)],
        )
        yield from call_families("tidelog.wire.v1.Broker", sorted(self.calls.items()))

    def _partition_counts(self, partitions: list[Partition]) -> Iterator[Metric]:
        leading = sum(partition.core.leads for partition in partitions)
        faulty = sum(partition.log.fault is not None for partition in partitions)
        damaged = sum(not partition.log.evidence_intact for partition in partitions)
        for name, documentation, value in (
            ("tidelog_partitions", "Replicas on this broker", len(partitions)),
            ("tidelog_leader_partitions", "Partitions this broker leads", leading),
            ("tidelog_faulty_partitions", "Replicas whose disk has failed", faulty),
            (
                "tidelog_damaged_partitions",
                "Replicas that miss what was known to be durable",
                damaged,
            ),
            (
                "tidelog_unopened_partitions",
                "Replicas that could not be opened",
                self._broker.replicas.failure_count,
            ),
        ):
            yield gauge(name, documentation, (), [((), value)])

    def _traffic(self, partitions: list[Partition]) -> Iterator[Metric]:
        totals: dict[str, list[int]] = {}
        for partition in partitions:
            total = totals.setdefault(partition.topic, [0, 0, 0, 0])
            counters = partition.counters
            for index, value in enumerate(
                (counters.records_in, counters.bytes_in, counters.bytes_out, counters.duplicates)
            ):
                total[index] += value
        for index, (name, documentation) in enumerate(
            (
                ("tidelog_records_in", "Records appended"),
                ("tidelog_bytes_in", "Bytes of batches appended"),
                ("tidelog_bytes_out", "Bytes of batches sent to readers"),
                ("tidelog_duplicate_batches", "Repeated batches that were recognised"),
            )
        ):
            yield counter(name, documentation, ("topic",), _by_topic(totals, index))

    def _positions(self, partitions: list[Partition]) -> Iterator[Metric]:
        labels = ("topic", "partition")
        for name, documentation, of in (
            ("tidelog_partition_start_offset", "First offset of the log", _log_start),
            ("tidelog_partition_end_offset", "The high watermark", _high_watermark),
            ("tidelog_partition_size_bytes", "Bytes on the disk", _size_bytes),
        ):
            values = [((p.topic, str(p.number)), float(of(p))) for p in partitions]
            yield gauge(name, documentation, labels, values)

    def _disk(self) -> Iterator[Metric]:
        disk = self._broker.directory.volume.disk
        for name, documentation, value in (
            ("tidelog_disk_free_bytes", "Free space where the data lies", disk.free_bytes()),
            ("tidelog_disk_total_bytes", "Size of the volume", disk.total_bytes()),
        ):
            yield gauge(name, documentation, (), [((), value)])


def _by_topic(totals: dict[str, list[int]], index: int) -> Iterable[tuple[tuple[str, ...], float]]:
    return [((topic,), float(total[index])) for topic, total in sorted(totals.items())]


def _log_start(partition: Partition) -> int:
    return partition.log.log_start


def _high_watermark(partition: Partition) -> int:
    return partition.core.high_watermark


def _size_bytes(partition: Partition) -> int:
    return partition.log.size_bytes
