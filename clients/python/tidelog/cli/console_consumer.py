"""`tidelog console-consumer`: prints the records of topics, as they are or as they come.

Kafka's flags and formatter properties; `--json` prints an object a line. It reads partitions by
itself, without a group, and commits nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.client_settings import Connection, connection
from tidelog.cli.flags import VerbParser, one_of, pair, whole_number
from tidelog.cli.formatting import Formatter, formatter_named, json_line
from tidelog.cli.property_files import read_properties
from tidelog.cli.told_to_end import exit_code, told_to_end
from tidelog.cli.topic_names import matching_topics
from tidelog.errors import InvalidRequest, LogCorrupt, SerializationFailed

if TYPE_CHECKING:
    from tidelog.consumer.consumer import Consumer

EXAMPLES: Final = """\
  tidelog console-consumer --topic greetings --from-beginning
  tidelog console-consumer --topic orders --partition 0 --offset 42 --max-messages 1 --json
  tidelog console-consumer --include 'orders.*' --formatter-property print.key=true
"""
POLL_RECORDS: Final = 500
#: What says how lines look; JSON always looks the same.
FORMATTING_FLAGS: Final = (
    "--formatter",
    "--formatter-property",
    "--formatter-config",
    "--key-deserializer",
    "--value-deserializer",
)


def _parser() -> VerbParser:
    parser = VerbParser("console-consumer", "Prints the records of topics.", EXAMPLES)
    parser.add_connection("--consumer.config")
    parser.add_argument("--topic", help="what to read")
    parser.add_argument("--include", metavar="REGEX", help="read every topic whose name matches")
    parser.add_argument("--partition", type=whole_number(0), metavar="N", help="read only this one")
    parser.add_argument(
        "--offset",
        type=_offset,
        metavar="OFFSET",
        help="with --partition: a number, earliest or latest (default latest)",
    )
    parser.add_argument(
        "--from-beginning", action="store_true", help="begin with the oldest record"
    )
    parser.add_argument("--group", metavar="ID", help="refused: there are no groups yet")
    parser.add_argument(
        "--max-messages", type=whole_number(-1), metavar="N", help="stop after so many"
    )
    parser.add_argument(
        "--timeout-ms",
        type=whole_number(0),
        metavar="MS",
        help="stop when none came for so long, once the partitions are found",
    )
    parser.add_argument(
        "--isolation-level",
        type=one_of("read_uncommitted", "read_committed"),
        metavar="LEVEL",
        help="read_uncommitted (default) or read_committed",
    )
    parser.add_argument(
        "--skip-message-on-error", action="store_true", help="go on after one that can't be read"
    )
    parser.add_argument(
        "--enable-systest-events", action="store_true", help="print shutdown_complete at the end"
    )
    parser.add_argument(
        "--command-property",
        "--consumer-property",
        type=pair,
        action="append",
        metavar="KEY=VALUE",
        help="a setting of the consumer, such as fetch.max.wait.ms=100 (repeatable)",
    )
    _add_formatting(parser)
    return parser


def _add_formatting(parser: VerbParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object for each record")
    parser.add_argument("--formatter", metavar="NAME", help="default or noop")
    parser.add_argument(
        "--formatter-property",
        "--property",
        type=pair,
        action="append",
        metavar="KEY=VALUE",
        help="print.timestamp, print.partition, print.offset, print.delivery, print.epoch,"
        " print.headers, print.key, print.value, key.separator, line.separator,"
        " headers.separator, null.literal, {key,value,headers}.deserializer (repeatable)",
    )
    parser.add_argument("--formatter-config", metavar="FILE", help="a file of such properties")
    for part in ("key", "value"):
        parser.add_argument(
            f"--{part}-deserializer",
            metavar="NAME",
            help="String, Long, ..., Kafka's class names, or module:function",
        )


def _offset(text: str) -> str | int:
    return text if text in ("earliest", "latest") else _offset_number(text)


def _offset_number(text: str) -> int:
    try:
        return whole_number(0)(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no offset: give a number, earliest or latest"
        ) from None


def main(arguments: Sequence[str]) -> int:
    """0 when told to stop or when enough was read."""
    parser = _parser()
    options = parser.parse(arguments)
    _check(parser, options)
    formatter = _formatter(options)

    from tidelog.consumer.consumer import Consumer  # noqa: PLC0415 - grpc is slow to import

    where = _connection(options)
    where.reach()
    start = _start(options, where)
    try:
        with told_to_end(), Consumer(where.bootstrap, **where.settings) as consumer:
            topics = _topics(options, where)
            partitions = None if options.partition is None else [options.partition]
            consumer.assign(topics, start=start, partitions=partitions)
            return Printing(consumer, formatter, options).run()
    finally:
        if options.enable_systest_events:
            print("shutdown_complete", flush=True)


def _check(parser: VerbParser, options: argparse.Namespace) -> None:
    if options.group is not None:
        raise InvalidRequest(
            f"--group {options.group}: this Tidelog has no consumer groups yet",
            hint="Leave it out: everything is read, and nothing is committed",
        )
    parser.require(options, "--topic", "--include")
    parser.refuse_together(options, "--topic", "--include")
    parser.refuse_together(options, "--include", "--partition")
    parser.refuse_together(options, "--from-beginning", "--offset")
    parser.refuse_together(options, "--json", *FORMATTING_FLAGS)
    if options.offset is not None and options.partition is None:
        parser.error("the partition is required when offset is specified: add --partition N")


def _formatter(options: argparse.Namespace) -> Formatter:
    properties = read_properties(options.formatter_config) | dict(options.formatter_property or ())
    for part in ("key", "value"):
        named = getattr(options, f"{part}_deserializer")
        if named is not None:
            properties[f"{part}.deserializer"] = named
    if options.json:
        return json_line
    return formatter_named(options.formatter or "default", properties)


def _connection(options: argparse.Namespace) -> Connection:
    from tidelog.consumer.settings import ConsumerSettings  # noqa: PLC0415 - as above

    level = options.isolation_level
    given = [] if level is None else [("isolation.level", level)]
    return connection(
        options, ConsumerSettings, options.command_property, given, client_id="console-consumer"
    )


def _start(options: argparse.Namespace, where: Connection) -> str | int:
    """Where to begin. A position that the log no longer has goes on at its beginning."""
    reset = where.settings.get("auto_offset_reset", "latest")
    if reset in ("earliest", "latest"):
        where.settings["auto_offset_reset"] = "earliest"
    if options.from_beginning:
        return "earliest"
    if options.offset is not None:
        offset: str | int = options.offset
        return offset
    return "earliest" if reset == "earliest" else "latest"


def _topics(options: argparse.Namespace, where: Connection) -> list[str]:
    if options.topic is not None:
        return [options.topic]
    return matching_topics(where.bootstrap, options.include)


class Printing:
    """The loop: records in, lines out, until enough was read."""

    def __init__(
        self, consumer: Consumer[Any, Any], formatter: Formatter, options: argparse.Namespace
    ) -> None:
        self._consumer = consumer
        self._formatter = formatter
        self._options = options
        self._timeout_s = None if options.timeout_ms is None else options.timeout_ms / 1000
        self.count = 0

    def run(self) -> int:
        """0 at the end; more when it was interrupted or told to end."""
        try:
            while self._left():
                if not self._print_some():
                    break
        except KeyboardInterrupt as end:
            return exit_code(end)
        finally:
            print(f"Processed a total of {self.count} messages", file=sys.stderr)
        return 0

    def _left(self) -> int:
        wanted: int | None = self._options.max_messages
        if wanted is None or wanted < 0:
            return POLL_RECORDS
        return min(POLL_RECORDS, wanted - self.count)

    def _print_some(self) -> bool:
        """Prints what is there, waiting for it; False when nothing came in time."""
        from tidelog.consumer.decoding import UnreadableBatch  # noqa: PLC0415 - slow to import

        output = sys.stdout.buffer
        try:
            records = self._consumer.poll(max_records=self._left(), timeout=self._timeout_s)
        except (UnreadableBatch, LogCorrupt) as error:
            if not self._options.skip_message_on_error:
                raise
            print(f"skipped: {error.message}", file=sys.stderr)
            self._consumer.skip(error)
            return True
        for record in records:
            self.count += 1
            output.write(self._line(record))
        output.flush()
        if not records:
            print(f"No record came within {self._options.timeout_ms} ms", file=sys.stderr)
        return bool(records)

    def _line(self, record: Any) -> bytes:
        try:
            return self._formatter(record)
        except SerializationFailed as error:
            place = f"{record.topic}-{record.partition} at offset {record.offset}"
            if not self._options.skip_message_on_error:
                raise SerializationFailed(
                    f"The record of {place} can't be shown",
                    cause=str(error),
                    hint="--skip-message-on-error goes on behind it",
                ) from error
            print(f"skipped: the record of {place}: {error}", file=sys.stderr)
            return b""
