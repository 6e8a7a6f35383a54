"""What the SDK's clients do under one seed: their settings, their calls, their whims.

Drawn from the seed as the rest of the plan is. Topics here keep all that is written to them, so
that what a client was told can be held against the log to the last record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from simulation.history import Acks
from simulation.workload.plan import Plan, TopicPlan, draw_plan

#: The ways of reading; each sees the same records.
STYLES = ("records", "poll", "batches")


@dataclass(frozen=True, slots=True)
class SdkProducerPlan:
    """One program that produces: sessions, one after the other, each with a producer of its own."""

    name: str
    topics: tuple[TopicPlan, ...]
    acks: Acks
    options: dict[str, Any]
    #: Tasks that each await their own record, beside the one that does not wait.
    waiters: int
    turns: int
    pause_s: float
    value_bytes: tuple[int, int]
    #: Chance that a session ends by cancelling its tasks, and that it closes in haste.
    cancel_chance: float
    haste_chance: float


@dataclass(frozen=True, slots=True)
class SdkReaderPlan:
    """One program that reads."""

    name: str
    options: dict[str, Any]
    style: str
    seek_chance: float
    pause_chance: float
    #: Chance, at each turn, that it closes its consumer and makes another.
    whim: float


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """The plan of node and nemesis, and what runs instead of its raw clients."""

    base: Plan
    producers: tuple[SdkProducerPlan, ...]
    readers: tuple[SdkReaderPlan, ...]


def draw_client_plan(random: Random, faults: tuple[str, ...]) -> ClientPlan:
    """The plan of one seed; `faults` are those that may be drawn."""
    base = draw_plan(random, faults)
    topics = [TopicPlan("plain", random.randint(1, 3), base.topics[0].configs)]
    if random.random() < 0.5:
        topics.append(TopicPlan("second", random.randint(1, 2), base.topics[0].configs))
    return ClientPlan(
        replace(base, topics=tuple(topics)),
        tuple(_draw_producer(random, one.name, tuple(topics)) for one in base.producers),
        tuple(_draw_reader(random, one.name) for one in base.readers),
    )


def _draw_producer(random: Random, name: str, topics: tuple[TopicPlan, ...]) -> SdkProducerPlan:
    acks = random.choice((Acks.ALL, Acks.ALL, Acks.ALL, Acks.LEADER, Acks.NONE))
    buffer_memory = random.choice((20_000, 32 << 20))
    options = {
        "acks": {Acks.ALL: "all", Acks.LEADER: 1, Acks.NONE: 0}[acks],
        "enable_idempotence": acks is not Acks.NONE and random.random() < 0.85,
        "batch_size": random.choice((200, 2000, 16_000)),
        "buffer_memory": buffer_memory,
        "compression": random.choice(("none", "none", "gzip", "lz4")),
        "delivery_timeout_ms": random.choice((1500, 5000, 30_000)),
        "linger_ms": random.choice((0, 5, 50)),
        "max_block_ms": random.choice((300, 5000)),
        "max_in_flight": random.randint(1, 5),
        "metadata_max_age_ms": random.choice((700, 300_000)),
        "partitioner": random.choice(("default", "default", "round_robin")),
        "request_timeout_ms": random.choice((500, 3000)),
    }
    return SdkProducerPlan(
        name=name,
        topics=topics,
        acks=acks,
        options=options,
        waiters=random.choice((0, 1, 3)),
        turns=random.choice((5, 40, 400)),
        pause_s=random.choice((0.05, 0.1, 0.3)),
        value_bytes=random.choice(((20, 60), (20, 600), (200, 3000))),
        cancel_chance=random.choice((0.0, 0.3)),
        haste_chance=random.choice((0.0, 0.5)),
    )


def _draw_reader(random: Random, name: str) -> SdkReaderPlan:
    options = {
        "default_api_timeout_ms": random.choice((2000, 20_000)),
        "fetch_max_bytes": random.choice((300, 1 << 19, 1 << 19)),
        "fetch_max_wait_ms": random.choice((0, 100, 500)),
        "fetch_min_bytes": random.choice((1, 500)),
        "max_partition_fetch_bytes": random.choice((100, 1 << 20, 1 << 20)),
        "max_poll_records": random.choice((1, 500)),
        "prefetch_bytes": random.choice((1, 5000, 16 << 20, 16 << 20)),
        "request_timeout_ms": random.choice((500, 3000)),
    }
    return SdkReaderPlan(
        name=name,
        options=options,
        style=random.choice(STYLES),
        seek_chance=random.choice((0.0, 0.02, 0.1)),
        pause_chance=random.choice((0.0, 0.05)),
        whim=random.choice((0.0, 0.01, 0.05)),
    )
