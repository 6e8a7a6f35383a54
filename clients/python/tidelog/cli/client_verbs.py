"""The verbs that come with the client; their work is imported when they run.

`command` lists them beside those that services add through entry points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

from tidelog.cli.verb import Verb


def _in_module(name: str) -> Callable[[Sequence[str]], int]:
    def run(arguments: Sequence[str]) -> int:
        code: int = import_module(f"tidelog.cli.{name}").main(arguments)
        return code

    return run


CLIENT_VERBS: Final = (
    Verb("topics", "create, list, describe, alter and delete topics", _in_module("topics")),
    Verb("console-producer", "send lines as records", _in_module("console_producer")),
    Verb("console-consumer", "print records", _in_module("console_consumer")),
    Verb("get-offsets", "where partitions begin and end", _in_module("get_offsets")),
    Verb("delete-records", "delete records before an offset", _in_module("delete_records")),
    Verb("producer-perf-test", "measure producing", _in_module("producer_perf")),
    Verb("consumer-perf-test", "measure consuming", _in_module("consumer_perf")),
    Verb("dump-log", "print what log files hold", _in_module("dump_log")),
    Verb("doctor", "find out why a cluster can't be reached", _in_module("doctor")),
)
