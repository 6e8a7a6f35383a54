"""Visits to a site, found in the clicks of its users.

Clicks come as JSON, some of them late. A session ends when a user has clicked nothing for half an
hour; sessions that ended go into a topic of their own.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import functions as sql

import tidelog
from playground import Playground, play
from showing import columns, table
from tidelog_spark import streams

BEGIN: Final = datetime(2026, 3, 1, 6, tzinfo=UTC)
#: More visits come at noon and in the evening.
VISITS_AN_HOUR: Final = (1, 2, 4, 6, 7, 9, 12, 10, 7, 6, 6, 8, 11, 14, 12, 8, 4, 2)
PAGES: Final = ("/", "/books", "/maps", "/tides", "/basket", "/order")
CLICK: Final = "user STRING, page STRING, at TIMESTAMP"
SESSION: Final = "user STRING, start TIMESTAMP, end TIMESTAMP, clicks BIGINT, pages BIGINT"
SHOWN: Final = 6

Session = tuple[str, datetime, float, int, int]


def clicks() -> list[dict[str, str]]:
    """A day of clicks in the order in which they arrive: neighbours may have changed places."""
    chance = random.Random(7)
    found = []
    for hour, visits in enumerate(VISITS_AN_HOUR):
        for visit in range(visits):
            at = BEGIN + timedelta(hours=hour, minutes=chance.uniform(0, 59))
            for _ in range(chance.randint(1, 12)):
                user, page = f"user-{hour:02}-{visit:02}", chance.choice(PAGES)
                found.append({"user": user, "page": page, "at": at.isoformat()})
                at += timedelta(minutes=chance.uniform(0.2, 8))
    found.sort(key=lambda click: str(click["at"]))
    for number in range(0, len(found) - 1, 5):
        found[number], found[number + 1] = found[number + 1], found[number]
    return found


def run(ground: Playground) -> list[Session]:
    """Finds the sessions: user, start, minutes, clicks, different pages; longest first."""
    incoming, outgoing = ground.topic("clicks"), ground.topic("sessions")
    with tidelog.Producer(ground.bootstrap) as producer:
        for click in clicks():
            producer.send(incoming, key=click["user"], value=json.dumps(click))
        # Time goes on only with clicks: one of the next day ends the sessions of this one.
        last = {"user": "nobody", "page": "/", "at": (BEGIN + timedelta(days=2)).isoformat()}
        producer.send(incoming, key="nobody", value=json.dumps(last))

    events = streams.stream(ground.spark, incoming, bootstrap=ground.bootstrap, value=CLICK)
    ended = streams.sessions(
        events,
        "at",
        "30 minutes",
        late="10 minutes",
        keys=["user"],
        aggregates=[
            sql.count("*").alias("clicks"),
            sql.approx_count_distinct("page").alias("pages"),
        ],
    )
    writer = streams.to_topic(
        ended,
        outgoing,
        bootstrap=ground.bootstrap,
        checkpoint=ground.checkpoint("sessions"),
        key="user",
    )
    writer.trigger(availableNow=True).start().awaitTermination()

    found = streams.batch(ground.spark, outgoing, bootstrap=ground.bootstrap, value=SESSION)
    minutes = (sql.col("end").cast("long") - sql.col("start").cast("long")) / 60 - 30
    rows = found.withColumn("minutes", minutes).orderBy(sql.desc("minutes"), "user").collect()
    return [(row.user, row.start, row.minutes, row.clicks, row.pages) for row in rows]


def example(ground: Playground) -> None:
    """Runs it; shows the longest sessions, and how many began in each hour."""
    found = run(ground)
    print(table(("user", "start", "minutes", "clicks", "pages"), found[:SHOWN]))
    began = Counter(f"{start:%H}:00" for _, start, *_ in found)
    print(f"\n{len(found)} sessions, by the hour in which they began:\n")
    print(columns([(hour, float(began[hour])) for hour in sorted(began)]))


if __name__ == "__main__":
    sys.exit(play(example, "Find the sessions in a stream of clicks."))
