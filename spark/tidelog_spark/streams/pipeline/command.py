"""`tidelog streams`: validate, run, explain and status of a pipeline's file.

The verb is found by the entry point in `tidelog_spark.verbs`. Invariant: what is wrong with the
file is told with its line, all of it at once, and ends the program with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tidelog.cli.flags import VerbParser
from tidelog.nearest import did_you_mean
from tidelog_spark.streams.pipeline.reading import read_pipeline
from tidelog_spark.streams.pipeline.specification import Pipeline

ACTIONS: Final = {
    "validate": "check the file, and let Spark analyse every view; nothing is read or written",
    "run": "run every sink until it is told to end",
    "explain": "show how Spark would run every sink",
    "status": "show how far every sink is, without starting Spark",
}
USAGE: Final = """\
usage: tidelog streams ACTION FILE [flags]

Runs a pipeline: topics as sources, views in SQL, and sinks, as a YAML file has them.

actions:
{actions}

  tidelog streams ACTION --help    the flags of an action
"""


def main(arguments: Sequence[str]) -> int:
    """What runs after `tidelog streams`."""
    words = list(arguments)
    if not words or words[0] in ("-h", "--help"):
        lines = "\n".join(f"  {name:9} {summary}" for name, summary in ACTIONS.items())
        print(USAGE.format(actions=lines), end="")
        return 0 if words else 2
    action = words[0]
    if action not in ACTIONS:
        hint = did_you_mean(action, ACTIONS) or f"There are {', '.join(ACTIONS)}."
        print(f"tidelog streams: there is no action '{action}'. {hint}", file=sys.stderr)
        return 2
    options = _parser(action).parse(words[1:])
    bootstrap = None if action == "status" else options.bootstrap_server
    pipeline = read_pipeline(Path(options.file), bootstrap=bootstrap)
    if action == "status":
        return _status(pipeline, as_json=options.json)
    if action == "run":
        return _run(pipeline, options)
    return _check(pipeline, explain=action == "explain")


def _parser(action: str) -> VerbParser:
    summary = ACTIONS[action]
    parser = VerbParser(f"streams {action}", f"{summary[0].upper()}{summary[1:]}.")
    parser.add_argument("file", metavar="FILE", help="the pipeline, in YAML")
    if action != "status":  # which asks no broker
        parser.add_argument(
            "--bootstrap-server",
            metavar="HOST:PORT[,HOST:PORT]",
            help="the brokers to begin with, instead of those that the file names",
        )
    if action == "run":
        parser.add_argument(
            "--available-now", action="store_true", help="end when all that is there is done"
        )
        parser.add_argument(
            "--print-python", action="store_true", help="print the same as a program; run nothing"
        )
    if action == "status":
        parser.add_argument("--json", action="store_true", help="as JSON, one object a sink")
    return parser


def _run(pipeline: Pipeline, options: argparse.Namespace) -> int:
    from tidelog_spark.streams.pipeline import printing, running  # noqa: PLC0415 - Spark's weight
    from tidelog_spark.streams.pipeline.session import session_of  # noqa: PLC0415

    if options.print_python:
        print(printing.program(pipeline, available_now=options.available_now), end="")
        return 0
    with session_of(pipeline) as spark:
        return running.run(spark, pipeline, available_now=options.available_now, tell=_tell)


def _check(pipeline: Pipeline, *, explain: bool) -> int:
    from tidelog_spark.streams.pipeline import checking  # noqa: PLC0415 - Spark's weight
    from tidelog_spark.streams.pipeline.session import session_of  # noqa: PLC0415

    with session_of(pipeline) as spark:
        built = checking.validate(spark, pipeline)
        for line in checking.described(pipeline, built):
            print(line)
        if explain:
            for sink in pipeline.sinks:
                print(f"\n{sink.name}:")
                print(checking.plan_of(sink, built), end="")
        print(f"{pipeline.file} is valid.")
    return 0


def _status(pipeline: Pipeline, *, as_json: bool) -> int:
    from tidelog_spark.streams.pipeline import status  # noqa: PLC0415 - only this action needs it

    rows = status.status(pipeline)
    if as_json:
        for row in rows:
            print(json.dumps(row))
    else:
        print(status.table(rows))
    return 0


def _tell(line: str) -> None:
    """A line of progress, with the time."""
    print(f"{datetime.now(UTC):%H:%M:%S} {line}", flush=True)
