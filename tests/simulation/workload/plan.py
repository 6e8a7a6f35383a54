"""What one seed does: which topics there are, who works on them, how the node is configured.

Drawn once from the seed ("swarm testing"): a run that leaves some features out goes deeper into
those it has than one that always does everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from simulation.history import Acks


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic, and what may happen to it."""

    name: str
    partitions: int
    configs: tuple[tuple[str, str], ...] = ()
    is_deleted: bool = False
    is_trimmed: bool = False

    @property
    def is_retained(self) -> bool:
        """Whether old records may go by themselves."""
        return any(key.startswith("retention") for key, _ in self.configs)


@dataclass(frozen=True, slots=True)
class ProducerPlan:
    """One producer: how sure it wants to be, and by which calls it works."""

    name: str
    topics: tuple[str, ...]
    acks: tuple[Acks, ...]
    is_idempotent: bool
    is_unary: bool
    by_name: bool
    pause_s: float
    value_bytes: tuple[int, int]
    #: Chance, at each turn, that it drops its connection and makes a new one.
    whim: float
    request_timeout_s: float
    delivery_timeout_s: float


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """One reader."""

    name: str
    topics: tuple[str, ...]
    is_unary: bool
    credit_bytes: int
    seek_chance: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that varies."""

    topics: tuple[TopicPlan, ...]
    producers: tuple[ProducerPlan, ...]
    readers: tuple[ReaderPlan, ...]
    node: tuple[tuple[str, str], ...]
    flush_policy: str
    whole_volume: bool
    journal_bytes: int
    snapshot_interval_bytes: int
    faults: tuple[str, ...]
    fault_count: int


def draw_plan(random: Random, faults: tuple[str, ...]) -> Plan:
    """The plan of one seed; `faults` are those that may be drawn."""
    flush_policy = random.choice(("commit", "commit", "commit", "interval", "os"))
    topics = _draw_topics(random)
    kinds = [fault for fault in faults if random.random() < 0.5] or [random.choice(faults)]
    if flush_policy != "commit":
        # Only `commit` promises to survive these: the other two rely on replicas.
        kinds = [fault for fault in kinds if fault not in ("power", "failed_sync")] or ["kill"]
    return Plan(
        topics=topics,
        producers=tuple(_draw_producer(random, n, topics) for n in range(random.randint(1, 3))),
        readers=tuple(_draw_reader(random, n, topics) for n in range(random.randint(1, 2))),
        node=(
            ("flush_policy", flush_policy),
            ("flush_ms", random.choice(("50", "1000"))),
            ("log_retention_check_interval_ms", random.choice(("300", "2000"))),
            ("replica_high_watermark_checkpoint_interval_ms", random.choice(("200", "5000"))),
            ("max_open_files", random.choice(("16", "1000"))),
        ),
        flush_policy=flush_policy,
        whole_volume=random.random() < 0.2,
        journal_bytes=random.choice((600, 4000, 8 << 20)),
        snapshot_interval_bytes=random.choice((2000, 16 << 20)),
        faults=tuple(kinds),
        fault_count=random.randint(2, 5),
    )


def _draw_topics(random: Random) -> tuple[TopicPlan, ...]:
    roll = (("segment.ms", random.choice(("20", "300", "3000"))),) if random.random() < 0.7 else ()
    small_index = (("index.interval.bytes", "200"),) if random.random() < 0.5 else ()
    delay = (("file.delete.delay.ms", random.choice(("0", "500"))),)
    common = roll + small_index + delay
    topics = [TopicPlan("plain", random.randint(1, 3), common)]
    if random.random() < 0.4:
        topics.append(TopicPlan("volatile", random.randint(1, 2), common, is_deleted=True))
    if random.random() < 0.4:
        topics.append(TopicPlan("trimmed", 1, common, is_trimmed=True))
    if random.random() < 0.4:
        key = random.choice((("retention.bytes", "2000"), ("retention.ms", "1500")))
        topics.append(TopicPlan("retained", 1, (*common, key)))
    return tuple(topics)


def _some_names(random: Random, topics: tuple[TopicPlan, ...]) -> tuple[str, ...]:
    names = [topic.name for topic in topics if random.random() < 0.7]
    return tuple(names or [topics[0].name])


def _draw_producer(random: Random, number: int, topics: tuple[TopicPlan, ...]) -> ProducerPlan:
    acks, is_idempotent = random.choice(
        (
            ((Acks.ALL,), True),
            ((Acks.ALL,), True),
            ((Acks.ALL,), True),
            ((Acks.LEADER,), True),
            ((Acks.ALL, Acks.LEADER), True),
            ((Acks.ALL, Acks.NONE), False),
        )
    )
    return ProducerPlan(
        name=f"producer-{number}",
        topics=_some_names(random, topics),
        acks=acks,
        is_idempotent=is_idempotent,
        is_unary=random.random() < 0.25,
        by_name=random.random() < 0.3,
        pause_s=random.choice((0.01, 0.05, 0.2)),
        value_bytes=random.choice(((20, 60), (20, 600), (200, 3000), (2000, 8000))),
        whim=random.choice((0.0, 0.02, 0.1)),
        request_timeout_s=random.choice((0.5, 3.0)),
        delivery_timeout_s=random.choice((2.0, 30.0)),
    )


def _draw_reader(random: Random, number: int, topics: tuple[TopicPlan, ...]) -> ReaderPlan:
    return ReaderPlan(
        name=f"reader-{number}",
        topics=_some_names(random, topics),
        is_unary=random.random() < 0.3,
        credit_bytes=random.choice((1, 500, 100_000)),
        seek_chance=random.choice((0.0, 0.05, 0.3)),
    )
