"""kill -9 again and again under load, each one a power cut, and every promise checked after it.

`tests/integration/test_node_kills.py` runs it for a few kills, `make soak` for many. Everything
runs in this process but the node itself, which lives on a volatile disk.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from faults.checker import Findings, check_partition
from faults.producers import Producer
from harness.client import Client
from harness.processes import ProcessNode, node_process

ENTRY: Final = ("-m", "faults.volatile_node")
#: Small segments, so that rolls, retention and snapshots happen between two kills.
TOPICS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "kept": (3, {"segment.bytes": "1 MiB"}),
    "short": (
        2,
        {"segment.bytes": "1 MiB", "retention.bytes": "3 MiB", "file.delete.delay.ms": "0"},
    ),
}
PRODUCERS: Final = 3
#: Offsets that are read again after every kill; all of them are after the last.
TAIL: Final = 5_000
#: When a node that is killed on its way up is killed; most of a start is imports.
EARLY_S: Final = (0.2, 1.0)
FLAGS: Final = ("--config", "log.retention.check.interval.ms=100")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do."""

    kills: int
    flush_policy: str = "commit"
    seed: int = 0
    load_s: tuple[float, float] = (0.2, 0.8)
    #: How often a node is killed on its way up.
    early_share: float = 0.2


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    kills: int = 0
    early_kills: int = 0
    acknowledged: int = 0
    findings: Findings = field(default_factory=Findings)
    complaints: list[str] = field(default_factory=list)
    #: How long each start took, from the process to the first call.
    start_s: list[float] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """True when nothing was wrong."""
        return self.findings.is_clean and not self.complaints

    def summary(self) -> str:
        """One line."""
        found = self.findings
        return (
            f"{self.kills} kills ({self.early_kills} while starting),"
            f" {self.acknowledged:,} records acknowledged, {found.lost:,} lost,"
            f" {found.duplicated:,} duplicated, {found.reordered:,} reordered, {found.gaps:,} gaps,"
            f" {found.records_checked:,} records read to check,"
            f" slowest start {max(self.start_s, default=0):.2f} s,"
            f" {len(self.complaints)} complaints of the node"
        )


class KillLoop:
    """One run."""

    def __init__(self, plan: Plan, data_dir: Path, say: Callable[[str], None]) -> None:
        self.outcome = Outcome()
        self._plan = plan
        self._data_dir = data_dir
        self._say = say
        self._random = random.Random(plan.seed)
        self._address = ""
        self._is_up = asyncio.Event()
        self._partitions = [
            (name, at) for name, (count, _) in TOPICS.items() for at in range(count)
        ]
        self._producers = [
            Producer(number, self._partitions, self._random.getrandbits(32))
            for number in range(PRODUCERS)
        ]
        self._running: list[asyncio.Task[None]] = []

    async def run(self) -> Outcome:
        """Kills as often as planned, then lets the producers finish and checks everything."""
        try:
            for life in range(self._plan.kills + 1):
                await self._live(life)
                if not self.outcome.findings.is_clean:
                    break
        finally:
            for task in self._running:
                task.cancel()
            ended = await asyncio.gather(*self._running, return_exceptions=True)
        failures = [end for end in ended if isinstance(end, Exception)]
        if failures:
            raise ExceptionGroup("producers failed", failures)
        return self.outcome

    async def _live(self, life: int) -> None:
        """One life of the node, from its start to its kill; the last one ends in order."""
        is_last = life == self._plan.kills
        flags = (*FLAGS, "--config", f"flush.policy={self._plan.flush_policy}")
        with node_process(self._data_dir, *flags, entry=ENTRY) as node:
            if life and not is_last and self._random.random() < self._plan.early_share:
                await asyncio.sleep(self._random.uniform(*EARLY_S))
                self.outcome.early_kills += 1
            else:
                await self._begin(node)
                await self._check(TAIL)
                if is_last:
                    await self._end(node)
                else:
                    await asyncio.sleep(self._random.uniform(*self._plan.load_s))
            self._is_up.clear()
            node.kill()
        self.outcome.complaints += node.complaints()
        self.outcome.kills += not is_last
        self._tell(life)

    async def _begin(self, node: ProcessNode) -> None:
        """Waits until the node serves, and tells the producers where."""
        began = time.monotonic()
        await asyncio.to_thread(node.wait_until_ready)
        self.outcome.start_s.append(time.monotonic() - began)
        self._address = node.bootstrap
        if not self._running:
            async with Client(self._address) as client:
                for topic, (partitions, configs) in TOPICS.items():
                    await client.create(topic, partitions, configs)
            self._running = [
                asyncio.create_task(producer.run(self._where), name="producer")
                for producer in self._producers
            ]
        self._is_up.set()

    async def _where(self) -> str:
        await self._is_up.wait()
        return self._address

    async def _end(self, node: ProcessNode) -> None:
        """Everything that is on its way is acknowledged, and all of it is read again."""
        for producer in self._producers:
            producer.finish()
        await asyncio.gather(*self._running)
        await self._check(None)
        node.terminate()
        code = await asyncio.to_thread(node.exit_code)
        if code != 0:
            self.outcome.complaints.append(f"the node ended with {code}")

    async def _check(self, tail: int | None) -> None:
        findings = self.outcome.findings
        async with Client(self._address) as client:
            for topic, partition in self._partitions:
                lanes = [
                    lane
                    for producer in self._producers
                    for lane in producer.lanes
                    if (lane.topic, lane.partition) == (topic, partition)
                ]
                findings.take(await check_partition(client, topic, partition, lanes, tail=tail))
        for producer in self._producers:
            for words in producer.refusals:
                findings.add("lost", words)

    def _tell(self, life: int) -> None:
        lanes = [lane for producer in self._producers for lane in producer.lanes]
        self.outcome.acknowledged = sum(len(lane.offsets) for lane in lanes)
        findings = self.outcome.findings
        verdict = "all promises kept" if findings.is_clean else findings.words[0]
        self._say(
            f"life {life + 1} of {self._plan.kills + 1}:"
            f" {self.outcome.acknowledged:,} records acknowledged, {verdict}"
        )
