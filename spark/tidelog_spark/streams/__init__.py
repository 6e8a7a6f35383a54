"""Streams on Spark: what topics need beyond plain DataFrames, and nothing else.

Every helper takes and returns DataFrames or Spark's own writers, so that any of them can be left
out. `tidelog_spark.streams.pipeline` runs whole files of SQL by the same helpers.
"""

from tidelog_spark.streams.codecs import decode, encode
from tidelog_spark.streams.joins import join_within
from tidelog_spark.streams.sinks import changelog, to_topic
from tidelog_spark.streams.topics import batch, stream, table
from tidelog_spark.streams.windows import sessions, windowed

__all__ = [
    "batch",
    "changelog",
    "decode",
    "encode",
    "join_within",
    "sessions",
    "stream",
    "table",
    "to_topic",
    "windowed",
]
