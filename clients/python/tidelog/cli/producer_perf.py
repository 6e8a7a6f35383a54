"""`tidelog producer-perf-test`: how many records a producer sends, and how long each takes.

Kafka's flags and lines: one each reporting interval, and one at the end. The exit code is 1 when
a record was not acknowledged.
"""

from __future__ import annotations

import argparse
import json
import random
import string
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.argument_bytes import argument_bytes
from tidelog.cli.client_settings import connection
from tidelog.cli.flags import VerbParser, pair, whole_number
from tidelog.cli.perf_figures import SAMPLES_MAX, ProducerFigures
from tidelog.errors import InvalidRequest

if TYPE_CHECKING:
    from tidelog.producer.delivery import Delivery
    from tidelog.producer.producer import Producer

EXAMPLES: Final = """\
  tidelog producer-perf-test --topic perf --num-records 1000000 --record-size 100 --throughput -1
  tidelog producer-perf-test --topic perf --num-records 5000 --record-size 1024 --throughput 1000 \\
      --command-property compression.type=zstd linger.ms=1
"""
PAYLOADS: Final = ("--record-size", "--payload-file", "--payload-monotonic")
#: A sender that is ahead of the throughput by less than this goes on.
AHEAD_S: Final = 0.001
RECORDS_BETWEEN_LOOKS: Final = 64
#: No topic takes a larger batch: max.message.bytes ends there.
SIZE_MAX: Final = 128 * 1024 * 1024
#: Random letters begin anew behind so many, which is further than a codec looks back.
BLOCK: Final = 16 * 1024 * 1024


def _parser() -> VerbParser:
    parser = VerbParser("producer-perf-test", "Measures producing.", EXAMPLES)
    parser.add_connection("--producer.config")
    parser.add_argument("--topic", help="where the records go (required)")
    parser.add_argument(
        "--num-records", type=whole_number(1), metavar="N", help="how many (required)"
    )
    parser.add_argument(
        "--record-size",
        type=whole_number(0, SIZE_MAX),
        metavar="BYTES",
        help="random letters, so many",
    )
    parser.add_argument("--payload-file", metavar="FILE", help="values drawn from this file")
    parser.add_argument("--payload-delimiter", metavar="TEXT", help="between them (default \\n)")
    parser.add_argument(
        "--payload-monotonic", action="store_true", help="values are 0, 1, 2, ... in digits"
    )
    parser.add_argument(
        "--throughput",
        type=whole_number(-1),
        metavar="N",
        help="records a second, -1 for as many as can be (required)",
    )
    parser.add_argument(
        "--command-property",
        "--producer-props",
        nargs="+",
        action="extend",
        type=pair,
        metavar="KEY=VALUE",
        help="settings of the producer, such as acks=all linger.ms=5",
    )
    parser.add_argument(
        "--reporting-interval",
        type=whole_number(1),
        default=5000,
        metavar="MS",
        help="between two lines (default 5000)",
    )
    parser.add_argument("--print-metrics", action="store_true", help="no effect: see /metrics")
    for flag in ("--transactional-id", "--transaction-duration-ms"):
        parser.add_argument(flag, metavar="X", help="refused: there are no transactions yet")
    parser.add_argument("--json", action="store_true", help="print the end as JSON, and no more")
    return parser


def main(arguments: Sequence[str]) -> int:
    """0 when every record was acknowledged."""
    parser = _parser()
    options = parser.parse(arguments)
    _check(parser, options)
    payload = payloads(options)

    from tidelog.producer.producer import Producer  # noqa: PLC0415 - grpc is slow to import
    from tidelog.producer.producer_settings import ProducerSettings  # noqa: PLC0415

    where = connection(
        options, ProducerSettings, options.command_property, client_id="perf-producer-client"
    )
    where.reach()
    with Producer(where.bootstrap, **where.settings) as producer:
        return Sending(producer, payload, options).run()


def _check(parser: VerbParser, options: argparse.Namespace) -> None:
    for flag in ("--topic", "--num-records", "--throughput"):
        parser.require(options, flag)
    if options.throughput == 0:
        parser.error("--throughput 0 would send nothing: give a number, or -1 for all speed")
    given = [flag for flag in PAYLOADS if parser.is_given(options, flag)]
    if options.payload_delimiter is not None and options.payload_file is None:
        parser.error("--payload-delimiter goes with --payload-file only")
    if options.payload_delimiter == "":
        parser.error(
            "--payload-delimiter '' divides nothing: leave it out where values end with their line"
        )
    if len(given) != 1:
        parser.error(f"give one of {', '.join(PAYLOADS)}")
    if options.transactional_id is not None or options.transaction_duration_ms is not None:
        raise InvalidRequest(
            "This Tidelog has no transactions yet", hint="Leave --transactional-id out"
        )
    if options.print_metrics:
        print(
            "--print-metrics has no effect here: the brokers' metrics stand at /metrics.",
            file=sys.stderr,
        )


def payloads(options: argparse.Namespace) -> Callable[[int], bytes]:
    """The value of each record by its number."""
    if options.payload_monotonic:
        return lambda number: str(number).encode()
    source = random.Random(0)
    if options.record_size is not None:
        fixed = _letters(source, options.record_size)
        return lambda _: fixed
    delimiter = "\\n" if options.payload_delimiter is None else options.payload_delimiter
    values = _values_of_file(options.payload_file, delimiter)
    return lambda _: source.choice(values)


def _letters(source: random.Random, size: int) -> bytes:
    """Drawn all at once: of the largest records, a call for each letter took a minute."""
    alphabet = string.ascii_uppercase.encode()
    letter_of_byte = bytes(alphabet[byte % len(alphabet)] for byte in range(256))
    block = source.randbytes(min(size, BLOCK)).translate(letter_of_byte)
    return block * (size // BLOCK) + block[: size % BLOCK]


def _values_of_file(file: str, delimiter: str) -> list[bytes]:
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise InvalidRequest(
            f"The file {file!r} can't be read", cause=error.strerror or str(error)
        ) from error
    text = delimiter.replace("\\n", "\n").replace("\\t", "\t")
    mark = argument_bytes("--payload-delimiter", text)
    values = [value for value in content.split(mark) if value]
    if not values:
        raise InvalidRequest(f"The file {file!r} holds no values", hint="One a line, or say how")
    return values


class Sending:
    """The loop: records out, figures in."""

    def __init__(
        self,
        producer: Producer[Any, Any],
        payload: Callable[[int], bytes],
        options: argparse.Namespace,
    ) -> None:
        self._producer = producer
        self._payload = payload
        self._options = options
        self._failed = 0
        self._first_error = ""
        self._figures = ProducerFigures(_now_ms())

    def run(self) -> int:
        """1 when a record failed."""
        options = self._options
        # Each callback costs as much as a record: with very many, one of some tells for them all.
        each = max(1, options.num_records // SAMPLES_MAX)
        begin = time.perf_counter()
        held_bytes = 0
        for number in range(options.num_records):
            value = self._payload(number)
            held_bytes += len(value)
            if (number + 1) % each == 0 or number + 1 == options.num_records:
                count = (number % each) + 1
                told = partial(self._tell, _now_ms(), count, held_bytes)
                self._producer.send(options.topic, value, on_delivery=told)
                held_bytes = 0
            else:
                self._producer.send(options.topic, value)
            if options.throughput > 0:
                self._wait_for_turn(number + 1, begin)
        self._producer.flush()
        return self._finish()

    def _wait_for_turn(self, sent: int, begin: float) -> None:
        throughput = self._options.throughput
        if throughput > 50_000 and sent % RECORDS_BETWEEN_LOOKS:
            return
        ahead_s = sent / throughput - (time.perf_counter() - begin)
        if ahead_s > AHEAD_S:
            time.sleep(ahead_s)

    def _tell(self, sent_ms: float, count: int, size_bytes: int, delivery: Delivery) -> None:
        now_ms = _now_ms()
        error = delivery.exception()
        if error is not None:
            self._failed += count
            self._first_error = self._first_error or str(error)
            return
        figures = self._figures
        figures.add(now_ms - sent_ms, count, size_bytes)
        is_due = now_ms - figures.window_start_ms >= self._options.reporting_interval
        if is_due and not self._options.json:
            print(figures.window_line(now_ms), flush=True)

    def _finish(self) -> int:
        now_ms = _now_ms()
        if self._options.json:
            print(json.dumps(self._figures.as_json(now_ms) | {"failed": self._failed}))
        else:
            print(self._figures.total_line(now_ms))
        if self._failed:
            print(f"{self._failed} records failed. The first: {self._first_error}", file=sys.stderr)
        return 1 if self._failed else 0


def _now_ms() -> float:
    return time.perf_counter() * 1000
