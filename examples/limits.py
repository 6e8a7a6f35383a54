"""An alarm for customers who spend too much, with state of our own.

Spark's `transformWithState` keeps a total for each customer. What crosses the limit is told once;
a customer of whom nothing is heard for a day begins anew. It needs pandas beside Spark.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import Row
from pyspark.sql import functions as sql
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

import tidelog
from playground import Playground, play
from showing import bars, table
from tidelog_spark import streams

ROCKS_DB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
BEGIN: Final = datetime(2026, 3, 1, tzinfo=UTC)
LIMIT: Final = 100.0
DAY_MS: Final = 86_400_000
ORDER: Final = "customer STRING, amount DOUBLE, at TIMESTAMP"
ALARM: Final = "customer STRING, total DOUBLE"
#: Customer, amount, and the hour of the order.
ORDERS: Final = (
    ("ada", 60.0, 1),
    ("bo", 30.0, 2),
    ("ada", 55.0, 3),
    ("ada", 20.0, 4),
    ("bo", 40.0, 5),
    ("cy", 250.0, 6),
    ("bo", 45.0, 40),
    ("ada", 110.0, 41),
    ("nobody", 0.0, 100),
)


class Limit(StatefulProcessor):
    """Totals of one customer after another; tells each total that crosses the limit."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Opens the state; Spark calls it in every task."""
        self._handle = handle
        self._state = handle.getValueState("state", "total DOUBLE, latest_ms BIGINT")

    def handleInputRows(
        self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        """The orders of one customer in one batch."""
        total, latest_ms = self._state.get() or (0.0, 0)
        for order in sorted(rows, key=lambda row: int(row.at_ms)):
            if order.at_ms - latest_ms >= DAY_MS:
                total = 0.0
            before, total, latest_ms = total, total + order.amount, order.at_ms
            if before < LIMIT <= total:
                yield Row(customer=key[0], total=total)
        self._state.update((total, latest_ms))
        for timer_ms in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer_ms)
        self._handle.registerTimer(latest_ms + DAY_MS)

    def handleExpiredTimer(
        self, key: tuple[str], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        """Nothing was heard of the customer for a day: the state need not be kept."""
        self._state.clear()
        return iter(())

    def close(self) -> None:
        """Spark closes the state itself."""


def run(ground: Playground) -> list[tuple[str, float]]:
    """Watches the orders; returns the alarms."""
    incoming, alarms = ground.topic("orders", partitions=1), ground.topic("alarms", partitions=1)
    with tidelog.Producer(ground.bootstrap) as producer:
        for customer, amount, hour in ORDERS:
            at = (BEGIN + timedelta(hours=hour)).isoformat()
            order = {"customer": customer, "amount": amount, "at": at}
            producer.send(incoming, key=customer, value=json.dumps(order))

    ground.spark.conf.set(PROVIDER, ROCKS_DB)
    orders = streams.stream(
        ground.spark,
        incoming,
        bootstrap=ground.bootstrap,
        value=ORDER,
        watermark=("at", "1 minute"),
        options={"maxOffsetsPerTrigger": "2"},
    )
    told = (
        orders.select("customer", "amount", sql.unix_millis("at").alias("at_ms"))
        .groupBy("customer")
        .transformWithState(
            Limit(), outputStructType=ALARM, outputMode="append", timeMode="eventTime"
        )
    )
    writer = streams.to_topic(
        told,
        alarms,
        bootstrap=ground.bootstrap,
        checkpoint=ground.checkpoint("alarms"),
        key="customer",
    )
    writer.trigger(availableNow=True).start().awaitTermination()

    found = streams.batch(ground.spark, alarms, bootstrap=ground.bootstrap, value=ALARM)
    rows = found.orderBy("_offset").select("customer", "total").collect()
    return [(row.customer, row.total) for row in rows]


def example(ground: Playground) -> None:
    """Runs it and shows the alarms in the order in which they came."""
    rows = run(ground)
    print(table(("customer", "total"), rows))
    print()
    print(bars(rows))


if __name__ == "__main__":
    sys.exit(play(example, "Tell which customers spend more than a limit."))
