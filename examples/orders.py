"""Orders joined with the table of customers, and the turnover of each country.

Customers are a keyed topic: a later record of a key replaces the earlier one, and a null value
takes the customer out. Each micro-batch of orders sees the table as it is then.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Final

from pyspark.sql import functions as sql

import tidelog
from playground import Playground, play
from showing import bars, table
from tidelog_spark import streams

COUNTRIES: Final = ("Denmark", "Iceland", "Norway", "Portugal", "Scotland")
ORDER: Final = "id BIGINT, customer STRING, amount DOUBLE"
CUSTOMER: Final = "name STRING, country STRING"
ENRICHED: Final = "id BIGINT, customer STRING, amount DOUBLE, name STRING, country STRING"
CUSTOMERS: Final = 40
ORDERS: Final = 500

Turnover = tuple[str, int, float]


def send(ground: Playground, customers: str, orders: str) -> None:
    """Customers, of whom one moves and one leaves, and their orders."""
    chance = random.Random(11)
    with tidelog.Producer(ground.bootstrap) as producer:
        for number in range(CUSTOMERS):
            country = COUNTRIES[number % len(COUNTRIES)]
            customer = {"name": f"Customer {number}", "country": country}
            producer.send(customers, key=f"c{number}", value=json.dumps(customer))
        moved = {"name": "Customer 0", "country": "Iceland"}
        producer.send(customers, key="c0", value=json.dumps(moved))
        producer.send(customers, key="c1", value=None)
        for number in range(ORDERS):
            customer_id = f"c{min(chance.randrange(CUSTOMERS), chance.randrange(CUSTOMERS))}"
            amount = round(chance.lognormvariate(3, 1), 2)
            order = {"id": number, "customer": customer_id, "amount": amount}
            producer.send(orders, key=customer_id, value=json.dumps(order))


def run(ground: Playground) -> list[Turnover]:
    """Joins them; returns country, orders and turnover, the largest first."""
    customers, orders = ground.topic("customers"), ground.topic("orders")
    outgoing = ground.topic("orders-with-customers")
    send(ground, customers, orders)

    incoming = streams.stream(ground.spark, orders, bootstrap=ground.bootstrap, value=ORDER)
    known = streams.table(ground.spark, customers, bootstrap=ground.bootstrap, value=CUSTOMER)
    known = known.select(sql.col("_key").alias("customer"), "name", "country")
    enriched = incoming.join(known, "customer", "left")
    writer = streams.to_topic(
        enriched.select("id", "customer", "amount", "name", "country"),
        outgoing,
        bootstrap=ground.bootstrap,
        checkpoint=ground.checkpoint("orders"),
        key="customer",
    )
    writer.trigger(availableNow=True).start().awaitTermination()

    found = streams.batch(ground.spark, outgoing, bootstrap=ground.bootstrap, value=ENRICHED)
    rows = (
        found.groupBy(sql.coalesce("country", sql.lit("(left)")).alias("country"))
        .agg(sql.count("*").alias("orders"), sql.round(sql.sum("amount"), 2).alias("turnover"))
        .orderBy(sql.desc("turnover"))
        .collect()
    )
    return [(row.country, row.orders, row.turnover) for row in rows]


def example(ground: Playground) -> None:
    """Runs it and shows what each country bought."""
    rows = run(ground)
    print(table(("country", "orders", "turnover"), rows))
    print()
    print(bars([(country, turnover) for country, _, turnover in rows]))


if __name__ == "__main__":
    sys.exit(play(example, "Join orders with the table of customers."))
