"""Topics for tests of the connector, and what stands in them by the broker's own word.

Tests compare records read past Spark and past our consumer: counts of Spark's say what Spark
believes, not what is there.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
from typing import Final

from tidelog.admin.admin import Admin
from tidelog.records.record import Record
from tidelog_node.testing.log_reading import read_topic

_NUMBERS: Final = itertools.count()


class Topics:
    """The topics of one running node."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create(self, partitions: int = 2, **config: str) -> str:
        """A fresh topic; config by names in snake_case."""
        name = f"topic-{next(_NUMBERS)}"
        self.create_named(name, partitions, **config)
        return name

    def create_named(self, name: str, partitions: int = 2, **config: str) -> None:
        """A topic of this name."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        with Admin(self.bootstrap) as admin:
            admin.create_topic(name, partitions=partitions, config=settings)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """All that stands in a topic or in one partition, partition after partition."""
        try:
            return asyncio.run(read_topic(self.bootstrap, topic, partition))
        finally:
            gc.collect()  # a channel's poller ends when the channel is collected

    def values(self, topic: str, partition: int | None = None) -> list[str]:
        """The values alone, as text, for records that have one."""
        return [(record.value or b"").decode() for record in self.records(topic, partition)]
