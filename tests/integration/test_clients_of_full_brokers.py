"""Clients of a broker that serves as many calls as max.concurrent.rpcs allows: they come again."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

from harness.nodes import LiveNode, on_node
from tidelog import Admin, AsyncProducer, Consumer, DeliveryExpired, OutcomeUnknown, Producer
from tidelog.cli import main
from tidelog_node.testing import InProcessCluster
from tidelog_runtime.adapters.running_calls import RunningCalls

#: How often a call is turned away before it is let in.
TIMES: Final = 3


@pytest.fixture(autouse=True)
def _no_failure_is_kept() -> Iterator[None]:
    """A failure that was caught keeps its call, and so grpc's thread, until it is collected."""
    yield
    gc.collect()


@pytest.fixture
def turned_away(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """By method, how often its next calls find the listener full; counts down to none."""
    left: Counter[str] = Counter()
    intercept = RunningCalls.intercept_service

    async def intercept_service(self: Any, continuation: Any, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        if left[name] > 0:
            left[name] -= 1
            return self._refusal
        return await intercept(self, continuation, details)

    monkeypatch.setattr(RunningCalls, "intercept_service", intercept_service)
    return left


@on_node(max_concurrent_rpcs="2")
async def test_at_the_limit_a_record_waits_for_its_deadline(node: LiveNode) -> None:
    await node.client.create("orders")
    streams = await node.client.fill(2)
    async with AsyncProducer(node.node.bootstrap, max_block_ms=500) as producer:
        with pytest.raises(DeliveryExpired, match=r"max\.concurrent\.rpcs=2") as raised:
            await producer.send("orders", value=b"x")
        assert f"The broker at {node.node.bootstrap} takes no more calls" in str(raised.value)
        for stream in streams:
            await stream.finish()
        receipt = await producer.send("orders", value=b"x")
        assert receipt.offset == 0


def test_the_doctor_says_what_keeps_it_out(
    tidelog_cluster: InProcessCluster,
    turned_away: Counter[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    turned_away["Handshake"] = 1
    assert main(["doctor", tidelog_cluster.address]) == 1
    told = capsys.readouterr().out
    assert "takes no more calls at present" in told
    assert "raise max.concurrent.rpcs" in told
    assert "proxy" not in told


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("method", ["Handshake", "Metadata", "InitProducerId", "ProduceStream"])
def test_a_producer_that_is_turned_away_comes_again(
    tidelog_cluster: InProcessCluster, turned_away: Counter[str], method: str, idempotent: bool
) -> None:
    turned_away[method] = TIMES
    with Producer(
        tidelog_cluster.address, enable_idempotence=idempotent, delivery_timeout_ms=60_000
    ) as producer:
        receipt = producer.send("orders", b"1", partition=0).result()
    assert receipt.offset == 0
    if idempotent or method != "InitProducerId":
        assert turned_away[method] == 0
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"1"]


def test_a_record_whose_streams_are_all_turned_away_is_certainly_not_written(
    tidelog_cluster: InProcessCluster, turned_away: Counter[str]
) -> None:
    """Unless its deadline comes while one of them is tried, which a busy machine makes likely."""
    with Producer(tidelog_cluster.address) as producer:
        turned_away["ProduceStream"] = many = 10_000
        errors = [producer.send("orders", b"1", delivery_timeout=1).exception()]
        while isinstance(errors[-1], OutcomeUnknown) and len(errors) < 20:
            errors.append(producer.send("orders", b"1", delivery_timeout=1).exception())
        assert isinstance(errors[-1], DeliveryExpired)
        assert "max.concurrent.rpcs" in str(errors[-1])
        attempts = many - turned_away["ProduceStream"]
        assert 1 <= attempts <= 20 * len(errors), "it waits between attempts"
        turned_away.clear()
        assert producer.send("orders", b"2").result().offset == 0


@pytest.mark.parametrize("method", ["Handshake", "Metadata", "ListOffsets", "FetchStream"])
def test_a_consumer_that_is_turned_away_comes_again(
    tidelog_cluster: InProcessCluster, turned_away: Counter[str], method: str
) -> None:
    with Producer(tidelog_cluster.address) as producer:
        producer.send("orders", b"1", partition=0).result()
    turned_away[method] = TIMES
    with Consumer(tidelog_cluster.address) as consumer:
        consumer.assign("orders", start="earliest", until="end")
        assert [record.value for record in consumer] == [b"1"]
    assert turned_away[method] == 0


@pytest.mark.parametrize("method", ["Handshake", "CreateTopics"])
def test_an_admin_that_is_turned_away_comes_again(
    tidelog_cluster: InProcessCluster, turned_away: Counter[str], method: str
) -> None:
    turned_away[method] = TIMES
    with Admin(tidelog_cluster.address) as admin:
        admin.create_topic("orders")
    assert turned_away[method] == 0
