"""`python -m bench.compare`: Tidelog beside any Kafka you have, the same work through both.

    pip install confluent-kafka
    python -m bench.compare --kafka localhost:9092

Each round runs every workload on both sides, one right after the other, so that a ratio compares
neighbours. Both clients send one record a call with acks=all and idempotence, and read one record
an object: confluent-kafka is Kafka's fastest for Python. Without --tidelog a node is started for
it; without --kafka Tidelog is measured alone. Topics are made anew and deleted afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench.compare_sides import KafkaSide, Side, TidelogSide, latencies_ms
from bench.measuring import Row, row, show, with_ratio
from bench.servers import broker

SIZES: Final = {"100 B": 100, "1 KB": 1024}
LATENCY_BYTES: Final = 1024
PROBE_RECORDS: Final = 20_000
FLUSH: Final = ("commit", "interval", "os")

#: By name and unit of the row, then by side: what each round measured.
Figures = dict[tuple[str, str], dict[str, list[float]]]


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kafka", metavar="HOST:PORT", help="brokers of a Kafka cluster")
    parser.add_argument("--tidelog", metavar="HOST:PORT", help="brokers of a Tidelog cluster")
    parser.add_argument(
        "--flush",
        choices=FLUSH,
        default="commit",
        help="flush.policy of the node that is started (default commit; Kafka's own way is os)",
    )
    parser.add_argument("--repeat", type=int, default=3, help="rounds (default 3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each work (default 3)")
    parser.add_argument("--rate", type=int, default=1_000, help="records a second for latency")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where all figures go")
    return parser.parse_args()


@contextmanager
def fresh_topic(side: Side) -> Iterator[str]:
    """A topic of one partition that is gone afterwards."""
    name = f"bench-compare-{os.getpid()}-{time.monotonic_ns()}"
    side.create(name)
    try:
        yield name
    finally:
        side.delete(name)


def measure(side: Side, options: argparse.Namespace) -> Iterator[tuple[str, str, float]]:
    """Every workload once: name, unit, value."""
    for label, size in SIZES.items():
        with fresh_topic(side) as topic:
            rate = PROBE_RECORDS / side.produce(topic, PROBE_RECORDS, size)
        count = max(PROBE_RECORDS, int(rate * options.seconds))
        with fresh_topic(side) as topic:
            yield f"produce {label}", "records/s", count / side.produce(topic, count, size)
            yield f"consume {label}", "records/s", count / side.consume(topic, count)
    with fresh_topic(side) as topic:
        count = int(options.rate * options.seconds)
        waits = latencies_ms(side, topic, count=count, rate=options.rate, size=LATENCY_BYTES)
    percentiles = statistics.quantiles(waits, n=100)
    for number in (50, 99):
        yield f"latency 1 KB at {options.rate:,}/s, p{number}", "ms", percentiles[number - 1]


def run(sides: Sequence[Side], options: argparse.Namespace) -> Figures:
    """All rounds, the sides next to each other in each."""
    figures: Figures = {}
    for number in range(options.repeat):
        # Whoever goes second finds a warmer machine: they take turns.
        for side in sides if number % 2 == 0 else reversed(sides):
            print(f"round {number + 1} of {options.repeat}: {side.name}", file=sys.stderr)
            for name, unit, value in measure(side, options):
                figures.setdefault((name, unit), {}).setdefault(side.name, []).append(value)
    return figures


def rows_of(figures: Figures) -> list[Row]:
    """Medians and spread; Tidelog's also as a ratio to Kafka's."""
    rows = []
    for (name, unit), by_side in figures.items():
        for side, values in by_side.items():
            measured = row(f"{name}: {side}", unit, values)
            base = by_side.get(KafkaSide.name)
            if base is not None and side != KafkaSide.name:
                measured = with_ratio(measured, KafkaSide.name, values, base)
            rows.append(measured)
    return rows


def main() -> int:
    """Measures, prints the table, writes the figures."""
    options = arguments()
    with ExitStack() as stack:
        flags = ("--config", f"flush.policy={options.flush}")
        address = options.tidelog or stack.enter_context(broker(None, *flags)).address
        sides: list[Side] = [TidelogSide(address)]
        if options.kafka:
            sides.append(KafkaSide(options.kafka))
        versions = {side.name: side.version() for side in sides}
        figures = run(sides, options)
    rows = rows_of(figures)
    print(show(rows))
    report = {
        "taken": time.strftime("%Y-%m-%dT%H:%M:%S"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "flush": "the cluster's own" if options.tidelog else options.flush,
        "versions": versions,
        "rows": rows,
        "rounds": [
            {"name": name, "unit": unit, "side": side, "values": values}
            for (name, unit), by_side in figures.items()
            for side, values in by_side.items()
        ],
    }
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
        print(f"\nwritten to {options.json}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
