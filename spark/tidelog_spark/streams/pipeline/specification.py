"""What a pipeline's file says, as values: sources, views, sinks, and how to run them.

`reading.py` makes these from the file, `building.py` turns them into DataFrames, `printing.py`
into a program. Invariant: whatever exists here is complete and of the right kind; only Spark can
still refuse it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

Start = Literal["earliest", "latest"]
Malformed = Literal["keep", "fail"]
OutputMode = Literal["append", "update", "complete"]
SinkKind = Literal["topic", "parquet", "table", "console"]

#: One folder below the checkpoints for what the runner itself notes of every sink.
STATUS_FOLDER: Final = "_status"


@dataclass(frozen=True, slots=True)
class Watermark:
    """How late a record may come, by which column."""

    column: str
    delay: str


@dataclass(frozen=True, slots=True)
class Source:
    """A view over a topic: a stream of its records, or the last record of every key."""

    name: str
    line: int
    topic: str = ""
    pattern: str = ""
    #: Whether it is read as a table instead of a stream.
    is_table: bool = False
    key: str = "binary"
    value: str = "binary"
    malformed: Malformed = "keep"
    start: Start = "earliest"
    watermark: Watermark | None = None
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class View:
    """A name for the result of a query over what stands above it."""

    name: str
    line: int
    sql: str
    #: The line on which the query itself begins.
    sql_line: int
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """Where the rows of a view go."""

    name: str
    line: int
    view: str
    kind: SinkKind
    #: The topic, the path or the table; nothing for the console.
    target: str = ""
    mode: OutputMode = "append"
    #: The time between two batches; empty begins the next when one has ended.
    trigger: str = ""
    key: tuple[str, ...] = ()
    #: The column that is the value; empty makes JSON of all columns.
    value: str = ""
    delete_when: str = ""
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restart:
    """What is done with a query that failed."""

    #: How often it is started again in a row, without a batch between, before the run gives up.
    attempts: int = 10
    first_pause_ms: int = 1_000
    longest_pause_ms: int = 60_000

    def pause_ms(self, failures: int) -> int:
        """How long to wait after so many failures in a row."""
        # No more doublings than reach the longest pause: a run may fail a million times in a row.
        doublings = min(failures - 1, self.longest_pause_ms.bit_length())
        return min(self.longest_pause_ms, self.first_pause_ms << doublings)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole file."""

    name: str
    file: str
    bootstrap: str
    checkpoints: str
    sources: tuple[Source, ...]
    views: tuple[View, ...]
    sinks: tuple[Sink, ...]
    spark: dict[str, str] = field(default_factory=dict)
    metrics_port: int | None = None
    restart: Restart = Restart()

    @property
    def parts(self) -> tuple[Source | View, ...]:
        """What rows come from, in the order in which it may be used."""
        return (*self.sources, *self.views)

    def checkpoint_of(self, sink: Sink) -> str:
        """The folder that holds the progress of one sink."""
        return f"{self.checkpoints.rstrip('/')}/{sink.name}"
