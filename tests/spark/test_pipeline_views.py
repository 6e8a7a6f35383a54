"""Spark's opinion of a pipeline is told with the line of the file, and asks no cluster."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidelog_spark.source import register
from tidelog_spark.streams.pipeline.checking import described, plan_of, validate
from tidelog_spark.streams.pipeline.document import InvalidPipeline
from tidelog_spark.streams.pipeline.reading import pipeline_of

#: Nobody listens there: whoever asks the cluster fails.
HEAD = """\
name: clicks
bootstrap: 127.0.0.1:1
checkpoints: state
sources:
  clicks:
    topic: clicks
    value: "user STRING, at TIMESTAMP"
    watermark: {column: at, delay: 10 minutes}
  users: {table: users, key: string, value: "name STRING"}
"""
VIEWS = """\
views:
  known: |
    SELECT clicks.*, users.name
    FROM clicks JOIN users ON clicks.user = users._key
  counted:
    sql: |
      SELECT window.start AS start, user, count(*) AS n
      FROM known
      GROUP BY window(at, '1 minute'), user
"""
LATE = "{column: at, delay: 10 minutes}"
MISSPELT = "    options: {maxOffsetPerTrigger: 5}"
SINKS = """\
sinks:
  out: {from: counted, topic: counts, key: user}
"""


@pytest.fixture(autouse=True)
def _format_is_known(spark: SparkSession) -> None:
    register(spark)


def problems_of(spark: SparkSession, text: str) -> list[tuple[int, str]]:
    """Lines and words of what is wrong."""
    with pytest.raises(InvalidPipeline) as refused:
        validate(spark, pipeline_of(text, "p.yaml"))
    return [(one.line, one.message) for one in refused.value.problems]


def test_a_valid_pipeline_is_described_and_planned(spark: SparkSession) -> None:
    pipeline = pipeline_of(HEAD + VIEWS + SINKS, "p.yaml")
    built = validate(spark, pipeline)
    lines = described(pipeline, built)
    assert lines[0].startswith(
        "clicks (stream): user string, at timestamp, _malformed string, _key"
    )
    assert lines[1].startswith("users (table): name string, _malformed string, _key string")
    assert lines[3] == "counted (stream): start timestamp, user string, n bigint"
    assert lines[4] == "counted -> topic counts (append)"
    assert "StateStoreSave" in plan_of(pipeline.sinks[0], built)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("FROM clicks", "FROM clicsk", 13, "no table or view 'clicsk'. Did you mean 'clicks'?"),
        ("FROM clicks", "FROM counted", 13, "'counted' is defined below, on line 14"),
        ("FROM known", "FROM elsewhere", 17, "there is clicks, users, known."),
        ("clicks.*,", "clicks.usr,", 12, "Did you mean one of the following? [`clicks`.`user`"),
        ("SELECT clicks", "SELEC clicks", 12, "Syntax error"),
        ("GROUP BY window(at", "GROUP BY windo(at", 18, "`windo`"),
        ("column: at", "column: att", 5, "source 'clicks': "),
        ("at TIMESTAMP", "at TIMESTAM", 5, "TIMESTAM"),
        ("key: user", "key: usr", 20, "no column 'usr'. Did you mean 'user'?"),
        ("from: counted", "from: users", 20, "writes 'users', in which there is no stream"),
        ("key: user}", "key: user, value: m}", 20, "no column 'm'"),
        ("key: user}", "key: user, options: {kafka.ack: 1}}", 20, "Did you mean 'kafka.acks'?"),
        (LATE, f"{LATE}\n{MISSPELT}", 5, "'maxOffsetsPerTrigger'?"),
        ('"name STRING"}', '"name STRING", options: {minPartition: 2}}', 9, "'minPartitions'?"),
    ],
)
def test_what_spark_refuses_is_told_with_its_line(
    spark: SparkSession, old: str, new: str, line: int, words: str
) -> None:
    text = HEAD + VIEWS + SINKS
    assert old in text
    [(at, message)] = problems_of(spark, text.replace(old, new, 1))
    assert words in message, message
    assert at == line
    assert "SQLSTATE" not in message


def test_all_that_is_wrong_is_told_at_once_and_what_hangs_on_it_is_not(
    spark: SparkSession,
) -> None:
    text = (HEAD + VIEWS + SINKS).replace(LATE, f"{LATE}\n{MISSPELT}")
    text = text.replace('"name STRING"}', '"name STRING", options: {minPartition: 2}}')
    lines = [line for line, _ in problems_of(spark, text)]
    assert lines == [5, 10]


def test_a_mode_that_a_query_does_not_have_is_refused_before_it_runs(spark: SparkSession) -> None:
    text = (HEAD + VIEWS + SINKS).replace("window(at, '1 minute'), user", "at, user")
    text = text.replace("window.start AS start", "user AS other")
    without = text.replace("    watermark: {column: at, delay: 10 minutes}\n", "")
    [(line, message)] = problems_of(spark, without)
    assert line == 19
    assert "Invalid streaming output mode: append" in message
