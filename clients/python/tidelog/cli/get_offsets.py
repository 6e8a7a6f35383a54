"""`tidelog get-offsets`: where partitions begin and end, or were at a time, as kafka-get-offsets.

Prints `topic:partition:offset`, a line each, in order. A partition without a record as late as
the time that is asked for has no line.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidelog.cli.client_settings import Connection, connection
from tidelog.cli.flags import VerbParser
from tidelog.cli.partition_patterns import is_meant, rules_of_flags, rules_of_patterns
from tidelog.engine.places import LARGEST
from tidelog.errors import UnknownTopic
from tidelog.model import TopicPartition
from tidelog.nearest import did_you_mean

if TYPE_CHECKING:
    from tidelog.admin.admin import Admin
    from tidelog.admin.descriptions import TopicDescription
    from tidelog.engine.offsets import Found

EXAMPLES: Final = """\
  tidelog get-offsets --topic orders
  tidelog get-offsets --topic 'orders.*' --time earliest
  tidelog get-offsets --topic-partitions orders:0-3,payments --time 1700000000000
"""
#: What `--time` may name; local and tiered are told apart where logs are tiered.
NAMED_TIMES: Final = {
    "latest": "latest",
    "-1": "latest",
    "earliest": "earliest",
    "-2": "earliest",
    "max-timestamp": "max_timestamp",
    "-3": "max_timestamp",
    "earliest-local": "earliest",
    "-4": "earliest",
}
_MILLISECONDS: Final = re.compile(r"[0-9]{1,19}")
TIERED: Final = ("latest-tiered", "-5")


def _parser() -> VerbParser:
    parser = VerbParser("get-offsets", "Prints offsets of partitions.", EXAMPLES)
    parser.add_connection()
    parser.add_argument("--topic", metavar="REGEX", help="topics whose name matches (default all)")
    parser.add_argument(
        "--partitions", metavar="0,1", help="these partitions of them (default all)"
    )
    parser.add_argument(
        "--topic-partitions",
        metavar="PATTERNS",
        help="instead of both: topic:0, topic:0-3 (without 3), topic:5-, topic; several by commas",
    )
    parser.add_argument(
        "--time",
        type=read_time,
        default="latest",
        metavar="TIME",
        help="milliseconds since 1970, or -1 latest (default), -2 earliest, -3 max-timestamp,"
        " -4 earliest-local; refused: -5 latest-tiered",
    )
    parser.add_argument(
        "--exclude-internal-topics", action="store_true", help="leave internal topics out"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def read_time(text: str) -> str | int:
    """A place by its name, or milliseconds since 1970: the type of `--time`."""
    if text in NAMED_TIMES:
        return NAMED_TIMES[text]
    if text in TIERED:
        raise argparse.ArgumentTypeError(
            f"{text} asks for tiered storage, which does not exist yet"
        )
    if not _MILLISECONDS.fullmatch(text):
        near = did_you_mean(text, NAMED_TIMES) or "write milliseconds since 1970, or -1 to -4"
        raise argparse.ArgumentTypeError(f"{text!r:.80} is no time; {near}")
    if int(text) > LARGEST:
        raise argparse.ArgumentTypeError(f"{text} is too late, the last time is {LARGEST}")
    return int(text)


def main(arguments: Sequence[str]) -> int:
    """0 when all that was asked for could be said."""
    parser = _parser()
    options = parser.parse(arguments)
    parser.refuse_together(options, "--topic-partitions", "--topic", "--partitions")
    if options.topic_partitions is not None:
        rules = rules_of_patterns(options.topic_partitions)
    else:
        rules = rules_of_flags(options.topic, options.partitions)

    from tidelog.admin.admin import Admin  # noqa: PLC0415 - grpc is slow to import
    from tidelog.admin.settings import AdminSettings  # noqa: PLC0415

    where = connection(options, AdminSettings, client_id="tidelog-get-offsets")
    where.reach()
    with Admin(where.bootstrap, **where.settings) as admin:
        topics = admin.describe_topics(include_internal=not options.exclude_internal_topics)
        meant = [
            (topic, TopicPartition(name, partition.partition))
            for name, topic in sorted(topics.items())
            for partition in topic.partitions
            if is_meant(rules, name, partition.partition)
        ]
        if not meant:
            _refuse(options, list(topics))
        _print(_offsets(admin, meant, options.time, where), as_json=options.json)
    return 0


def _refuse(options: argparse.Namespace, names: list[str]) -> None:
    hint = did_you_mean(options.topic, names) if options.topic else ""
    raise UnknownTopic(
        "Could not match any topic-partitions with the specified filters",
        hint=hint or "`tidelog topics --describe` shows what there is",
    )


def _offsets(
    admin: Admin,
    meant: list[tuple[TopicDescription, TopicPartition]],
    time: str | int,
    where: Connection,
) -> dict[TopicPartition, int]:
    asked = []
    for topic, partition in meant:
        if topic.partitions[partition.partition].leader is None:
            print(
                f"Skip getting offsets for topic-partition {partition.topic}:"
                f"{partition.partition} since it does not have a leader right now.",
                file=sys.stderr,
            )
        else:
            asked.append(partition)
    if not asked:
        return {}
    if isinstance(time, str):
        found = admin.list_offsets(asked, time)
    else:
        found = _offsets_at(asked, time, where)
    return {partition: place.offset for partition, place in found.items() if place is not None}


def _offsets_at(partitions: list[TopicPartition], time_ms: int, where: Connection) -> Found:
    """Asked by a consumer, which takes milliseconds: dates, as admins do, end with the year 9999.

    Kafka's timestamps go on behind it, and a topic may take them.
    """
    from tidelog.consumer.consumer import Consumer  # noqa: PLC0415 - grpc is slow to import

    with Consumer(where.bootstrap, **where.settings) as consumer:
        return consumer.offsets_for_times(dict.fromkeys(partitions, time_ms))


def _print(offsets: dict[TopicPartition, int], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {"topic": partition.topic, "partition": partition.partition, "offset": offset}
            for partition, offset in sorted(offsets.items())
        ]
        print(json.dumps(rows))
        return
    for partition, offset in sorted(offsets.items()):
        print(f"{partition.topic}:{partition.partition}:{offset}")
