"""`tidelog doctor` says which step fails, and what to do, for each step that can."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent import futures

import grpc
import pytest

from tidelog.admin.admin import Admin
from tidelog.cli import main
from tidelog.cli.examination import leaders
from tidelog.wire.v1 import metadata_pb2
from tidelog_node.testing import InProcessCluster

Doctor = Callable[..., tuple[int, list[str]]]


@pytest.fixture(autouse=True)
def _forget_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An error that was caught keeps its call, and so a thread of grpc's, until it is collected."""
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield
    gc.collect()


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Runs the doctor: its code and its lines."""

    def run(*words: str) -> tuple[int, list[str]]:
        code = main(["doctor", *words])
        said = capsys.readouterr()
        assert said.err == ""
        return code, said.out.splitlines()

    return run


@pytest.fixture
def rude_listener() -> Iterator[str]:
    """Somebody who accepts connections and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            while True:
                try:
                    listener.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=hang_up, name="rude-listener")
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def other_grpc_server() -> Iterator[str]:
    """A gRPC server that knows nothing of Tidelog."""
    with futures.ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield f"127.0.0.1:{port}"
        server.stop(None).wait()


def test_a_healthy_cluster(doctor: Doctor, tidelog_cluster: InProcessCluster) -> None:
    address = tidelog_cluster.address
    with Admin(address) as admin:
        admin.create_topic("orders", partitions=3)
    code, lines = doctor(address)
    assert code == 0
    assert [line.split()[:2] for line in lines[:-1]] == [
        ["ok", step]
        for step in (
            "address",
            "resolve",
            "connect",
            "handshake",
            "metadata",
            "broker",
            "leaders",
        )
    ]
    assert lines[4].endswith("1 broker, 1 topic, 3 partitions")
    assert lines[5].endswith(f"answers at {address}, the address it gives to clients")
    assert lines[-1] == f"All is well with {address}."
    assert doctor("--bootstrap-server", address)[0] == 0


def test_json(doctor: Doctor, tidelog_cluster: InProcessCluster) -> None:
    code, lines = doctor(tidelog_cluster.address, "--json")
    assert code == 0
    assert [json.loads(line)["is_well"] for line in lines] == [True] * 7


def failure(doctor: Doctor, *words: str) -> tuple[str, str, str]:
    """The step that fails, what it found, and what to do."""
    code, lines = doctor(*words, "--json")
    last = json.loads(lines[-1])
    assert code == 1
    assert [json.loads(line)["is_well"] for line in lines[:-1]] == [True] * (len(lines) - 1)
    assert not last["is_well"]
    return last["step"], last["words"], last["advice"]


def test_no_address(doctor: Doctor) -> None:
    step, words, advice = failure(doctor, "localhost")
    assert (step, words) == ("address", "'localhost' is no address of a broker")
    assert "localhost:9094" in advice
    assert failure(doctor, "a:1,b:2")[1] == "'a:1,b:2' names several"


def test_an_unknown_name(doctor: Doctor) -> None:
    step, words, advice = failure(doctor, "nowhere.invalid:9094")
    assert step == "resolve"
    assert words.startswith("the name 'nowhere.invalid' is not known")
    assert "spelt" in advice


def test_nobody_listens(doctor: Doctor) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        step, words, advice = failure(doctor, address)
    assert (step, words) == ("connect", f"{address}: connection refused")
    assert "`tidelog up`" in advice


def test_nobody_answers(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    async def in_vain(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(asyncio, "open_connection", in_vain)
    step, words, advice = failure(doctor, "127.0.0.1:9094")
    assert (step, words) == ("connect", "127.0.0.1:9094: no answer in 5 s")
    assert "firewall" in advice


def test_a_listener_that_hangs_up(doctor: Doctor, rude_listener: str) -> None:
    step, _, advice = failure(doctor, rude_listener)
    assert step == "handshake"
    assert "not the one for metrics" in advice


def test_a_page_of_metrics(doctor: Doctor, tidelog_cluster: InProcessCluster) -> None:
    page = tidelog_cluster.metrics_url.removeprefix("http://").removesuffix("/metrics")
    step, _, advice = failure(doctor, page)
    assert step == "handshake"
    assert "not the one for metrics" in advice


def test_another_grpc_server(doctor: Doctor, other_grpc_server: str) -> None:
    step, words, advice = failure(doctor, other_grpc_server)
    assert step == "handshake"
    assert words == "a gRPC server answers, but it knows no Tidelog handshake"
    assert "another service's port" in advice


def test_the_internal_listener(doctor: Doctor, tidelog_cluster: InProcessCluster) -> None:
    step, words, advice = failure(doctor, tidelog_cluster.internal_address)
    assert step == "handshake"
    assert "this is its internal listener" in words
    assert "`listeners`" in advice


def test_a_proxy_in_the_environment(
    doctor: Doctor, rude_listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    _, _, advice = failure(doctor, rude_listener)
    assert advice.startswith("The environment sets http_proxy")
    assert "no_proxy" in advice


@pytest.mark.tidelog(advertised_listeners="nowhere.invalid:9094")
def test_an_advertised_address_that_nobody_knows(
    doctor: Doctor, tidelog_cluster: InProcessCluster
) -> None:
    code, lines = doctor(tidelog_cluster.address)
    (failed,) = [line for line in lines if line.startswith("FAILED")]
    assert code == 1
    assert "tells clients to come to nowhere.invalid:9094" in failed
    assert "set advertised.listeners" in lines[lines.index(failed) + 1]


def test_a_leader_that_is_gone_is_none() -> None:
    led = metadata_pb2.PartitionMetadata(partition=0, leader_id=1, replicas=[1])
    left = metadata_pb2.PartitionMetadata(partition=1, leader_id=2, replicas=[2], offline=[2])
    none = metadata_pb2.PartitionMetadata(partition=2, leader_id=-1, replicas=[2])
    answer = metadata_pb2.MetadataResponse(
        topics=[metadata_pb2.TopicMetadata(name="orders", partitions=[led, left, none])]
    )
    found = leaders(answer)
    assert not found.is_well
    assert found.words == "no leader for orders-1, orders-2"
    del answer.topics[0].partitions[1:]
    assert leaders(answer).is_well
