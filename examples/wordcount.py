"""Words of a text, counted as its lines come in.

Lines go into a topic; a stream counts words and keeps the counts in a second topic as a changelog:
the last record of each word is its count now. A table made of that topic is the result.
"""

from __future__ import annotations

import sys
from typing import Final

from pyspark.sql import functions as sql

import tidelog
from playground import Playground, play
from showing import bars, table
from tidelog_spark import streams

TEXT: Final = """\
The sea has its tides and the moon has the sea
The log of the sea is written by the tides
What the tide has taken the tide brings again
No tide waits for a log and no log waits for a tide
The moon keeps the time and the log keeps the order
"""
SHOWN: Final = 8


def run(ground: Playground) -> list[tuple[str, int]]:
    """Counts the words; returns them with the most frequent first."""
    lines, counts = ground.topic("lines"), ground.topic("word-counts")
    with tidelog.Producer(ground.bootstrap) as producer:
        for line in TEXT.splitlines():
            producer.send(lines, value=line)

    text = streams.stream(ground.spark, lines, bootstrap=ground.bootstrap, value="string")
    words = text.select(sql.explode(sql.split(sql.lower("value"), " ")).alias("word"))
    counted = words.groupBy("word").agg(sql.count("*").alias("n"))
    writer = streams.changelog(
        counted,
        counts,
        bootstrap=ground.bootstrap,
        checkpoint=ground.checkpoint("words"),
        key="word",
    )
    writer.trigger(availableNow=True).start().awaitTermination()

    found = streams.table(
        ground.spark, counts, bootstrap=ground.bootstrap, value="word STRING, n BIGINT"
    )
    rows = found.orderBy(sql.desc("n"), "word").select("word", "n").collect()
    return [(row.word, row.n) for row in rows]


def example(ground: Playground) -> None:
    """Runs it and shows the most frequent words."""
    words = run(ground)
    print(table(("word", "count"), words[:SHOWN]))
    print()
    print(bars([(word, float(n)) for word, n in words[:SHOWN]]))


if __name__ == "__main__":
    sys.exit(play(example, "Count the words of a text as its lines come in."))
