"""The figures of the perf tests, and their lines in Kafka's words.

Pure: times and sizes are arguments, so that every line can be tested. Latencies are sampled when
there are very many records, as in Kafka's tool: one of so many, and the percentiles are of those.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tidelog.errors import InvalidRequest
from tidelog.wording import is_unicode

MIB: Final = 1024 * 1024
SAMPLES_MAX: Final = 50_000
PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999)

#: Java's SimpleDateFormat, as far as a moment needs it; milliseconds are put in by hand.
_DATE_PARTS: Final = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M"}
_MILLISECONDS: Final = "SSS"
#: Stands for them in a translated pattern, where an S could belong to the seconds.
_PLACE: Final = "\0"


class ProducerFigures:
    """Counts acknowledged records and how long each took."""

    def __init__(self, start_ms: float) -> None:
        self._start_ms = start_ms
        self._latencies = array("d")
        self.count = 0
        self.bytes = 0
        self._total_ms = 0.0
        self._most_ms = 0.0
        self._begin_window(start_ms)

    def _begin_window(self, now_ms: float) -> None:
        self.window_start_ms = now_ms
        self._window_count = 0
        self._window_bytes = 0
        self._window_total_ms = 0.0
        self._window_most_ms = 0.0

    def add(self, latency_ms: float, count: int, size_bytes: int) -> None:
        """So many records took this long, so many bytes together."""
        self._latencies.append(latency_ms)
        self.count += count
        self.bytes += size_bytes
        self._total_ms += latency_ms
        self._most_ms = max(self._most_ms, latency_ms)
        self._window_count += count
        self._window_bytes += size_bytes
        self._window_total_ms += latency_ms * count
        self._window_most_ms = max(self._window_most_ms, latency_ms)

    def window_line(self, now_ms: float) -> str:
        """What happened since the last such line."""
        seconds = max(now_ms - self.window_start_ms, 1) / 1000
        line = (
            f"{self._window_count} records sent, {self._window_count / seconds:.1f} records/sec"
            f" ({self._window_bytes / MIB / seconds:.2f} MB/sec),"
            f" {self._window_total_ms / max(self._window_count, 1):.1f} ms avg latency,"
            f" {self._window_most_ms:.1f} ms max latency."
        )
        self._begin_window(now_ms)
        return line

    def percentiles(self) -> list[float]:
        """The 50th, 95th, 99th and 99.9th, in milliseconds."""
        ordered = sorted(self._latencies) or [0.0]
        return [ordered[int(share * len(ordered))] for share in PERCENTILES]

    def as_json(self, now_ms: float) -> dict[str, object]:
        """The same for a program."""
        seconds = max(now_ms - self._start_ms, 1) / 1000
        names = ("p50_ms", "p95_ms", "p99_ms", "p999_ms")
        return {
            "records": self.count,
            "records_per_s": self.count / seconds,
            "mib_per_s": self.bytes / MIB / seconds,
            "average_ms": self._average_ms,
            "max_ms": self._most_ms,
            **dict(zip(names, self.percentiles(), strict=True)),
        }

    @property
    def _average_ms(self) -> float:
        return self._total_ms / max(len(self._latencies), 1)

    def total_line(self, now_ms: float) -> str:
        """What happened altogether."""
        seconds = max(now_ms - self._start_ms, 1) / 1000
        shares = ("50th", "95th", "99th", "99.9th")
        percentiles = ", ".join(
            f"{int(latency)} ms {share}"
            for latency, share in zip(self.percentiles(), shares, strict=True)
        )
        return (
            f"{self.count} records sent, {self.count / seconds:f} records/sec"
            f" ({self.bytes / MIB / seconds:.2f} MB/sec), {self._average_ms:.2f} ms avg latency,"
            f" {self._most_ms:.2f} ms max latency, {percentiles}."
        )


# ---------------------------------------------------------------------- consuming

_COLUMNS: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec,"
    " rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


def consumer_header(*, detailed: bool) -> str:
    """The first line of a consumer's figures."""
    return f"{'time, threadId' if detailed else 'start.time, end.time'}, {_COLUMNS}"


@dataclass(frozen=True, slots=True)
class Consumed:
    """What had been read at a moment."""

    at_ms: float
    records: int = 0
    bytes: int = 0


def consumer_row(begin: Consumed, end: Consumed, assign_ms: float, date_format: str) -> str:
    """A consumer's figures from one moment to another, the last line."""
    moments = f"{shown_date(begin.at_ms, date_format)}, {shown_date(end.at_ms, date_format)}"
    return f"{moments}, {_rates(begin, end, assign_ms)}"


def consumer_window(begin: Consumed, end: Consumed, assign_ms: float, date_format: str) -> str:
    """The same as a line on the way: what was read altogether, and the rates since `begin`."""
    return f"{shown_date(end.at_ms, date_format)}, 0, {_rates(begin, end, assign_ms)}"


def _rates(begin: Consumed, end: Consumed, assign_ms: float) -> str:
    elapsed_ms = max(end.at_ms - begin.at_ms, 1)
    fetch_ms = max(elapsed_ms - assign_ms, 1)
    mib = (end.bytes - begin.bytes) / MIB
    records = end.records - begin.records
    return (
        f"{end.bytes / MIB:.4f}, {1000 * mib / elapsed_ms:.4f},"
        f" {end.records}, {1000 * records / elapsed_ms:.4f},"
        f" {int(assign_ms)}, {int(fetch_ms)},"
        f" {1000 * mib / fetch_ms:.4f}, {1000 * records / fetch_ms:.4f}"
    )


def date_format(text: str) -> str:
    """Java's pattern of a moment as `shown_date` takes it; InvalidRequest for what it can't."""
    translated = text.replace("%", "%%").replace(_MILLISECONDS, _PLACE)
    for java, ours in (*_DATE_PARTS.items(), ("ss", "%S")):
        translated = translated.replace(java, ours)
    left = translated
    for ours in (*_DATE_PARTS.values(), "%S"):
        left = left.replace(ours, "")
    if any(letter.isalpha() for letter in left) or not is_unicode(left):
        raise InvalidRequest(
            f"The date format {text!r} has letters that are not understood",
            hint="There are yyyy, MM, dd, HH, mm, ss and SSS",
        )
    return translated


def shown_date(at_ms: float, translated: str) -> str:
    """A moment in the words of a translated pattern."""
    whole, milliseconds = divmod(int(at_ms), 1000)
    moment = datetime.fromtimestamp(whole)
    return moment.strftime(translated.replace(_PLACE, f"{milliseconds:03d}"))
