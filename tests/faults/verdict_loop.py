"""Sends over kills, restarts, cuts and hasty closes: one verdict each, and the log agrees.

`tests/integration/test_verdicts.py` runs it for some thousand sends, `make soak-verdicts` for a
million. The node is a process of its own behind a relay; producers of this process follow one
another, each for a part of the sends.
"""

from __future__ import annotations

import random
import threading
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.processes import ProcessNode, node_process
from tidelog import Admin, Consumer, Delivery, OutcomeUnknown, Producer, Refused
from tidelog.engine.loop_thread import LoopThread
from tidelog.errors import TidelogError
from tidelog_node.testing.relay import Relay

TOPIC: Final = "verdicts"
PARTITIONS: Final = 3
SESSION_SENDS: Final = 20_000
PADDING: Final = b" " + b"." * 60
#: A verdict for each record, as one byte.
OPEN, ACKNOWLEDGED, REFUSED, UNKNOWN, NEITHER = range(5)
NAMES: Final = ("open", "acknowledged", "refused", "unknown", "neither")
PAUSE_S: Final = (0.05, 0.6)
#: How long a silent cut lasts: longer than the time limit of a request, or shorter.
SILENCE_S: Final = (0.1, 1.5)


@dataclass(slots=True)
class Verdicts:
    """What was told of each record, by its number."""

    kinds: bytearray = field(default_factory=bytearray)
    told: bytearray = field(default_factory=bytearray)
    partitions: array[int] = field(default_factory=lambda: array("b"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    #: Where each producer's numbers begin.
    sessions: list[int] = field(default_factory=list)

    def begin(self) -> int:
        """The number of a record that is about to be sent."""
        self.kinds.append(OPEN)
        self.told.append(0)
        self.partitions.append(-1)
        self.offsets.append(-1)
        return len(self.kinds) - 1

    def take(self, number: int, delivery: Delivery) -> None:
        """A verdict has come."""
        error = delivery.exception()
        self.told[number] += 1
        if error is None:
            receipt = delivery.result()
            self.kinds[number] = ACKNOWLEDGED
            self.partitions[number], self.offsets[number] = receipt.partition, receipt.offset or 0
        elif isinstance(error, OutcomeUnknown):
            self.kinds[number] = UNKNOWN
        else:
            self.kinds[number] = REFUSED if isinstance(error, Refused) else NEITHER

    def refuse(self, number: int) -> None:
        """The call itself raised: nothing was taken."""
        self.told[number] += 1
        self.kinds[number] = REFUSED


class VerdictLoop:
    """One run."""

    def __init__(self, sends: int, data_dir: Path, seed: int, say: Callable[[str], None]) -> None:
        self.verdicts = Verdicts()
        self.deeds: Counter[str] = Counter()
        self.complaints: list[str] = []
        self.broken: list[str] = []
        self._sends = sends
        self._data_dir = data_dir
        self._random = random.Random(seed)
        self._say = say
        self._relay = Relay()
        self._thread: LoopThread
        self._is_over = threading.Event()

    def run(self) -> None:
        """Send everything, then hold it against the log; `broken` has what is wrong."""
        self._thread = LoopThread("verdict-relay")
        self._thread.call(self._relay.start())
        nemesis = threading.Thread(target=self._disturb, name="nemesis")
        try:
            nemesis.start()
            with Admin(self._relay.address) as admin:
                admin.create_topic(TOPIC, partitions=PARTITIONS)
            while len(self.verdicts.kinds) < self._sends:
                self._session(min(SESSION_SENDS, self._sends - len(self.verdicts.kinds)))
            self._is_over.set()
            nemesis.join()
            with self._node() as node:
                self._connect(node)
                self._check()
        finally:
            self._is_over.set()
            nemesis.join()
            self._thread.call(self._relay.stop())
            self._thread.stop()

    def summary(self) -> str:
        """One line."""
        kinds = Counter(self.verdicts.kinds)
        told = ", ".join(
            f"{kinds[kind]:,} {name}" for kind, name in enumerate(NAMES) if kinds[kind]
        )
        deeds = ", ".join(f"{count} {deed}" for deed, count in sorted(self.deeds.items()))
        sends = len(self.verdicts.kinds)
        return f"{sends:,} sends: {told}; {deeds}; {len(self.broken)} broken promises"

    # ------------------------------------------------------------------ the node and its enemy

    def _node(self) -> AbstractContextManager[ProcessNode]:
        return node_process(self._data_dir)

    def _connect(self, node: ProcessNode) -> None:
        node.wait_until_ready()
        host, _, port = node.bootstrap.rpartition(":")
        self._relay.target = host, int(port)

    def _disturb(self) -> None:
        """One life of the node after the other, until all is sent."""
        while not self._is_over.is_set():
            with self._node() as node:
                self._connect(node)
                deed = self._live()
                self._relay.target = None
                if deed == "kills":
                    node.kill()
                else:
                    node.terminate()
                    code = node.exit_code()
                    if code != 0:
                        self.complaints.append(f"the node ended with {code}")
                self.deeds[deed] += 1
            self.complaints += node.complaints()

    def _live(self) -> str:
        """Some cuts; how the life ends."""
        while not self._is_over.wait(self._random.uniform(*PAUSE_S)):
            deed = self._random.choice(("kills", "kills", "restarts", "cuts", "silences"))
            if not self.deeds["kills"]:
                deed = "kills"  # a short run comes to few deeds, and this one is the hardest
            if deed in {"kills", "restarts"}:
                return deed
            self._thread.call(self._relay.cut(silently=deed == "silences"))
            if deed == "silences":
                self._is_over.wait(self._random.uniform(*SILENCE_S))
            self._thread.loop.call_soon_threadsafe(self._relay.heal)
            self.deeds[deed] += 1
        return "restarts"

    # ------------------------------------------------------------------ sending

    def _session(self, sends: int) -> None:
        """One producer, which may be closed with records under way."""
        verdicts, chance = self.verdicts, self._random
        verdicts.sessions.append(len(verdicts.kinds))
        producer: Producer[bytes, bytes] = Producer(
            self._relay.address,
            batch_size=chance.choice((500, 4_000, 64_000)),
            linger_ms=chance.choice((0, 5)),
            delivery_timeout_ms=chance.choice((300, 60_000)),
            request_timeout_ms=chance.choice((700, 5_000)),
            buffer_memory="1 MiB",
            compression=chance.choice(("none", "lz4")),
        )
        try:
            for _ in range(sends):
                self._send(producer)
        finally:
            limit_s = chance.choice((0.0, 0.05, None))
            self.deeds["hasty closes" if limit_s is not None else "closes"] += 1
            try:
                producer.close(limit_s)
            except TidelogError as error:
                self._say(f"closed: {error}")
        first = verdicts.sessions[-1]
        left = verdicts.kinds.count(OPEN, first)
        if left:
            self.broken.append(f"{left} records had no verdict when their producer was closed")
        self._say(f"{len(verdicts.kinds):,} sent; {Counter(verdicts.kinds[first:])}")

    def _send(self, producer: Producer[bytes, bytes]) -> None:
        number = self.verdicts.begin()
        take = self.verdicts.take
        try:
            producer.send(
                TOPIC,
                b"%d" % number + PADDING,
                partition=number % PARTITIONS,
                on_delivery=lambda delivery: take(number, delivery),
            )
        except TidelogError:
            self.verdicts.refuse(number)

    # ------------------------------------------------------------------ the log

    def _check(self) -> None:
        """Every record at its place, in order, and nothing else."""
        verdicts = self.verdicts
        for number, told in enumerate(verdicts.told):
            if told != 1:
                self.broken.append(f"record {number} had {told} verdicts")
            if verdicts.kinds[number] == NEITHER:
                self.broken.append(f"record {number} had a verdict that is none")
        seen = bytearray(len(verdicts.kinds))
        last: dict[tuple[int, int], int] = {}
        with Consumer(self._relay.address) as consumer:
            consumer.assign(TOPIC, start="earliest", until="end")
            for record in consumer:
                number = int((record.value or b"").split(b" ", 1)[0])
                self.judge(number, record.partition, record.offset, seen)
                place = bisect_right(verdicts.sessions, number), record.partition
                if last.get(place, -1) > number:
                    self.broken.append(f"record {number} stands behind record {last[place]}")
                last[place] = number
        for number, kind in enumerate(verdicts.kinds):
            if kind == ACKNOWLEDGED and not seen[number]:
                self.broken.append(f"record {number} was acknowledged and is not in the log")

    def judge(self, number: int, partition: int, offset: int, seen: bytearray) -> None:
        """Holds one record of the log against its verdict."""
        verdicts = self.verdicts
        where = f"record {number} stands at {offset} of partition {partition}"
        if seen[number]:
            self.broken.append(f"{where}, and at another place too")
        seen[number] = 1
        if verdicts.kinds[number] == REFUSED:
            self.broken.append(f"{where}, and was refused")
        if verdicts.kinds[number] == ACKNOWLEDGED:
            told = verdicts.partitions[number], verdicts.offsets[number]
            if told != (partition, offset):
                self.broken.append(f"{where}, and was acknowledged at {told}")
