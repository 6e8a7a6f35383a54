"""`tidelog consumer-perf-test`: how many records a consumer reads.

Kafka's flags and its comma-separated lines: one at the end, and with `--show-detailed-stats` one
each reporting interval. Every record is made an object and its key and value are counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.client_settings import Connection, connection
from tidelog.cli.flags import VerbParser, pair, whole_number
from tidelog.cli.perf_figures import (
    Consumed,
    consumer_header,
    consumer_row,
    consumer_window,
    date_format,
)
from tidelog.cli.topic_names import matching_topics
from tidelog.errors import InvalidRequest

if TYPE_CHECKING:
    from tidelog.consumer.consumer import Consumer

EXAMPLES: Final = """\
  tidelog consumer-perf-test --topic perf --num-records 1000000
  tidelog consumer-perf-test --topic perf --num-records 1000000 --show-detailed-stats
"""
DATE_FORMAT: Final = "yyyy-MM-dd HH:mm:ss:SSS"


def _parser() -> VerbParser:
    parser = VerbParser("consumer-perf-test", "Measures consuming.", EXAMPLES)
    parser.add_connection("--consumer.config")
    parser.add_argument("--topic", help="what to read")
    parser.add_argument("--include", metavar="REGEX", help="read every topic whose name matches")
    parser.add_argument(
        "--num-records", "--messages", type=whole_number(1), metavar="N", help="how many (required)"
    )
    parser.add_argument("--group", metavar="ID", help="refused: there are no groups yet")
    parser.add_argument("--from-latest", action="store_true", help="begin with new records")
    parser.add_argument(
        "--fetch-size", type=whole_number(1), metavar="BYTES", help="of one partition at once"
    )
    parser.add_argument(
        "--socket-buffer-size", type=whole_number(-1), metavar="BYTES", help="no effect"
    )
    parser.add_argument(
        "--timeout",
        type=whole_number(1),
        default=10_000,
        metavar="MS",
        help="stop when nothing came for so long (default 10000)",
    )
    parser.add_argument(
        "--reporting-interval",
        type=whole_number(1),
        default=5000,
        metavar="MS",
        help="between two lines of --show-detailed-stats (default 5000)",
    )
    parser.add_argument("--show-detailed-stats", action="store_true", help="show the progress")
    parser.add_argument("--hide-header", action="store_true", help="leave the first line out")
    parser.add_argument(
        "--date-format",
        default=DATE_FORMAT,
        metavar="FORMAT",
        help=f"default {DATE_FORMAT}".replace("%", "%%"),
    )
    parser.add_argument("--print-metrics", action="store_true", help="no effect: see /metrics")
    parser.add_argument(
        "--command-property",
        type=pair,
        action="append",
        metavar="KEY=VALUE",
        help="a setting of the consumer (repeatable)",
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """0, also when fewer records were there than asked for: that is told as a warning."""
    parser = _parser()
    options = parser.parse(arguments)
    parser.require(options, "--topic", "--include")
    parser.refuse_together(options, "--topic", "--include")
    parser.require(options, "--num-records")
    if options.group is not None:
        raise InvalidRequest(
            f"--group {options.group}: this Tidelog has no consumer groups yet",
            hint="Leave it out: the whole topic is read",
        )
    options.date_format = date_format(options.date_format)
    if options.print_metrics:
        print(
            "--print-metrics has no effect here: the brokers' metrics stand at /metrics.",
            file=sys.stderr,
        )

    from tidelog.consumer.consumer import Consumer  # noqa: PLC0415 - grpc is slow to import

    where = _connection(options)
    where.reach()
    topics = [options.topic]
    if options.topic is None:
        topics = matching_topics(where.bootstrap, options.include)
    with Consumer(where.bootstrap, **where.settings) as consumer:
        Measuring(consumer, options).run(topics)
    return 0


def _connection(options: argparse.Namespace) -> Connection:
    from tidelog.consumer.settings import ConsumerSettings  # noqa: PLC0415 - as above

    given = [("auto.offset.reset", "earliest")]
    if options.fetch_size is not None:
        given.append(("max.partition.fetch.bytes", str(options.fetch_size)))
    if options.socket_buffer_size is not None:
        given.append(("receive.buffer.bytes", str(options.socket_buffer_size)))
    return connection(
        options, ConsumerSettings, given, options.command_property, client_id="perf-consumer-client"
    )


class Measuring:
    """The loop: records in, lines out."""

    def __init__(self, consumer: Consumer[Any, Any], options: argparse.Namespace) -> None:
        self._consumer = consumer
        self._options = options
        self._records = 0
        self._bytes = 0
        self._assign_ms = 0.0

    def run(self, topics: list[str]) -> None:
        """Reads, and prints."""
        options = self._options
        if not options.hide_header:
            print(consumer_header(detailed=options.show_detailed_stats), flush=True)
        begin = self._now()
        self._consumer.assign(topics, start="latest" if options.from_latest else "earliest")
        self._assign_ms = self._now().at_ms - begin.at_ms
        self._read(begin)
        if self._records < options.num_records:
            print(
                "WARNING: Exiting before consuming the expected number of records: timeout"
                f" ({options.timeout} ms) exceeded. You can use the --timeout option to increase"
                " the timeout."
            )
        if not options.show_detailed_stats:
            print(consumer_row(begin, self._now(), self._assign_ms, options.date_format))

    def _read(self, begin: Consumed) -> None:
        options = self._options
        window, assign_ms = begin, self._assign_ms
        for batch in self._consumer.batches(timeout=options.timeout / 1000):
            records = batch.records()
            self._records += len(records)
            self._bytes += sum([len(record.value or b"") for record in records])
            self._bytes += sum([len(record.key) for record in records if record.key])
            if self._records >= options.num_records:
                return
            now = self._now()
            if now.at_ms - window.at_ms >= options.reporting_interval:
                if options.show_detailed_stats:
                    line = consumer_window(window, now, assign_ms, options.date_format)
                    print(line, flush=True)
                window, assign_ms = now, 0.0

    def _now(self) -> Consumed:
        return Consumed(time.time() * 1000, self._records, self._bytes)
