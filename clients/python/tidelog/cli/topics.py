"""`tidelog topics`: creates, lists, describes, alters and deletes topics, as kafka-topics does.

Flags and rules are here, `topic_actions` does the work, `topic_lines` has the words. A failure is
told on the standard output in Kafka's words (on stderr with `--json`), and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from tidelog.cli.client_settings import connection
from tidelog.cli.flags import VerbParser, pair, whole_number
from tidelog.errors import TidelogError

EXAMPLES: Final = """\
  tidelog topics --create --topic orders --partitions 6 --config retention.ms=86400000
  tidelog topics --list
  tidelog topics --describe --topic 'orders.*'
  tidelog topics --alter --topic orders --partitions 12
  tidelog topics --delete --topic orders
"""
ACTIONS: Final = ("--list", "--describe", "--create", "--alter", "--delete")
PARTITION_FILTERS: Final = {
    "--under-replicated-partitions": "with a replica that is not in sync",
    "--unavailable-partitions": "without a leader that lives",
    "--under-min-isr-partitions": "with fewer replicas in sync than min.insync.replicas",
    "--at-min-isr-partitions": "with just as many in sync as min.insync.replicas",
}
#: Flags that go with some actions only.
ONLY_WITH: Final = {
    "--config": ("--create",),
    "--partitions": ("--create", "--alter"),
    "--replication-factor": ("--create",),
    "--replica-assignment": ("--create", "--alter"),
    "--if-not-exists": ("--create",),
    "--if-exists": ("--alter", "--delete", "--describe"),
    "--exclude-internal": ("--list", "--describe"),
    "--topic-id": ("--describe",),
    "--topics-with-overrides": ("--describe",),
    "--partition-size-limit-per-response": ("--describe",),
    **dict.fromkeys(PARTITION_FILTERS, ("--describe",)),
}
PARTITIONS_MAX: Final = 2**31 - 1
REPLICAS_MAX: Final = 2**15 - 1
BROKER_ID_MAX: Final = 2**31 - 1


def _parser() -> VerbParser:
    parser = VerbParser("topics", "Creates, lists, describes, alters and deletes topics.", EXAMPLES)
    parser.add_connection()
    for action in ACTIONS:
        parser.add_argument(action, action="store_true", help=f"{action[2:]} topics")
    parser.add_argument(
        "--topic",
        metavar="NAME",
        help="the topic; a regular expression with every action but --create",
    )
    parser.add_argument("--topic-id", metavar="ID", help="describe the topic of this id")
    parser.add_argument(
        "--partitions", type=whole_number(1, PARTITIONS_MAX), metavar="N", help="how many"
    )
    parser.add_argument(
        "--replication-factor",
        type=whole_number(1, REPLICAS_MAX),
        metavar="N",
        help="copies of each",
    )
    parser.add_argument(
        "--replica-assignment",
        type=read_assignment,
        metavar="1:2,2:3",
        help="brokers by hand: a colon between replicas, a comma between partitions",
    )
    parser.add_argument(
        "--config",
        type=pair,
        action="append",
        metavar="KEY=VALUE",
        help="of a new topic (repeatable)",
    )
    _add_switches(parser)
    return parser


def _add_switches(parser: VerbParser) -> None:
    parser.add_argument("--if-exists", action="store_true", help="no error when there is none")
    parser.add_argument("--if-not-exists", action="store_true", help="no error when there is one")
    parser.add_argument("--exclude-internal", action="store_true", help="leave internal topics out")
    for flag, words in PARTITION_FILTERS.items():
        parser.add_argument(flag, action="store_true", help=f"describe only partitions {words}")
    parser.add_argument(
        "--topics-with-overrides", action="store_true", help="describe only topics with configs set"
    )
    parser.add_argument(
        "--partition-size-limit-per-response",
        type=whole_number(1),
        metavar="N",
        help="no effect: answers are not paged",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def read_assignment(text: str) -> dict[int, list[int]]:
    """The replicas of each partition by broker id: the type of `--replica-assignment`."""
    broker_id = whole_number(0, BROKER_ID_MAX)
    try:
        assignment = {
            partition: [broker_id(broker) for broker in replicas.split(":")]
            for partition, replicas in enumerate(text.split(","))
        }
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r:.80} is no assignment; write broker ids as in 1:2,2:3"
        ) from None
    for partition, brokers in assignment.items():
        if len(set(brokers)) < len(brokers):
            raise argparse.ArgumentTypeError(f"partition {partition} names a broker twice")
        if len(brokers) != len(assignment[0]):
            raise argparse.ArgumentTypeError(
                f"partition {partition} has {len(brokers)} replicas, partition 0 has"
                f" {len(assignment[0])}"
            )
    return assignment


def main(arguments: Sequence[str]) -> int:
    """0 when it was done."""
    parser = _parser()
    options = parser.parse(arguments)
    _check(parser, options)

    from tidelog.admin.admin import Admin  # noqa: PLC0415 - grpc is slow to import
    from tidelog.admin.settings import AdminSettings  # noqa: PLC0415
    from tidelog.cli.topic_actions import run  # noqa: PLC0415

    where = connection(options, AdminSettings, client_id="tidelog-topics")
    try:
        where.reach()
        with Admin(where.bootstrap, **where.settings) as admin:
            run(admin, options)
    except TidelogError as error:
        output = sys.stderr if options.json else sys.stdout
        print(f"Error while executing topic command : {error}", file=output)
        return 1
    return 0


def _check(parser: VerbParser, options: argparse.Namespace) -> None:
    actions = [action for action in ACTIONS if parser.is_given(options, action)]
    if len(actions) != 1:
        parser.error(
            "Command must include exactly one action: --list, --describe, --create, --alter or"
            " --delete"
        )
    for flag, allowed in ONLY_WITH.items():
        if parser.is_given(options, flag) and actions[0] not in allowed:
            parser.error(f"{flag} goes with {' or '.join(allowed)} only, not with {actions[0]}")
    if actions[0] in ("--create", "--alter", "--delete"):
        parser.require(options, "--topic")
    if options.create:
        parser.refuse_together(
            options, "--replica-assignment", "--partitions", "--replication-factor"
        )
    if options.alter and options.partitions is None:
        parser.error("--alter changes the number of partitions: add --partitions N")
    filters = [*PARTITION_FILTERS, "--topics-with-overrides"]
    for place, flag in enumerate(filters):
        parser.refuse_together(options, flag, *filters[place + 1 :])
    if options.partition_size_limit_per_response is not None:
        print(
            "--partition-size-limit-per-response has no effect here: answers are not paged.",
            file=sys.stderr,
        )
