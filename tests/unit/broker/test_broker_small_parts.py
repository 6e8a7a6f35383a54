"""Small parts of a broker: in-flight bytes, the word to stop, ids in blocks, dialled addresses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidelog.errors import ShuttingDown
from tidelog_broker.broker import dialled, reachable
from tidelog_broker.in_flight import InFlightBytes
from tidelog_broker.producer_ids import BLOCK, ProducerIds
from tidelog_broker.stopping import Stopping


def test_one_request_may_overshoot_the_limit_and_the_next_one_waits() -> None:
    async def main() -> None:
        in_flight = InFlightBytes(100)
        await in_flight.wait_for_room()
        in_flight.add(99)
        await in_flight.wait_for_room()
        in_flight.add(500)
        waiting = [asyncio.create_task(in_flight.wait_for_room()) for _ in range(3)]
        await asyncio.sleep(0)
        in_flight.remove(499)
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        in_flight.remove(1)
        await asyncio.gather(*waiting)
        assert in_flight.bytes == 99

    asyncio.run(main())


def test_a_waiter_that_was_cancelled_does_not_keep_the_others_waiting() -> None:
    async def main() -> None:
        in_flight = InFlightBytes(1)
        in_flight.add(1)
        gone, stays = (asyncio.create_task(in_flight.wait_for_room()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        in_flight.remove(1)
        await stays
        assert gone.cancelled()

    asyncio.run(main())


def test_those_who_waited_look_again_before_they_go_on() -> None:
    async def main() -> None:
        in_flight = InFlightBytes(1)
        in_flight.add(1)
        waiting = asyncio.create_task(in_flight.wait_for_room())
        await asyncio.sleep(0)
        in_flight.remove(1)
        in_flight.add(1)  # somebody else was quicker
        await asyncio.sleep(0)
        assert not waiting.done()
        in_flight.remove(1)
        await waiting

    asyncio.run(main())


def test_stopping_is_heard_once_in_order_also_by_those_who_come_late() -> None:
    stopping = Stopping("Broker 7")
    heard: list[str] = []
    stopping.listen(lambda: heard.append("first"))
    forget = stopping.listen(lambda: heard.append("never"))
    stopping.listen(lambda: heard.append("second"))
    forget()
    stopping.check()
    stopping.set()
    stopping.listen(lambda: heard.append("late"))
    assert heard == ["first", "second", "late"]
    with pytest.raises(ShuttingDown, match="Broker 7 is shutting down"):
        stopping.check()


def test_producer_ids_come_in_blocks_and_never_twice() -> None:
    class Controller:
        calls = 0

        async def allocate_producer_ids(self, count: int) -> int:
            self.calls += 1
            await asyncio.sleep(0)
            return self.calls * 1_000_000

    async def main() -> None:
        controller: Any = Controller()
        ids = ProducerIds(controller)
        given = await asyncio.gather(*(ids.next() for _ in range(BLOCK + 1)))
        assert len(set(given)) == BLOCK + 1
        assert controller.calls == 2

    asyncio.run(main())


def test_a_failed_refill_gives_nothing_out() -> None:
    class Controller:
        fails = True

        async def allocate_producer_ids(self, count: int) -> int:
            if self.fails:
                raise ShuttingDown("later")
            return 5

    async def main() -> None:
        controller: Any = Controller()
        ids = ProducerIds(controller)
        with pytest.raises(ShuttingDown):
            await ids.next()
        controller.fails = False
        assert await ids.next() == 5

    asyncio.run(main())


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("broker.example:9094", ("broker.example", 9094)),
        ("[::1]:9094", ("::1", 9094)),
        ("host:65535", ("host", 65_535)),
        ("host:65536", None),
        ("host:" + "9" * 5_000, None),
        ("host", None),
        (":9094", None),
        ("host:", None),
        ("host:-1", None),
        ("host:\u0663", None),
        ("", None),
    ],
)
def test_what_clients_dialled(address: str, expected: tuple[str, int] | None) -> None:
    assert dialled(address) == expected


def test_a_listener_on_all_addresses_is_reached_at_this_host() -> None:
    assert [reachable(host) for host in ("0.0.0.0", "::", "", "10.0.0.7")] == [
        "localhost", "localhost", "localhost", "10.0.0.7",
    ]  # fmt: skip
