"""The verbs a node adds to the `tidelog` command; their work is imported when they run."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.cli.verb import Verb


def _run_up(arguments: Sequence[str]) -> int:
    from tidelog_node.up import main  # noqa: PLC0415 - a service's imports cost what help must not

    return main(arguments)


up = Verb("up", "run a one-node cluster in this terminal", _run_up)
