"""The admin client for ordinary code; `AsyncAdmin` is the same with `await`.

    with Admin("localhost:9094") as admin:
        admin.create_topic("orders", partitions=6)

Each call runs on a loop thread of its own and waits for it. Invariant: the thread ends when the
client is closed or forgotten.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Unpack

from tidelog.admin.async_admin import AsyncAdmin
from tidelog.admin.descriptions import (
    Assignment,
    ClusterDescription,
    ConfigEntry,
    ConfigValue,
    CreatedTopic,
    NewTopic,
    TopicDescription,
)
from tidelog.admin.settings import AdminKeywords
from tidelog.channel import ChannelFactory
from tidelog.engine.closing import Closing
from tidelog.engine.cluster import DEFAULT_BOOTSTRAP
from tidelog.engine.loop_thread import LoopThread
from tidelog.engine.offsets import Found
from tidelog.engine.places import Place
from tidelog.errors import TidelogError
from tidelog.model import TopicPartition


class Admin(Closing):
    """Creates, changes and describes topics, configs and the cluster."""

    def __init__(
        self,
        bootstrap: str | list[str] | tuple[str, ...] = DEFAULT_BOOTSTRAP,
        *,
        channel_factory: ChannelFactory | None = None,
        **settings: Unpack[AdminKeywords],
    ) -> None:
        self._admin = AsyncAdmin(bootstrap, channel_factory=channel_factory, **settings)
        self._thread = LoopThread("tidelog-admin")
        # Runs also when the client was forgotten, and when the interpreter ends.
        self._end = weakref.finalize(self, self._thread.finish, self._admin.close)

    def close(self) -> None:
        """Closes every connection and ends the thread."""
        self._end()

    def __repr__(self) -> str:
        return repr(self._admin).replace("AsyncAdmin", "Admin", 1)

    # ------------------------------------------------------------------ topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        assignment: Assignment | None = None,
        validate_only: bool = False,
        if_not_exists: bool = False,
    ) -> CreatedTopic | None:
        """Creates a topic; None if it exists already and `if_not_exists` allows that.

        Without `partitions` and `replication_factor` the cluster's defaults hold.
        """
        return self._thread.call(
            self._admin.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                config=config,
                assignment=assignment,
                validate_only=validate_only,
                if_not_exists=if_not_exists,
            )
        )

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | TidelogError]:
        """Creates topics; each becomes a `CreatedTopic` or the error it was refused with."""
        return self._thread.call(self._admin.create_topics(topics, validate_only=validate_only))

    def delete_topic(self, name: str, *, if_exists: bool = False) -> bool:
        """Deletes a topic and its records; False if there is none and `if_exists` allows that."""
        return self._thread.call(self._admin.delete_topic(name, if_exists=if_exists))

    def delete_topics(self, names: Iterable[str]) -> dict[str, TidelogError | None]:
        """Deletes topics; each becomes None or the error it was refused with."""
        return self._thread.call(self._admin.delete_topics(names))

    def create_partitions(
        self,
        name: str,
        total: int,
        *,
        assignment: Assignment | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Gives a topic more partitions, `total` together. Keys may move to other partitions."""
        return self._thread.call(
            self._admin.create_partitions(
                name, total, assignment=assignment, validate_only=validate_only
            )
        )

    def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """The names of all topics, in order."""
        return self._thread.call(self._admin.list_topics(include_internal=include_internal))

    def describe_topic(self, name: str) -> TopicDescription:
        """A topic with its partitions; `UnknownTopic` has the nearest name."""
        return self._thread.call(self._admin.describe_topic(name))

    def describe_topics(
        self, names: Iterable[str] | None = None, *, include_internal: bool = False
    ) -> dict[str, TopicDescription]:
        """These topics, or all; raises for the first that can't be described."""
        return self._thread.call(
            self._admin.describe_topics(names, include_internal=include_internal)
        )

    # ------------------------------------------------------------------ configs

    def describe_config(
        self,
        *,
        topic: str | None = None,
        broker: int | None = None,
        keys: Sequence[str] = (),
    ) -> dict[str, ConfigEntry]:
        """The configs of a topic or of a broker by key; all of them unless `keys` says which."""
        return self._thread.call(self._admin.describe_config(topic=topic, broker=broker, keys=keys))

    def alter_config(
        self,
        topic: str,
        config: Mapping[str, ConfigValue] | None = None,
        *,
        delete: Iterable[str] = (),
        append: Mapping[str, ConfigValue] | None = None,
        subtract: Mapping[str, ConfigValue] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Changes configs of a topic, all together or not at all.

        `config` sets, `delete` goes back to the default, `append` and `subtract` change lists.
        """
        self._thread.call(
            self._admin.alter_config(
                topic,
                config,
                delete=delete,
                append=append,
                subtract=subtract,
                validate_only=validate_only,
            )
        )

    # ------------------------------------------------------------------ offsets and records

    def list_offsets(
        self,
        partitions: str | TopicPartition | Iterable[str | TopicPartition],
        at: Place = "latest",
    ) -> Found:
        """Offsets of partitions (of all of a topic by its name) at a place.

        A place is "earliest", "latest", "max_timestamp" (the record with the largest one), a
        `datetime` or a `timedelta` back from now; None where no record is as late as that.
        """
        return self._thread.call(self._admin.list_offsets(partitions, at))

    def delete_records(
        self, before: Mapping[TopicPartition, int | str]
    ) -> dict[TopicPartition, int]:
        """Deletes the records before offsets ("latest": all); the first offsets that are left."""
        return self._thread.call(self._admin.delete_records(before))

    # ------------------------------------------------------------------ the cluster

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller, brokers and features."""
        return self._thread.call(self._admin.describe_cluster())
