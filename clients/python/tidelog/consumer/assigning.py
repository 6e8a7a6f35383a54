"""What is wrong with a call of `assign`, found before anything is asked or read.

`engine` calls these. Invariant: nothing that the caller said is passed over: it counts, or it is
refused in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.engine.places import Start
from tidelog.errors import InvalidPartitions, InvalidRequest
from tidelog.model import TopicPartition


def partition_number(partition: Any) -> int:
    """The number of a partition, where it is given by number alone."""
    if isinstance(partition, bool) or not isinstance(partition, int):
        raise InvalidRequest(
            f"{partition!r:.80} is no number of a partition",
            hint="Give numbers, as in partitions=[0] or start={0: 42};"
            " assign({TopicPartition('orders', 0): 42}) names partitions and places at once",
        )
    return partition


def check_said_once(
    wanted: Mapping[Any, Any], start: Start | None, partitions: Iterable[int] | None
) -> None:
    """Refuses what would be passed over beside a mapping."""
    if start is not None:
        raise InvalidRequest(
            f"start={start!r:.80} is given beside a mapping that has the places",
            hint="Give names and start=, or the mapping alone",
        )
    if partitions is not None and any(isinstance(name, TopicPartition) for name in wanted):
        raise InvalidRequest(
            "partitions= is given beside a mapping that names partitions",
            hint="Leave partitions= out",
        )


def partitions_of(start: Mapping[Any, Any], only: list[int] | None) -> list[int]:
    """The partitions that a mapping of places means; refuses places that would be passed over."""
    named = [partition_number(one) for one in start]
    if only is None:
        return named
    for number in named:
        if number not in only:
            raise InvalidPartitions(
                f"start has a place for partition {number}, which is not among those to read",
                hint=f"To be read are {', '.join(map(str, only)) or 'none'}: name it there, or"
                " leave its place out",
            )
    return only


def check_ends(until: Start | None, places: Iterable[TopicPartition]) -> None:
    """Refuses ends of partitions that are not read: those that are would be read for ever."""
    if not isinstance(until, Mapping):
        return
    read = {partition.partition for partition in places}
    for number in until:
        if partition_number(number) not in read:
            raise InvalidPartitions(
                f"until has an end for partition {number}, which is not assigned",
                hint=f"Assigned are {', '.join(map(str, sorted(read)))}",
            )
