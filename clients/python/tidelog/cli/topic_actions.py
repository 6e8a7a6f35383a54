"""What the actions of `tidelog topics` do, through the admin client.

`topics` calls `run` with checked options. Errors go up as they are; what is printed here is
Kafka's success.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli import topic_lines
from tidelog.cli.topic_lines import FILTERS
from tidelog.cli.topic_names import matching
from tidelog.errors import InvalidPartitions, UnknownTopic
from tidelog.nearest import did_you_mean

if TYPE_CHECKING:
    from tidelog.admin.admin import Admin
    from tidelog.admin.descriptions import PartitionDescription, TopicDescription

MIN_ISR: Final = "min.insync.replicas"


def run(admin: Admin, options: argparse.Namespace) -> None:
    """Does the one action that the options name."""
    if options.create:
        _create(admin, options)
    elif options.list:
        _list(admin, options)
    elif options.describe:
        _describe(admin, options)
    elif options.alter:
        _alter(admin, options)
    else:
        for name in _chosen(admin, options, include_internal=True):
            admin.delete_topic(name, if_exists=options.if_exists)


def _create(admin: Admin, options: argparse.Namespace) -> None:
    if topic_lines.may_collide(options.topic):
        print(topic_lines.COLLISION_WARNING, file=sys.stderr if options.json else sys.stdout)
    created = admin.create_topic(
        options.topic,
        partitions=options.partitions,
        replication_factor=options.replication_factor,
        config=dict(options.config or ()),
        assignment=options.replica_assignment,
        if_not_exists=options.if_not_exists,
    )
    if options.json:
        shown = None
        if created is not None:
            shown = {
                "topic": created.name,
                "topic_id": topic_lines.shown_id(created.topic_id),
                "partition_count": created.partitions,
                "replication_factor": created.replication_factor,
            }
        print(json.dumps({"created": shown}))
    elif created is not None:
        print(f"Created topic {created.name}.")


def _list(admin: Admin, options: argparse.Namespace) -> None:
    names = matching(
        admin.list_topics(include_internal=not options.exclude_internal), options.topic
    )
    if options.json:
        print(json.dumps(names))
        return
    for name in names:
        print(name)


def _chosen(admin: Admin, options: argparse.Namespace, *, include_internal: bool) -> list[str]:
    """The topics that --topic means; UnknownTopic when there is none, unless --if-exists."""
    names = admin.list_topics(include_internal=include_internal)
    found = matching(names, options.topic)
    if not found and options.topic is not None and not options.if_exists:
        raise UnknownTopic(
            f"Topic '{options.topic}' does not exist as expected",
            hint=did_you_mean(options.topic, names),
        )
    return found


def _alter(admin: Admin, options: argparse.Namespace) -> None:
    for name in _chosen(admin, options, include_internal=True):
        present = admin.describe_topic(name).partition_count
        if options.partitions < present:
            raise InvalidPartitions(
                f"The topic {name} currently has {present} partition(s);"
                f" {options.partitions} would not be an increase"
            )
        assignment = options.replica_assignment
        if assignment is not None:
            assignment = {
                partition: brokers
                for partition, brokers in assignment.items()
                if partition >= present
            }
        admin.create_partitions(name, options.partitions, assignment=assignment)


# ---------------------------------------------------------------------- describing


def _describe(admin: Admin, options: argparse.Namespace) -> None:
    topics = _described(admin, options)
    chosen = next((name for name in FILTERS if getattr(options, name)), None)
    shown = []
    for topic in topics:
        configs = admin.describe_config(topic=topic.name)
        overrides = {key: entry.value for key, entry in configs.items() if not entry.is_default}
        if options.topics_with_overrides and not overrides:
            continue
        minimum = int(configs[MIN_ISR].value) if MIN_ISR in configs else 1
        partitions = [
            partition
            for partition in topic.partitions
            if chosen is None or FILTERS[chosen](partition, minimum)
        ]
        if options.json:
            if partitions or chosen is None:
                shown.append(topic_lines.topic_as_json(topic, overrides, partitions))
            continue
        if chosen is None:
            print(topic_lines.topic_line(topic, overrides))
        if not options.topics_with_overrides:
            _print_partitions(topic, partitions)
    if options.json:
        print(json.dumps(shown, indent=2))


def _print_partitions(topic: TopicDescription, partitions: list[PartitionDescription]) -> None:
    for partition in partitions:
        print(topic_lines.partition_line(topic.name, partition))


def _described(admin: Admin, options: argparse.Namespace) -> list[TopicDescription]:
    """The topics to describe, in the order of their names; an id wins over a name."""
    include_internal = not options.exclude_internal
    if options.topic_id is not None:
        topic_id = topic_lines.read_id(options.topic_id)
        everything = admin.describe_topics(include_internal=True).values()
        found = [topic for topic in everything if topic.topic_id == topic_id]
        if not found and not options.if_exists:
            raise UnknownTopic(f"TopicId '{options.topic_id}' does not exist as expected")
        return found
    names = _chosen(admin, options, include_internal=include_internal)
    described = admin.describe_topics(names, include_internal=True) if names else {}
    return [described[name] for name in names]
