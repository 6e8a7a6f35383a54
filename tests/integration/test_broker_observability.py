"""What operators see of a node: health, reflection, the Prometheus page, structured logs."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import math
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from grpc.aio import AioRpcError
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from prometheus_client.parser import text_string_to_metric_families
from storage_kit.batches import batch

from harness.client import Client
from harness.nodes import LiveNode, on_node, run_on_node
from harness.processes import running_node
from tidelog import AsyncConsumer
from tidelog.wire.v1 import fetch_pb2
from tidelog_runtime.adapters.grpc_serving import HEALTH_NAMES
from tidelog_runtime.structured_logs import JsonFormatter, TextFormatter

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def health_stub(client: Client) -> Any:
    return health_pb2_grpc.HealthStub(client.channel)


def reflection_stub(client: Client) -> Any:
    # Its types know of blocking channels alone.
    make: Any = reflection_pb2_grpc.ServerReflectionStub
    return make(client.channel)


async def health(client: Client, name: str) -> int:
    request = health_pb2.HealthCheckRequest(service=name)
    return int((await health_stub(client).Check(request)).status)


@on_node()
async def test_both_listeners_tell_their_health(node: LiveNode) -> None:
    for client in (node.client, node.internal):
        for name in ("liveness", *HEALTH_NAMES):
            assert await health(client, name) == SERVING, name
    watch = health_stub(node.client).Watch(health_pb2.HealthCheckRequest(service="readiness"))
    assert (await watch.read()).status == SERVING
    changed = asyncio.ensure_future(watch.read())
    await node.node.broker.stop()
    assert (await changed).status == NOT_SERVING
    watch.cancel()


@on_node()
async def test_both_listeners_reflect_what_they_serve(node: LiveNode) -> None:
    for client in (node.client, node.internal):
        call = reflection_stub(client).ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        listed = await call.read()
        names = {service.name for service in listed.list_services_response.service}
        assert names == {
            "tidelog.wire.v1.Broker",
            "tidelog.wire.v1.Admin",
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        symbol = reflection_pb2.ServerReflectionRequest(
            file_containing_symbol="tidelog.wire.v1.Broker"
        )
        await call.write(symbol)
        described = await call.read()
        assert described.file_descriptor_response.file_descriptor_proto
        call.cancel()


# --- Prometheus ----------------------------------------------------------------------------------


async def ask(node: LiveNode, request: bytes) -> bytes:
    """The raw answer of the metrics page."""
    url = urlsplit(node.node.metrics_url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(request)
    await writer.drain()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


Labels = tuple[tuple[str, str], ...]


async def scrape(node: LiveNode) -> dict[tuple[str, Labels], float]:
    answer = await ask(node, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, page = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"Content-Length: {len(page)}".encode() in head
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


@on_node(max_concurrent_rpcs="2")
async def test_refusals_are_counted(node: LiveNode) -> None:
    streams = await node.client.fill(2)
    for _ in range(3):
        with pytest.raises(AioRpcError):
            await node.client.list_offset("orders", -1)
    seen = await scrape(node)
    assert seen["tidelog_running_calls", ()] == 2
    assert seen["tidelog_refused_calls_total", ()] == 3
    for stream in streams:
        await stream.finish()


@on_node(expected_errors=("orders-0 is damaged on this disk",))
async def test_known_damage_counts_from_the_first_scrape_on(node: LiveNode) -> None:
    topic_id = await node.client.create("orders")
    await node.client.create("others")
    await node.client.produce("orders", batch(b"a"))
    await node.stop()
    (node.data_dir / "topics" / topic_id.hex() / "0" / f"{0:020d}.log").unlink()
    await node.start()
    assert (await scrape(node))["tidelog_damaged_partitions", ()] == 0, "nobody has looked"
    assert (await node.client.fetch("orders")).HasField("error")
    assert (await scrape(node))["tidelog_damaged_partitions", ()] == 1
    await node.restart()
    assert (await scrape(node))["tidelog_damaged_partitions", ()] == 1


@on_node()
async def test_a_reader_to_an_offset_is_sent_nothing_behind_it(node: LiveNode) -> None:
    await node.client.create("orders")
    content = batch(b"a", b"b")
    for _ in range(5):
        await node.client.produce("orders", content)
    async with AsyncConsumer(node.node.bootstrap) as consumer:
        await consumer.assign("orders", start=1, until=5)
        assert [record.offset async for record in consumer] == [1, 2, 3, 4]
    seen = await scrape(node)
    assert seen["tidelog_bytes_out_total", (("topic", "orders"),)] == 3 * len(content)


@on_node()
async def test_what_a_fetch_waits_for_counts_once(node: LiveNode) -> None:
    await node.client.create("orders")
    content = batch(b"a", b"b")
    request = fetch_pb2.FetchRequest(
        options=fetch_pb2.FetchOptions(min_bytes=10 * len(content), max_wait_ms=3_600_000),
        partitions=[fetch_pb2.FetchPartition(topic="orders")],
    )
    pending = asyncio.ensure_future(node.client.broker.Fetch(request))
    for _ in range(10):
        await node.client.produce("orders", content)
    (answer,) = (await pending).partitions
    assert len(answer.records) == 10 * len(content)
    seen = await scrape(node)
    assert seen["tidelog_bytes_out_total", (("topic", "orders"),)] == len(answer.records)


@on_node()
async def test_the_metrics_page_has_the_series_and_they_count(node: LiveNode) -> None:
    await node.client.create("orders", 2)
    content = batch(b"a", b"b", producer=(3, 0, 0))
    await node.client.produce("orders", content, partition=1)
    await node.client.produce("orders", content, partition=1)
    await node.client.values("orders", 1)
    seen = await scrape(node)
    orders: Labels = (("topic", "orders"),)
    second: Labels = (("partition", "1"), ("topic", "orders"))
    call: Labels = (("grpc_method", "Produce"), ("grpc_service", "tidelog.wire.v1.Broker"))
    assert seen["tidelog_records_in_total", orders] == 2
    assert seen["tidelog_bytes_in_total", orders] == len(content)
    assert seen["tidelog_bytes_out_total", orders] == len(content)
    assert seen["tidelog_duplicate_batches_total", orders] == 1
    assert seen["tidelog_partition_start_offset", second] == 0
    assert seen["tidelog_partition_end_offset", second] == 2
    assert seen["tidelog_partition_size_bytes", second] == len(content)
    assert seen["tidelog_partitions", ()] == seen["tidelog_leader_partitions", ()] == 2
    for name in ("faulty", "damaged", "unopened"):
        assert seen[f"tidelog_{name}_partitions", ()] == 0
    assert seen["tidelog_cluster_brokers", ()] == 1
    assert seen["tidelog_produce_in_flight_bytes", ()] == 0
    assert seen["tidelog_disk_total_bytes", ()] >= seen["tidelog_disk_free_bytes", ()] > 0
    assert seen["grpc_server_started_total", call] == 2
    assert seen["grpc_server_handled_total", (("grpc_code", "OK"), *call)] == 2
    assert seen["grpc_server_handling_seconds_count", call] == 2
    buckets = [
        (float(dict(labels)["le"]), value)
        for (name, labels), value in seen.items()
        if name == "grpc_server_handling_seconds_bucket" and set(call) <= set(labels)
    ]
    assert max(buckets) == (math.inf, 2)
    assert [value for _, value in sorted(buckets)] == sorted(value for _, value in buckets)


@on_node()
async def test_series_of_a_deleted_topic_are_gone(node: LiveNode) -> None:
    await node.client.create("orders")
    assert ("tidelog_records_in_total", (("topic", "orders"),)) in await scrape(node)
    await node.client.delete("orders")
    assert not any(("topic", "orders") in labels for _, labels in await scrape(node))


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\n\r\n", b"200"),
        (b"GET /metrics?name=x HTTP/1.1\r\n\r\n", b"200"),
        (b"GET /other HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"\r\n\r\n", b"405"),
        (b"GET\r\n\r\n", b"404"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", b"431"),
    ],
)
def test_the_metrics_page_stands_whatever_is_asked(
    tmp_path: Path, request_bytes: bytes, status: bytes
) -> None:
    async def scenario(node: LiveNode) -> None:
        try:
            answer = await ask(node, request_bytes)
        except ConnectionError:
            assert status == b"431", "what was not read to its end may be reset"
        else:
            assert answer.startswith(b"HTTP/1.1 " + status)
        assert await scrape(node)

    run_on_node(tmp_path / "data", scenario)


# --- logs ----------------------------------------------------------------------------------------


def record_of(message: str, fields: dict[str, object]) -> logging.LogRecord:
    record = logging.LogRecord("tidelog_broker.x", logging.WARNING, "x.py", 1, message, (), None)
    record.fields = fields
    return record


def test_json_logs_are_one_object_a_line() -> None:
    record = record_of("it\nhappened", {"topic": "orders", "partition": 3, "odd": b"\xff"})
    record.exc_info = (ValueError, ValueError("two\nlines"), None)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    event = json.loads(line)
    assert (event["level"], event["logger"]) == ("WARNING", "tidelog_broker.x")
    assert (event["message"], event["topic"], event["partition"]) == ("it\nhappened", "orders", 3)
    assert "ValueError: two" in event["traceback"]
    assert event["time"].endswith("Z")


def test_fields_cannot_take_the_place_of_the_event_itself() -> None:
    event = json.loads(
        JsonFormatter().format(record_of("happened", {"level": "LOW", "message": "else"}))
    )
    assert (event["level"], event["message"]) == ("WARNING", "happened")


def test_text_logs_carry_the_fields_on_the_first_line() -> None:
    line = TextFormatter().format(record_of("happened", {"topic": "orders"}))
    assert line.endswith("WARNING tidelog_broker.x: happened topic=orders")


def test_a_process_logs_json_when_told_to(tmp_path: Path) -> None:
    with running_node(tmp_path / "data", "--config", "log.format=json") as node:
        node.kill()
    with running_node(
        tmp_path / "data", "--config", "log.format=json", "--config", "log.level=DEBUG"
    ) as node:
        node.terminate()
        assert node.exit_code() == 0
    lines = node.log_lines()
    assert lines
    assert all({"time", "level", "logger", "message"} <= json.loads(line).keys() for line in lines)


class ExecuteBatchError(Exception):
    """As gRPC's own is called."""


@pytest.mark.parametrize(
    ("error", "is_told"), [("ExecuteBatchError", False), ("InternalError", True), (None, True)]
)
def test_a_client_that_goes_away_amid_an_answer_leaves_no_traceback(
    error: str | None, is_told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(_node: LiveNode) -> None:
        # As gRPC tells it: of one in a thousand calls that are left.
        cygrpc: Any = importlib.import_module("grpc._cython.cygrpc")
        about = getattr(cygrpc, error)("execute_batch", ()) if error else None
        cygrpc._LOGGER.error("raised in core by servicer method", exc_info=about)

    run_on_node(tmp_path / "data", scenario, expected_errors=("raised in core",))
    assert ("raised in core" in caplog.text) is is_told
