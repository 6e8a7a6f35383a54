"""Producers over restarts and cut connections: one verdict each, and the log agrees with it."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from support.eventually import eventually
from tidelog import (
    Admin,
    AsyncProducer,
    BufferFull,
    ClientClosed,
    Deliveries,
    Delivery,
    DeliveryExpired,
    OutcomeUnknown,
    Producer,
    Refused,
    RequestTimedOut,
)
from tidelog.errors import InvalidPartitions
from tidelog_node.testing import InProcessCluster

RECORDS: Final = 100_000
PARTITIONS: Final = 3
#: More than the small buffers of these tests hold.
MANY: Final = [b"%d" % number + b"x" * 1000 for number in range(200)]


@pytest.fixture(autouse=True)
def _no_failure_is_kept() -> Iterator[None]:
    """A failure that was caught keeps its call, and so grpc's thread, until it is collected."""
    yield
    gc.collect()


def log_of(cluster: InProcessCluster, topic: str) -> list[list[bytes]]:
    """The values of each partition, in order."""
    return [
        [record.value or b"" for record in cluster.records(topic, partition)]
        for partition in range(PARTITIONS)
    ]


def check(logs: list[list[bytes]], handles: list[Delivery]) -> Counter[str]:
    """Each handle has one verdict, and the log agrees with each; how many of each kind."""
    places = {
        value: (partition, offset)
        for partition, log in enumerate(logs)
        for offset, value in enumerate(log)
    }
    assert len(places) == sum(len(log) for log in logs), "a record stands in the log twice"
    for log in logs:
        numbers = [int(value) for value in log]
        assert numbers == sorted(numbers), "not in the order of sending"
    kinds: Counter[str] = Counter()
    for number, handle in enumerate(handles):
        error = handle.exception()
        value = b"%d" % number
        kinds[type(error).__name__ if error else "acknowledged"] += 1
        if error is None:
            receipt = handle.result()
            assert places[value] == (receipt.partition, receipt.offset)
        elif isinstance(error, Refused):
            assert value not in places, f"{error}, but it was written"
        else:
            assert isinstance(error, OutcomeUnknown)
    return kinds


class Disturbance:
    """Does something bad to a cluster each time that some verdicts have come, until the end."""

    def __init__(self, *acts: Callable[[], None]) -> None:
        self._acts = acts
        self._is_over = False
        self._verdict = threading.Event()
        self._thread = threading.Thread(target=self._run, name="disturbance")
        self.rounds = 0

    def on_delivery(self, _: Delivery) -> None:
        """To be called at verdicts."""
        self._verdict.set()

    def _run(self) -> None:
        while self._verdict.wait() and not self._is_over:
            self._verdict.clear()
            self._acts[self.rounds % len(self._acts)]()
            self.rounds += 1

    def __enter__(self) -> Disturbance:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._verdict.set()
        self._thread.join()


def forever() -> Iterator[int]:
    """Numbers without end."""
    return itertools.count()


def consume(things: Iterable[object]) -> None:
    """Draws from an iterator until something is raised."""
    deque(things, maxlen=0)


def cut_and_heal(cluster: InProcessCluster) -> None:
    cluster.cut_network()
    cluster.heal_network()


@pytest.mark.tidelog(num_partitions=PARTITIONS)
def test_a_hundred_thousand_sends_over_restarts_and_cuts(tidelog_cluster: InProcessCluster) -> None:
    cluster = tidelog_cluster
    with (
        Producer(cluster.address, batch_size=4096, linger_ms=0) as producer,
        Disturbance(cluster.restart, lambda: cut_and_heal(cluster)) as disturbance,
    ):
        handles = [
            producer.send(
                "orders",
                b"%d" % number,
                partition=number % PARTITIONS,
                on_delivery=disturbance.on_delivery if number % 1_000 == 0 else None,
            )
            for number in range(RECORDS)
        ]
        producer.flush()
    assert disturbance.rounds >= 4
    kinds = check(log_of(cluster, "orders"), handles)
    assert kinds == {"acknowledged": RECORDS}, "time was enough for all"


@pytest.mark.tidelog(num_partitions=PARTITIONS)
def test_asyncio_over_restarts_and_cuts(tidelog_cluster: InProcessCluster) -> None:
    cluster = tidelog_cluster

    async def send_all(disturbance: Disturbance) -> list[Delivery]:
        handles = []
        async with AsyncProducer(cluster.address, batch_size=2048, linger_ms=0) as producer:
            for number in range(20_000):
                handle = producer.send_nowait("orders", b"%d" % number, partition=number % 3)
                handles.append(handle)
                if number % 1_000 == 0:
                    handle.add_done_callback(disturbance.on_delivery)
                    await asyncio.sleep(0)
        return handles

    with Disturbance(cluster.restart, lambda: cut_and_heal(cluster)) as disturbance:
        handles = asyncio.run(send_all(disturbance))
    assert disturbance.rounds
    assert check(log_of(cluster, "orders"), handles) == {"acknowledged": 20_000}


@pytest.mark.tidelog(num_partitions=PARTITIONS)
def test_short_deadlines_over_cuts_mix_all_verdicts(tidelog_cluster: InProcessCluster) -> None:
    """Expiry while disturbed: the log agrees with each verdict, and the rest is written."""
    cluster = tidelog_cluster
    with (
        Producer(cluster.address, batch_size=512, linger_ms=0, delivery_timeout_ms=60) as producer,
        Disturbance(cluster.restart, lambda: cut_and_heal(cluster)) as disturbance,
    ):
        handles = [producer.send("orders", b"0", delivery_timeout=60)]
        handles[0].result()
        for number in range(1, 20_000):
            handle = producer.send("orders", b"%d" % number, partition=number % PARTITIONS)
            handles.append(handle)
            if number % 1_000 == 0:
                handle.add_done_callback(disturbance.on_delivery)
        for handle in handles:
            handle.exception()
        for partition in range(PARTITIONS):
            value = b"%d" % len(handles)
            handles.append(producer.send("orders", value, partition=partition, delivery_timeout=60))
            assert handles[-1].exception() is None, "what comes after an expiry is written again"
    kinds = check(log_of(cluster, "orders"), handles)
    assert kinds["DeliveryExpired"], "something expired before it was sent"


def test_what_was_never_sent_expires_as_refused(tidelog_cluster: InProcessCluster) -> None:
    with Producer(tidelog_cluster.address, delivery_timeout_ms=200) as producer:
        producer.send("orders", b"first").result()
        tidelog_cluster.cut_network()
        error = producer.send("orders", b"late").exception()
        while isinstance(error, OutcomeUnknown):  # it met the stream before its end was noticed
            error = producer.send("orders", b"late").exception()
        assert isinstance(error, DeliveryExpired)
        assert "1 record for orders-0" in str(error)
        tidelog_cluster.heal_network()
        receipt = producer.send("orders", b"after", delivery_timeout=60).result()
    values = [record.value for record in tidelog_cluster.records("orders")]
    assert (values[0], values[receipt.offset or 0]) == (b"first", b"after")


def test_what_was_sent_into_silence_expires_as_unknown(tidelog_cluster: InProcessCluster) -> None:
    with Producer(
        tidelog_cluster.address, delivery_timeout_ms=300, request_timeout_ms=1000
    ) as producer:
        producer.send("orders", b"0").result()
        tidelog_cluster.cut_network(silently=True)
        with pytest.raises(OutcomeUnknown, match="may have been written"):
            producer.send("orders", b"1").result()
        tidelog_cluster.heal_network()
        receipt = producer.send("orders", b"2", delivery_timeout=60).result()
    values = [record.value for record in tidelog_cluster.records("orders")]
    assert values in ([b"0", b"1", b"2"], [b"0", b"2"])
    assert values[receipt.offset or 0] == b"2"


def test_a_full_buffer_pushes_back(tidelog_cluster: InProcessCluster) -> None:
    with Producer(
        tidelog_cluster.address, buffer_memory="64 KiB", batch_size="8 KiB", max_block_ms=100
    ) as producer:
        producer.send("orders", b"x").result()
        tidelog_cluster.cut_network(silently=True)
        with pytest.raises(BufferFull, match="buffer_memory=65536"):
            consume(producer.send("orders", b"x" * 1000) for _ in forever())
        tidelog_cluster.heal_network()
        producer.flush()
        assert producer.send("orders", b"there is room again").result().offset


def kept_and_again(taken: Deliveries | None) -> list[bytes]:
    """What a call that failed had not taken, once all that it had taken is acknowledged."""
    assert taken is not None
    assert len(taken.result(60)) == len(taken)
    assert 0 < len(taken) < len(MANY)
    return [value for index, value in enumerate(MANY) if index not in taken.indexes()]


@pytest.mark.parametrize("call", ["send_many", "send_columns"])
def test_many_records_that_find_no_room_say_which_were_taken(
    tidelog_cluster: InProcessCluster, call: str
) -> None:
    with Producer(
        tidelog_cluster.address, buffer_memory="64 KiB", batch_size="8 KiB", max_block_ms=100
    ) as producer:
        send = partial(getattr(producer, call), "orders")
        name = "values" if call == "send_many" else "value"
        send(**{name: [b"first"]}).confirm()
        tidelog_cluster.cut_network(silently=True)
        with pytest.raises(BufferFull) as refused:
            send(**{name: MANY})
        assert "`taken` is their handle" in refused.value.__notes__[0]
        tidelog_cluster.heal_network()
        rest = kept_and_again(refused.value.taken)
        for value in rest:
            producer.send("orders", value)
    values = [record.value for record in tidelog_cluster.records("orders")]
    assert values == [b"first", *MANY]


def test_columns_that_find_no_room_say_which_rows_were_taken(
    tidelog_cluster: InProcessCluster,
) -> None:
    with Admin(tidelog_cluster.address) as admin:
        admin.create_topic("orders", partitions=PARTITIONS)
    keys = [b"%d" % number for number in range(len(MANY))]
    with Producer(
        tidelog_cluster.address, buffer_memory="64 KiB", batch_size="8 KiB", max_block_ms=100
    ) as producer:
        producer.send("orders", b"first", partition=0).result()
        tidelog_cluster.cut_network(silently=True)
        with pytest.raises(BufferFull) as refused:
            producer.send_columns("orders", value=MANY, key=keys)
        tidelog_cluster.heal_network()
        taken = refused.value.taken
        assert taken is not None
        receipts = taken.result(60)
        rest = kept_and_again(taken)
    logs = log_of(tidelog_cluster, "orders")
    written = [logs[receipt.partition][receipt.offset or 0] for receipt in receipts]
    assert written == [MANY[index] for index in taken.indexes()]
    assert sorted(written + rest) == sorted(MANY)


def test_a_call_that_took_nothing_has_no_handle(tidelog_cluster: InProcessCluster) -> None:
    producer = Producer(tidelog_cluster.address)
    producer.send("orders", b"x").result()
    producer.close()
    with pytest.raises(ClientClosed) as refused:
        producer.send_many("orders", [b"y"])
    assert refused.value.taken is None


def test_a_partitioner_that_fails_leaves_no_record_without_a_verdict(
    tidelog_cluster: InProcessCluster,
) -> None:
    def fails(*_: object) -> int:
        raise ZeroDivisionError

    async def run() -> None:
        async with AsyncProducer(tidelog_cluster.address, partitioner=fails) as producer:
            delivery = producer.send_nowait("orders", b"the topic is not yet known")
            with pytest.raises(InvalidPartitions, match="ZeroDivisionError"):
                await delivery

    asyncio.run(run())


def test_an_async_send_waits_for_room(tidelog_cluster: InProcessCluster) -> None:
    async def run() -> int:
        async with AsyncProducer(
            tidelog_cluster.address, buffer_memory=20_000, batch_size=5_000
        ) as producer:
            await producer.send("orders", b"first")
            with pytest.raises(BufferFull, match="Let the loop run"):
                consume(producer.send_nowait("orders", b"x" * 1000) for _ in forever())
            await producer.wait_for_room()
            producer.send_nowait("orders", b"fits")
            receipts = await asyncio.gather(
                *(producer.send("orders", b"y" * 1000) for _ in range(200))
            )
            return len({receipt.offset for receipt in receipts})

    assert asyncio.run(run()) == 200


def test_close_in_mid_flight_gives_every_verdict(tidelog_cluster: InProcessCluster) -> None:
    producer = Producer(tidelog_cluster.address, batch_size=2000, linger_ms=0)
    producer.send("orders", b"first").result()
    tidelog_cluster.cut_network(silently=True)
    handles = [producer.send("orders", b"%d" % number) for number in range(10_000)]
    eventually(lambda: tidelog_cluster.is_holding_back, waiting_for="bytes on the way")
    with pytest.raises(OutcomeUnknown, match="10000 records were not acknowledged"):
        producer.close(timeout=0)
    errors = [handle.exception() for handle in handles]
    kinds = Counter(type(error) for error in errors)
    assert set(kinds) == {OutcomeUnknown, ClientClosed}
    tidelog_cluster.heal_network()
    tidelog_cluster.restart()
    written = {record.value for record in tidelog_cluster.records("orders")}
    for number, error in enumerate(errors):
        assert not (isinstance(error, Refused) and b"%d" % number in written)
    with pytest.raises(ClientClosed):
        producer.send("orders", b"late")


def test_flush_with_a_limit_says_how_many_wait(tidelog_cluster: InProcessCluster) -> None:
    with Producer(tidelog_cluster.address) as producer:
        producer.send("orders", b"first").result()
        tidelog_cluster.cut_network(silently=True)
        handle = producer.send("orders", b"second")
        with pytest.raises(RequestTimedOut, match=r"1 record had no verdict yet"):
            producer.flush(timeout=0.05)
        assert not handle.done()
        tidelog_cluster.heal_network()
        producer.flush()
        assert handle.done()


def test_a_request_without_an_answer_is_sent_again(tidelog_cluster: InProcessCluster) -> None:
    with Producer(tidelog_cluster.address, request_timeout_ms=300) as producer:
        producer.send("orders", b"0").result()
        tidelog_cluster.cut_network(silently=True)
        handle = producer.send("orders", b"1")
        with pytest.raises(RequestTimedOut):
            handle.result(timeout=0.5)
        tidelog_cluster.heal_network()
        assert handle.result().offset == 1
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"0", b"1"]


def test_records_survive_a_restart_between_them(tmp_path: Path) -> None:
    with InProcessCluster(tmp_path) as cluster, Producer(cluster.address) as producer:
        offsets = []
        for number in range(5):
            offsets.append(producer.send("orders", b"%d" % number).result().offset)
            cluster.restart()
        assert offsets == [0, 1, 2, 3, 4]
