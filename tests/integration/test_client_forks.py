"""Forks and clients: a child that can't have any says so, and one that can works."""

from __future__ import annotations

import subprocess
import sys

from tidelog_node.testing import InProcessCluster

#: Twice as many as it took, at the most, for one to crash when gRPC acted at a fork.
FORKS = 60

PROGRAM_WITH_OPEN_CLIENT = """
import asyncio, os, sys, tidelog
address, forks = sys.argv[1], int(sys.argv[2])

async def anew():
    async with tidelog.AsyncProducer(address) as producer:
        await producer.send("orders", b"child")

def made():
    yield lambda: tidelog.Producer(address)
    yield lambda: tidelog.Consumer(address)
    yield lambda: tidelog.Admin(address)
    yield lambda: tidelog.AsyncAdmin(address)
    yield lambda: asyncio.run(anew())

def child():
    for make in made():
        try:
            make()
        except tidelog.ForkedClient as error:
            assert "spawn" in error.hint, error
        else:
            os._exit(3)
    os._exit(0)

with tidelog.Producer(address) as producer:
    producer.send("orders", b"before").result()
    ends = set()
    for number in range(forks):
        process = os.fork()
        if process == 0:
            child() if number == 0 else os._exit(0)
        ends.add(os.waitpid(process, 0)[1])
    assert ends == {0}, ends
    producer.send("orders", b"after").result()
"""

PROGRAM_WITHOUT_OPEN_CLIENT = """
import os, sys, tidelog

def send(value):
    with tidelog.Producer(sys.argv[1]) as producer:
        producer.send("orders", value).result()

def in_child(value):
    process = os.fork()
    if process == 0:
        send(value)
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0

def refused_in_child():
    process = os.fork()
    if process == 0:
        try:
            send(b"after the last")
        except tidelog.ForkedClient as error:
            os._exit(0 if "before the first client" in error.hint else 3)
        os._exit(4)
    assert os.waitpid(process, 0)[1] == 0

in_child(b"before the first")
send(b"parent")
refused_in_child()
"""

PROGRAM_WITH_ASYNC_CLIENTS = """
import asyncio, os, sys, tidelog

def in_child(call):
    asyncio._set_running_loop(None)
    try:
        asyncio.new_event_loop().run_until_complete(call())
    except tidelog.ForkedClient as error:
        assert "spawn" in error.hint, error
        assert str(os.getppid()) in error.message, error
        os._exit(0)
    os._exit(3)

async def main(address):
    async with (
        tidelog.AsyncProducer(address) as producer,
        tidelog.AsyncConsumer(address) as consumer,
        tidelog.AsyncAdmin(address) as admin,
    ):
        await producer.send("orders", b"parent")
        await consumer.assign("orders", start="earliest")
        await admin.list_topics()
        async def send_nowait():
            producer.send_nowait("orders", b"child")
        calls = [lambda: producer.send("orders", b"child"), send_nowait, producer.flush]
        for call in [*calls, consumer.poll, admin.list_topics]:
            process = os.fork()
            if process == 0:
                try:
                    in_child(call)
                finally:
                    os._exit(4)
            assert os.waitpid(process, 0)[1] == 0, call

asyncio.run(main(sys.argv[1]))
"""


PROGRAM_WITH_HANDLES = """
import asyncio, os, sys, tidelog

async def wait_for(handle):
    await handle

def ways(handle):
    yield handle.result
    yield lambda: asyncio.new_event_loop().run_until_complete(wait_for(handle))

def refused(handles):
    asyncio._set_running_loop(None)
    for handle in handles:
        for wait in ways(handle):
            try:
                wait()
            except tidelog.ForkedClient as error:
                assert "spawn" in error.hint, error
                assert str(os.getppid()) in error.message, error
            else:
                os._exit(3)
    os._exit(0)

def in_child(handles):
    process = os.fork()
    if process == 0:
        try:
            refused(handles)
        finally:
            os._exit(4)
    assert os.waitpid(process, 0)[1] == 0

async def main(address):
    producer = tidelog.AsyncProducer(address, linger_ms=3_600_000)
    await producer.send("orders", b"parent")
    staged = producer.send_nowait("payments", b"staged")
    handles = [producer.send_nowait("orders", b"one")]
    handles.append(await producer.send_many("orders", [b"many"]))
    in_child([*handles, staged])
    closing = asyncio.create_task(producer.close())
    await asyncio.sleep(0)
    in_child(handles)
    await closing
    for handle in [*handles, staged]:
        await handle

asyncio.run(main(sys.argv[1]))
"""


def output_of(program: str, *arguments: str) -> str:
    """What a program prints that ends well."""
    seen = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert seen.returncode == 0, seen.stdout
    return seen.stdout


def test_a_child_of_a_process_with_clients_has_none(tidelog_cluster: InProcessCluster) -> None:
    assert not output_of(PROGRAM_WITH_OPEN_CLIENT, tidelog_cluster.address, str(FORKS))
    values = [record.value for record in tidelog_cluster.records("orders")]
    assert values == [b"before", b"after"]


def test_a_fork_is_free_before_the_first_client_alone(tidelog_cluster: InProcessCluster) -> None:
    assert not output_of(PROGRAM_WITHOUT_OPEN_CLIENT, tidelog_cluster.address)
    values = {record.value for record in tidelog_cluster.records("orders")}
    assert values == {b"before the first", b"parent"}


def test_an_async_client_of_the_parent_says_so_in_a_child(
    tidelog_cluster: InProcessCluster,
) -> None:
    assert not output_of(PROGRAM_WITH_ASYNC_CLIENTS, tidelog_cluster.address)
    values = [record.value for record in tidelog_cluster.records("orders")]
    assert values == [b"parent"]


def test_handles_of_the_parent_are_not_waited_for_in_a_child(
    tidelog_cluster: InProcessCluster,
) -> None:
    assert not output_of(PROGRAM_WITH_HANDLES, tidelog_cluster.address)
