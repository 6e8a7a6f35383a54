"""Metrics: counted cheaply on the hot path, shaped for Prometheus only when scraped.

prometheus_client's own counters take a lock at each step, a microsecond a time; a broker counts
for every partition of every request. So services keep plain integers and these light histograms,
all touched from one event loop, and hand a `MetricsSource` to the registry, which asks for them
at each scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

if TYPE_CHECKING:
    from prometheus_client.core import Metric

#: Seconds; wide enough for a network round trip and for a disk that struggles.
LATENCY_BOUNDS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10,
)  # fmt: skip


class Histogram:
    """Counts of observations by upper bound."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_S) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Counts one observation."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """How many observations there were."""
        return sum(self._counts)

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, as Prometheus wants them."""
        total = 0
        pairs = []
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            pairs.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
        return pairs


class CallMetrics:
    """What is counted of one gRPC method."""

    __slots__ = ("codes", "seconds", "started")

    def __init__(self) -> None:
        self.started = 0
        self.codes: dict[str, int] = {}
        self.seconds = Histogram()

    def finish(self, code: str, seconds: float) -> None:
        """One call has ended."""
        self.codes[code] = self.codes.get(code, 0) + 1
        self.seconds.observe(seconds)


class MetricsSource(Protocol):
    """A part of a service that has something to tell."""

    def collect_metrics(self) -> Iterable[Metric]:
        """The present values."""


class ServiceMetrics(Collector):
    """The registry of one service: asks its sources at each scrape."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._sources: list[MetricsSource] = []
        self.registry.register(self)

    def add(self, source: MetricsSource) -> None:
        """From now on `source` is asked at each scrape."""
        self._sources.append(source)

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead of a scrape: names are known once sources are."""
        return []

    def collect(self) -> Iterator[Metric]:
        """What all sources tell."""
        for source in self._sources:
            yield from source.collect_metrics()


def counter(
    name: str,
    documentation: str,
    labels: tuple[str, ...],
    values: Iterable[tuple[tuple[str, ...], float]],
) -> CounterMetricFamily:
    """A counter family with one value a set of labels."""
    family = CounterMetricFamily(name, documentation, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


def gauge(
    name: str,
    documentation: str,
    labels: tuple[str, ...],
    values: Iterable[tuple[tuple[str, ...], float]],
) -> GaugeMetricFamily:
    """A gauge family with one value a set of labels."""
    family = GaugeMetricFamily(name, documentation, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


def histogram(
    name: str,
    documentation: str,
    labels: tuple[str, ...],
    values: Iterable[tuple[tuple[str, ...], Histogram]],
) -> HistogramMetricFamily:
    """A histogram family with one histogram a set of labels."""
    family = HistogramMetricFamily(name, documentation, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, buckets=value.buckets(), sum_value=value.sum)
    return family


def call_families(service: str, methods: Iterable[tuple[str, CallMetrics]]) -> Iterator[Metric]:
    """The names that dashboards of gRPC services know (`grpc_server_...`)."""
    calls = list(methods)
    yield counter(
        "grpc_server_started",
        "Calls begun",
        ("grpc_service", "grpc_method"),
        [((service, method), float(call.started)) for method, call in calls],
    )
    yield counter(
        "grpc_server_handled",
        "Calls ended, by status",
        ("grpc_service", "grpc_method", "grpc_code"),
        [
            ((service, method, code), float(count))
            for method, call in calls
            for code, count in sorted(call.codes.items())
        ],
    )
    yield histogram(
        "grpc_server_handling_seconds",
        "How long calls took",
        ("grpc_service", "grpc_method"),
        [((service, method), call.seconds) for method, call in calls],
    )
