"""`tidelog console-producer`: each line of the standard input becomes a record.

Kafka's flags and reader properties. Every record has its verdict before the verb ends: one that
failed is reported, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.client_settings import Connection, connection
from tidelog.cli.flags import VerbParser, one_of, pair, whole_number
from tidelog.cli.line_reader import LineReader, ParsedLine
from tidelog.cli.property_files import read_properties
from tidelog.cli.told_to_end import told_to_end
from tidelog.errors import InvalidConfig, TidelogError

if TYPE_CHECKING:
    from tidelog.producer.delivery import Delivery
    from tidelog.producer.producer import Producer

EXAMPLES: Final = """\
  echo hello | tidelog console-producer --topic greetings
  tidelog console-producer --topic orders --reader-property parse.key=true \\
      --reader-property key.separator=: < orders.txt
"""
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
LINE_READERS: Final = (
    "org.apache.kafka.tools.LineMessageReader",
    "kafka.tools.ConsoleProducer$LineMessageReader",
)
PROMPT: Final = b">"

#: Flags that stand for one client property each: type, property, words.
PROPERTY_FLAGS: Final[dict[str, tuple[Any, str, str]]] = {
    "--batch-size": (whole_number(1), "batch.size", "bytes of a batch"),
    "--timeout": (whole_number(0), "linger.ms", "how long a batch waits for more records, in ms"),
    "--max-block-ms": (whole_number(0), "max.block.ms", "how long sending may wait for room"),
    "--max-memory-bytes": (whole_number(1), "buffer.memory", "bytes without a verdict, at most"),
    "--request-required-acks": (
        one_of("-1", "0", "1", "all"),
        "acks",
        "who must have a record: all (-1), the leader (1), or nobody asks (0)",
    ),
    "--request-timeout-ms": (whole_number(1), "request.timeout.ms", "limit of one request"),
    "--metadata-expiry-ms": (whole_number(100), "metadata.max.age.ms", "ask anew after this time"),
    "--message-send-max-retries": (
        whole_number(0),
        "retries",
        "no effect: see delivery.timeout.ms",
    ),
    "--retry-backoff-ms": (whole_number(0), "retry.backoff.ms", "no effect: chosen by the client"),
    "--socket-buffer-size": (whole_number(-1), "send.buffer.bytes", "no effect: the system's"),
}


def _parser() -> VerbParser:
    parser = VerbParser(
        "console-producer", "Sends each line of the standard input as a record.", EXAMPLES
    )
    parser.add_connection("--producer.config")
    parser.add_argument("--topic", help="where the records go (required)")
    parser.add_argument("--sync", action="store_true", help="wait for each record's verdict")
    parser.add_argument(
        "--compression-codec",
        nargs="?",
        const="gzip",
        type=one_of(*CODECS),
        metavar="CODEC",
        help=f"one of {', '.join(CODECS)}; gzip when none is named",
    )
    for flag, (kind, name, words) in PROPERTY_FLAGS.items():
        parser.add_argument(flag, type=kind, metavar="N", help=f"{words} ({name})")
    parser.add_argument(
        "--reader-property",
        "--property",
        type=pair,
        action="append",
        metavar="KEY=VALUE",
        help="how a line is read: parse.key, key.separator, parse.headers, headers.delimiter,"
        " headers.separator, headers.key.separator, ignore.error, null.marker (repeatable)",
    )
    parser.add_argument("--reader-config", metavar="FILE", help="a file of reader properties")
    parser.add_argument(
        "--command-property",
        "--producer-property",
        type=pair,
        action="append",
        metavar="KEY=VALUE",
        help="a setting of the producer, such as linger.ms=20 (repeatable)",
    )
    parser.add_argument("--line-reader", metavar="CLASS", help="Kafka's LineMessageReader")
    return parser


def main(arguments: Sequence[str]) -> int:
    """0 when every record was acknowledged."""
    parser = _parser()
    options = parser.parse(arguments)
    parser.require(options, "--topic")
    reader = _line_reader(options)

    from tidelog.producer.failures import ASK_EACH  # noqa: PLC0415 - as below
    from tidelog.producer.producer import Producer  # noqa: PLC0415 - grpc is slow to import

    where = _connection(options)
    where.reach()
    try:
        with told_to_end(), Producer(where.bootstrap, **where.settings) as producer:
            return _send_lines(producer, options, reader)
    except TidelogError as failure:
        if failure.hint == ASK_EACH:
            failure.hint = ""
        raise


def _line_reader(options: argparse.Namespace) -> LineReader:
    if options.line_reader is not None and options.line_reader not in LINE_READERS:
        raise InvalidConfig(
            f"The line reader {options.line_reader!r} is a class of Java, which does not run here",
            hint="Leave --line-reader out, or write a few lines with tidelog.Producer",
        )
    properties = read_properties(options.reader_config) | dict(options.reader_property or ())
    return LineReader.from_properties(properties)


def _connection(options: argparse.Namespace) -> Connection:
    from tidelog.producer.producer_settings import ProducerSettings  # noqa: PLC0415 - as above

    flags = {
        name: getattr(options, flag.lstrip("-").replace("-", "_"))
        for flag, (_, name, _) in PROPERTY_FLAGS.items()
    }
    flags["compression.type"] = options.compression_codec
    given = [(name, str(value)) for name, value in flags.items() if value is not None]
    return connection(
        options,
        ProducerSettings,
        options.command_property,
        given,
        client_id="console-producer",
    )


def _send_lines(
    producer: Producer[Any, Any], options: argparse.Namespace, reader: LineReader
) -> int:
    is_watched = sys.stdin.isatty()
    failed: list[Delivery] = []

    def tell(delivery: Delivery) -> None:
        error = delivery.exception()
        if error is not None:
            failed.append(delivery)
            print(f"not sent: {error}", file=sys.stderr)

    for number, line in enumerate(_lines(with_prompt=is_watched), start=1):
        record = reader.read(line, number)
        delivery = _send(producer, options.topic, record)
        if options.sync:
            delivery.result()
        elif is_watched:
            delivery.add_done_callback(tell)
    producer.flush()
    return 1 if failed else 0


def _send(producer: Producer[Any, Any], topic: str, record: ParsedLine) -> Delivery:
    return producer.send(topic, record.value, record.key, headers=record.headers)


def _lines(*, with_prompt: bool) -> Iterator[bytes]:
    """Lines without their ends, as they come; behind a prompt where somebody types them."""
    while True:
        if with_prompt:
            sys.stdout.buffer.write(PROMPT)
            sys.stdout.flush()
        line = sys.stdin.buffer.readline()
        if not line:
            return
        yield line.removesuffix(b"\n").removesuffix(b"\r")
