"""The nemesis: one fault after the other, each undone before the next, all undone in the end.

What it may do is drawn by the plan. It never does what the design does not promise to survive:
no power cut under `flush.policy=os`.
"""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace

from simulation.cluster import HOST, Cluster
from simulation.history import History
from simulation.workload.plan import Plan
from simulation.world import World

#: What a full disk still takes: the odd small file, never a segment.
LAST_BYTES = 3000
#: What a disk may fail at once, beside a sync.
WRITES = (
    ("append", ".log"),
    ("append", ".log"),
    ("append", "journal"),
    ("append", ".tmp"),
    ("open", ".log"),
    ("open", ".tmp"),
    ("truncate", ".log"),
    ("rename", ""),
    ("sync_directory", ""),
)
#: What a process that has no descriptor left can't do.
NEEDS_DESCRIPTOR = ("open", "list_directory", "sync_directory", "sync_volume")
#: Or where others leave it one now and then, but none when it is about to sync.
SYNCS_WITHOUT = ("sync_directory", "sync_volume")
SLOW_DISK_S = (0.005, 1.5)
#: Each is longer than a silent producer is remembered; all together stay below retention.ms.
CLOCK_JUMPS_S = (-30 * 3600.0, -5.0, 5.0, 30 * 3600.0)
BREATH_S = (0.3, 2.0)


class Nemesis:
    """See the module."""

    def __init__(self, world: World, cluster: Cluster, plan: Plan, history: History) -> None:
        self._world = world
        self._cluster = cluster
        self._plan = plan
        self._history = history
        self._random = world.stream("nemesis")
        self._clients = [
            *(one.name for one in plan.producers),
            *(one.name for one in plan.readers),
            "admin",
        ]
        #: Whether the disk was full or failed, so that the node may complain.
        self.disk_failed = False
        #: What fails once stays failed until the operator starts the node anew.
        self._needs_restart = False
        self._clock_off_s = 0.0
        self.faults: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": self._kill,
            "power": self._power,
            "restart": self._restart,
            "pause": self._pause,
            "cut": self._cut,
            "slow_disk": self._slow_disk,
            "full_disk": self._full_disk,
            "failed_sync": self._failed_sync,
            "failed_write": self._failed_write,
            "no_descriptors": self._no_descriptors,
            "clock": self._clock,
        }

    async def run(self) -> None:
        """All the faults of the plan."""
        for _ in range(self._plan.fault_count):
            await self._breathe()
            fault = self._random.choice(self._plan.faults)
            self._world.trace.record(f"nemesis: {fault}")
            await self.faults[fault]()
        await self._breathe()

    async def _breathe(self) -> None:
        await asyncio.sleep(self._random.uniform(*BREATH_S))

    async def heal(self) -> None:
        """Everything is as it should be; a node whose disk failed a sync is started anew."""
        self._world.network.heal()
        self._cluster.resume()
        self._cluster.power_on()
        self._cluster.clock.jump(-self._clock_off_s)
        self._clock_off_s = 0.0
        if self._needs_restart and self._cluster.is_running:
            self._note_loss()
            self._cluster.kill()
        self._needs_restart = False
        if not self._cluster.is_running:
            self._cluster.start()

    def cut_power_now(self) -> None:
        """The power goes, and is noted."""
        self._note_loss()
        self._cluster.cut_power()

    def _note_loss(self) -> None:
        self._history.losses_s.append(self._world.now())

    async def _kill(self) -> None:
        self._cluster.kill()
        await self._start_again()

    async def _power(self) -> None:
        self.cut_power_now()
        await self._start_again()

    async def _start_again(self) -> None:
        await asyncio.sleep(self._random.choice((0.0, 0.1, 1.0, 4.0)))
        self._cluster.power_on()
        if not self._cluster.is_running:
            self._cluster.start()
        # Sometimes it dies again before it has recovered.
        if self._random.random() < 0.3:
            await asyncio.sleep(self._random.uniform(0, 0.05))
            if "power" in self._plan.faults and self._random.random() < 0.5:
                self.cut_power_now()
            else:
                self._cluster.kill()
            self._cluster.power_on()
            self._cluster.start()

    async def _restart(self) -> None:
        try:
            async with asyncio.timeout(20):
                await self._cluster.stop()
        except TimeoutError:
            self._history.anomalies.append("the node did not stop within 20 s")
            self._cluster.kill()
        await asyncio.sleep(self._random.choice((0.0, 1.0)))
        self._cluster.start()

    async def _pause(self) -> None:
        self._cluster.pause()
        await asyncio.sleep(self._random.choice((0.1, 2.0, 12.0)))
        self._cluster.resume()

    async def _cut(self) -> None:
        cut_off = [name for name in self._clients if self._random.random() < 0.6]
        one_way = self._random.random() < 0.5
        if self._random.random() < 0.5:
            self._world.network.cut([HOST], cut_off, one_way=one_way)
        else:
            self._world.network.cut(cut_off, [HOST], one_way=one_way)
        await asyncio.sleep(self._random.choice((0.2, 2.0, 15.0)))
        self._world.network.heal()

    async def _slow_disk(self) -> None:
        loop = self._world.loop
        quick = loop.schedule
        loop.schedule = replace(quick, executor_delay_s=SLOW_DISK_S)
        await asyncio.sleep(self._random.uniform(1.0, 4.0))
        await self._crash_perhaps()  # what is under way to a slow disk is what that can take
        loop.schedule = quick

    async def _crash_perhaps(self) -> None:
        crashes = [one for one in self._plan.faults if one in ("kill", "power")]
        if crashes and self._random.random() < 0.7:
            await self.faults[self._random.choice(crashes)]()

    async def _full_disk(self) -> None:
        disk = self._cluster.disk
        whole = disk.total_bytes()
        used = whole - disk.free_bytes()
        self.disk_failed = True
        disk.set_capacity(used + self._random.randint(0, LAST_BYTES))
        await asyncio.sleep(self._random.uniform(0.5, 4.0))
        if self._random.random() < 0.3:
            self._cluster.kill()
            self._cluster.start()
            await asyncio.sleep(1.0)
        self._cluster.disk.set_capacity(whole)

    async def _no_descriptors(self) -> None:
        disk = self._cluster.disk
        self.disk_failed = True
        for operation in self._random.choice((NEEDS_DESCRIPTOR, SYNCS_WITHOUT)):
            disk.fail(operation, errno.EMFILE, times=sys.maxsize)
        await asyncio.sleep(self._random.uniform(0.2, 4.0))
        await self._crash_perhaps()
        disk.heal()

    async def _failed_sync(self) -> None:
        path_part = self._random.choice((".log", ".log", "journal", "store.log"))
        await self._fail_once("sync", path_part)

    async def _failed_write(self) -> None:
        operation, path_part = self._random.choice(WRITES)
        await self._fail_once(operation, path_part)

    async def _fail_once(self, operation: str, path_part: str) -> None:
        self.disk_failed = self._needs_restart = True
        self._cluster.disk.fail(operation, path_part=path_part)
        self._note_loss()
        await asyncio.sleep(self._random.uniform(0.2, 3.0))
        if self._cluster.is_running:
            self._note_loss()
            self._cluster.kill()
            self._cluster.start()

    async def _clock(self) -> None:
        jump_s = self._random.choice(CLOCK_JUMPS_S)
        self._clock_off_s += jump_s
        self._cluster.clock.jump(jump_s)
