"""A pipeline's file is read whole or refused with every problem and its line; no Spark yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.errors import InvalidConfig
from tidelog_spark.streams.pipeline.document import InvalidPipeline
from tidelog_spark.streams.pipeline.reading import pipeline_of, read_pipeline
from tidelog_spark.streams.pipeline.specification import Restart, Watermark

WHOLE = """\
name: clicks
bootstrap: one:9094
checkpoints: state/
metrics_port: 0
spark: {spark.sql.shuffle.partitions: 8, spark.ui.enabled: true}
restart: {attempts: 3, first_pause: 2 seconds, longest_pause: 5 seconds}
sources:
  clicks:
    topic: [clicks, old-clicks]
    value: "user STRING, at TIMESTAMP"
    watermark: {column: at, delay: 10 minutes}
    options: {maxOffsetsPerTrigger: 1000}
  all: {pattern: "a.*", start: latest, malformed: fail}
  users: {table: users, key: string}
views:
  known: |
    SELECT *
    FROM clicks
  timed: {sql: SELECT 1 AS at, watermark: {column: at, delay: 1 hour}}
sinks:
  out: {from: known, topic: known, key: [user, at], mode: update, delete_when: at IS NULL}
  files: {from: timed, parquet: /data, trigger: 1 minute}
  rows: {from: Known, table: t, mode: complete}
  screen: {from: known, console: true}
"""
SMALL = """\
name: n
checkpoints: c
sources:
  a: {topic: a}
sinks:
  out: {from: a, console: true}
"""
SINK = "  out: {from: a, console: true}"


def problems_of(text: str) -> list[tuple[int, str]]:
    """Lines and words of what is wrong with a text."""
    with pytest.raises(InvalidPipeline) as refused:
        pipeline_of(text, "p.yaml")
    return [(one.line, one.message) for one in refused.value.problems]


def changed(old: str, new: str) -> list[tuple[int, str]]:
    """What is wrong with the small pipeline after one change."""
    assert old in SMALL
    return problems_of(SMALL.replace(old, new))


def test_everything_that_can_be_said_is_read() -> None:
    pipeline = pipeline_of(WHOLE, "p.yaml")
    clicks, every, users = pipeline.sources
    assert (clicks.topic, clicks.options) == ("clicks,old-clicks", {"maxOffsetsPerTrigger": "1000"})
    assert clicks.watermark == Watermark("at", "10 minutes")
    assert (every.pattern, every.topic, every.start, every.malformed) == (
        "a.*",
        "",
        "latest",
        "fail",
    )
    assert (users.topic, users.is_table, users.key) == ("users", True, "string")
    known, timed = pipeline.views
    assert (known.sql, known.line, known.sql_line) == ("SELECT *\nFROM clicks", 16, 17)
    assert timed.watermark == Watermark("at", "1 hour")
    out, files, rows, screen = pipeline.sinks
    assert (out.kind, out.target, out.key, out.mode) == ("topic", "known", ("user", "at"), "update")
    assert (files.kind, files.trigger, rows.mode, screen.kind) == (
        *("parquet", "1 minute"),
        *("complete", "console"),
    )
    assert pipeline.spark == {"spark.sql.shuffle.partitions": "8", "spark.ui.enabled": "true"}
    assert pipeline.restart == Restart(3, 2_000, 5_000)
    assert pipeline.checkpoint_of(out) == "state/out"
    assert (pipeline.bootstrap, pipeline.metrics_port) == ("one:9094", 0)


def test_what_is_told_by_a_flag_goes_before_the_file() -> None:
    assert pipeline_of(WHOLE, "p.yaml", bootstrap="other:1").bootstrap == "other:1"


def test_pauses_grow_up_to_their_limit() -> None:
    restart = Restart(first_pause_ms=1_000, longest_pause_ms=5_000)
    assert [restart.pause_ms(failures) for failures in (1, 2, 3, 4, 500)] == [
        *(1_000, 2_000, 4_000),
        *(5_000, 5_000),
    ]


def test_pauses_keep_their_limit_for_as_many_failures_as_a_file_may_allow() -> None:
    pipeline = pipeline_of(f"{SMALL}restart: {{attempts: 1000000}}\n", "p.yaml")
    for failures in (1_024, 1_025, pipeline.restart.attempts + 1):
        assert pipeline.restart.pause_ms(failures) == 60_000
    assert Restart(first_pause_ms=0).pause_ms(10**6) == 0
    assert Restart(first_pause_ms=1, longest_pause_ms=10**6).pause_ms(20) == 2**19
    assert Restart(first_pause_ms=5, longest_pause_ms=3).pause_ms(10**6) == 3


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        (
            "checkpoints: c",
            "checkpoint: c",
            2,
            "no field 'checkpoint'. Did you mean 'checkpoints'?",
        ),
        ("name: n", "name: [n]", 1, "needs one value as 'name', not a list"),
        ("{topic: a}", "{topik: a}", 4, "source 'a' has no field 'topik'. Did you mean 'topic'?"),
        ("{topic: a}", "{topic: a, table: b}", 4, "exactly one of topic, pattern and table"),
        ("{topic: a}", "{table: a, start: latest}", 4, "is a table, which has no start"),
        ("{topic: a}", "a", 4, "must have fields"),
        ("{topic: a}", "{topic: a, start: newest}", 4, "cannot have 'newest' as 'start'"),
        ("  a: {", "  a-b: {", 4, "'a-b' is no name for one of sources"),
        ("from: a", "from: b", 6, "writes 'b', which is no source and no view"),
        ("console: true", "console: false", 6, "nothing else to write to"),
        ("console: true", "topic: t, mode: update", 6, "needs the field 'key'"),
        ("console: true", "topic: t, mode: complete", 6, "in append or update mode only"),
        ("console: true", "parquet: p, key: a", 6, "writes to no topic and has no key"),
        ("console: true", "topic: t, key: a, delete_when: b", 6, "needs mode: update"),
        ("console: true", "console: true, trigger: often", 6, "a time like '10 minutes'"),
        ("  a: {topic: a}", "  {}", 3, "needs names with their sources below 'sources'"),
        (SINK, "  {}", 5, "needs names with their sinks below 'sinks'"),
        ("console: true", "topic: t, options: {Topic: u}", 6, "cannot have the option 'Topic'"),
        ("console: true", "parquet: p, options: {path: q}", 6, "cannot have the option 'path'"),
        (
            "console: true",
            "topic: t, options: {checkpointLocation: q}",
            *(6, "each sink has its own folder below 'checkpoints'"),
        ),
        ("name: n", "name: n\nmetrics_port: 99999", 2, "from 0 to 65535 as 'metrics_port'"),
        ("name: n", "name: n\nrestart: {attempts: -1}", 2, "as 'attempts', not '-1'"),
        ("name: n", "name: n\nspark: [a]", 2, "needs names with values as 'spark'"),
        ("name: n", "name: n\nname: m", 2, "'name' stands here again, first on line 1"),
        ("name: n", "name: {n", 2, "this is no YAML"),
        ("name: n", "name: \tn\x00", 1, "this is no YAML"),
        ("sinks:", "views:\n  A: SELECT 1\nsinks:", 6, "'A' is already named on line 4"),
    ],
)
def test_a_problem_is_told_with_its_line(old: str, new: str, line: int, words: str) -> None:
    found = changed(old, new)
    assert any(at == line and words in message for at, message in found), found


def test_all_problems_are_told_at_once() -> None:
    text = (
        SMALL.replace("name: n", "nam: n").replace("topic", "topik").replace("from: a", "from: b")
    )
    assert [line for line, _ in problems_of(text)] == [1, 1, 4, 4, 6]


@pytest.mark.parametrize("text", ["", "- a\n", "just text", "a: &a [*a]\n"])
def test_what_is_no_pipeline_at_all_is_refused(text: str) -> None:
    assert problems_of(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot be read: No such file"):
        read_pipeline(tmp_path / "missing.yaml")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidConfig, match="no text in UTF-8"):
        read_pipeline(tmp_path / "bytes")
