"""The verbs that Spark adds to the `tidelog` command; their work is imported when they run."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.cli.verb import Verb


def _run_streams(arguments: Sequence[str]) -> int:
    from tidelog_spark.streams.pipeline.command import (  # noqa: PLC0415 - Spark's imports cost
        main,
    )

    return main(arguments)


streams = Verb(
    "streams", "run a pipeline of SQL over topics on Spark", _run_streams, needs="tidelog[spark]"
)
