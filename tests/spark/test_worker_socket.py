"""A task's first piece is acknowledged at once, so that Spark's JVM sends the second."""

from __future__ import annotations

import os
import pickle
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from pyspark import TaskContext
from pyspark.sql.types import StringType, StructField, StructType

from tidelog_spark import reader, worker_socket, writer
from tidelog_spark.stream import TidelogStreamReader
from tidelog_spark.worker_socket import acknowledge_at_once

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be told so")

SCHEMA = StructType([StructField("value", StringType())])
OPTIONS = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def in_task() -> Iterator[None]:
    """As if this process were a worker with a task."""
    with mock.patch.object(TaskContext, "get", return_value=object()):
        yield


@contextmanager
def connection() -> Iterator[socket.socket]:
    """A connection that puts its acknowledgements off."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as here,
        server.accept()[0],
    ):
        here.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        yield here


def acknowledges_at_once(here: socket.socket) -> bool:
    return bool(here.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


@pytest.mark.usefixtures("in_task")
def test_a_worker_puts_no_acknowledgement_off() -> None:
    with connection() as here:
        assert not acknowledges_at_once(here)
        acknowledge_at_once()
        assert acknowledges_at_once(here)
        assert here.gettimeout() is None


def test_a_process_that_runs_no_task_is_left_alone() -> None:
    with connection() as here:
        acknowledge_at_once()
        assert not acknowledges_at_once(here)


@pytest.mark.usefixtures("in_task")
def test_what_else_is_open_stays_as_it_is(tmp_path: Path) -> None:
    left, right = socket.socketpair()
    with left, right, (tmp_path / "file").open("w") as file, socket.socket() as lonely:
        before = len(os.listdir("/proc/self/fd"))
        acknowledge_at_once()
        assert len(os.listdir("/proc/self/fd")) == before
        assert lonely.fileno() >= 0
        left.sendall(b"still here")
        assert right.recv(100) == b"still here"
        file.write("still here")


@pytest.mark.usefixtures("in_task")
def test_a_default_timeout_is_not_given_to_sparks_connection() -> None:
    socket.setdefaulttimeout(7)
    try:
        with connection() as here:
            here.setblocking(True)
            acknowledge_at_once()
            assert os.get_blocking(here.fileno())
    finally:
        socket.setdefaulttimeout(None)


@pytest.mark.usefixtures("in_task")
def test_without_a_list_of_open_files_a_task_begins_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(worker_socket, "_OPEN_FILES", tmp_path / "nowhere")
    acknowledge_at_once()


def test_readers_and_writers_begin_their_tasks_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(worker_socket, "acknowledge_at_once", lambda: calls.append("at once"))
    reading, writing = OPTIONS | {"subscribe": "orders"}, OPTIONS | {"topic": "orders"}
    for made in (
        reader.batch_reader(reading, SCHEMA),
        TidelogStreamReader(reading, SCHEMA),
        writer.TidelogWriter(writing, SCHEMA),
        writer.TidelogStreamWriter(writing, SCHEMA),
    ):
        carried = pickle.loads(pickle.dumps(made))
        assert (type(carried), calls) == (type(made), ["at once"])
        calls.clear()
