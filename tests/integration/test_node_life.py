"""A node as a process: how it stops, what survives, and what it says when it can't start."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from storage_kit.batches import batch

from harness.client import Client, partition_batch, produce_request
from harness.nodes import LiveNode, run_on_node
from harness.processes import node_process, running_node
from support.eventually import eventually
from tidelog.wire.v1 import common_pb2
from tidelog_broker.storage import names
from tidelog_node.node import NODE_LOCK
from tidelog_runtime.adapters.local_disk import LocalDisk

#: How long a checkpoint takes here; a stop that does not wait for it is sooner done.
SLOW_S = 0.5

#: A process that does nothing but hear signals comes to nothing else.
BETWEEN_SIGNALS_S = 0.005

CLEAN_MARKER = "clean"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_sigterm_answers_what_was_taken_and_leaves_a_clean_marker(data_dir: Path) -> None:
    with running_node(data_dir) as node:

        async def produce_and_stop() -> list[int]:
            async with Client(node.bootstrap) as client:
                await client.create("orders")
                stream = client.produce_stream()
                for number in range(200):
                    request = produce_request(
                        partition_batch("orders", batch(b"%d" % number)), correlation_id=number
                    )
                    await stream.send(request)
                first = await stream.answer()
                node.terminate()
                return [
                    answer.partitions[0].base_offset
                    for answer in (first, *await stream.finish())
                    if not answer.HasField("error")
                ]

        acknowledged = asyncio.run(produce_and_stop())
        assert node.exit_code() == 0
        assert node.complaints() == []
    assert acknowledged == list(range(len(acknowledged)))
    assert (data_dir / CLEAN_MARKER).exists()
    with running_node(data_dir) as again:
        kept = asyncio.run(values_of(again.bootstrap, "orders"))
    assert kept[: len(acknowledged)] == [b"%d" % number for number in acknowledged]


async def values_of(address: str, topic: str) -> list[bytes | None]:
    async with Client(address) as client:
        return await client.values(topic)


def test_ctrl_c_stops_in_order_too(data_dir: Path) -> None:
    with running_node(data_dir) as node:
        node.interrupt()
        assert node.exit_code() == 0
        assert node.complaints() == []
    assert (data_dir / CLEAN_MARKER).exists()


def test_a_second_signal_while_stopping_does_no_harm(data_dir: Path) -> None:
    with running_node(data_dir) as node:
        for _ in range(20):
            node.terminate()
        assert node.exit_code() == 0
        assert node.complaints() == []
    assert (data_dir / CLEAN_MARKER).exists()


def test_everything_survives_a_restart_and_a_kill(data_dir: Path) -> None:
    sent = [batch(b"%d" % number, producer=(1, 0, number)) for number in range(4)]

    async def first(address: str) -> bytes:
        async with Client(address) as client:
            configs = {"max.message.bytes": "4000", "retention.ms": "-1"}
            topic_id = await client.create("orders", 2, configs)
            for content in sent[:3]:
                ack = await client.produce("orders", content, partition=1)
                assert not ack.HasField("error"), ack.error
            return topic_id

    async def check(address: str, topic_id: bytes, cluster_id: str) -> str:
        async with Client(address) as client:
            from tidelog.wire.v1 import admin_pb2, metadata_pb2

            described = await client.broker.Metadata(
                metadata_pb2.MetadataRequest(topics=["orders"])
            )
            assert described.topics[0].topic_id == topic_id
            assert len(described.topics[0].partitions) == 2
            assert cluster_id in ("", described.cluster_id)
            assert await client.values("orders", 1) == [b"0", b"1", b"2"]
            again = await client.produce("orders", sent[2], partition=1)
            assert (again.base_offset, again.duplicate) == (2, True)
            gap = await client.produce("orders", batch(b"x", producer=(1, 0, 9)), partition=1)
            assert gap.error.code == common_pb2.OUT_OF_ORDER_SEQUENCE_NUMBER
            large = await client.produce("orders", batch(b"x" * 5_000))
            assert large.error.code == common_pb2.MESSAGE_TOO_LARGE
            request = admin_pb2.DescribeConfigsRequest()
            asked = request.resources.add(keys=["retention.ms"])
            asked.resource.type = admin_pb2.CONFIG_RESOURCE_TOPIC
            asked.resource.name = "orders"
            (answer,) = (await client.admin.DescribeConfigs(request)).resources
            assert [entry.value for entry in answer.entries] == ["-1"]
            return described.cluster_id

    with running_node(data_dir) as node:
        topic_id = asyncio.run(first(node.bootstrap))
        node.terminate()
        assert node.exit_code() == 0
    with running_node(data_dir) as node:
        cluster_id = asyncio.run(check(node.bootstrap, topic_id, ""))
        node.kill()
    with running_node(data_dir) as node:
        asyncio.run(check(node.bootstrap, topic_id, cluster_id))


def test_a_killed_node_leaves_no_clean_marker_and_starts_again(data_dir: Path) -> None:
    with running_node(data_dir) as node:
        node.kill()
    assert not (data_dir / CLEAN_MARKER).exists()
    with running_node(data_dir) as node:
        assert not (data_dir / CLEAN_MARKER).exists()
        node.terminate()
        assert node.exit_code() == 0


def test_an_ephemeral_node_leaves_nothing(tmp_path: Path) -> None:
    environment = {"TMPDIR": str(tmp_path)}
    arguments = ("-m", "tidelog_node", "--ephemeral")
    with running_node(None, entry=arguments, environment=environment, log_folder=tmp_path) as node:
        assert list(tmp_path.glob("tidelog-*"))
        node.terminate()
        assert node.exit_code() == 0
    assert list(tmp_path.glob("tidelog-*")) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_whoever_sends_signal_after_signal_gets_an_end_in_order(
    number: signal.Signals, tmp_path: Path
) -> None:
    environment = {"TMPDIR": str(tmp_path)}
    arguments = ("-m", "tidelog_node", "--ephemeral")
    with running_node(None, entry=arguments, environment=environment, log_folder=tmp_path) as node:
        while not node.has_ended:
            node.send_signal(number)
            time.sleep(BETWEEN_SIGNALS_S)
        assert node.exit_code() == 0
        assert node.complaints() == []
    assert list(tmp_path.glob("tidelog-*")) == []


# --- what can't start ----------------------------------------------------------------------------


def refusal(
    data_dir: Path,
    *flags: str,
    environment: dict[str, str] | None = None,
    log_folder: Path | None = None,
) -> str:
    """What a node that must not start says."""
    with node_process(data_dir, *flags, environment=environment, log_folder=log_folder) as node:
        assert node.exit_code() == 1
        assert node.output == ""
        assert "Traceback" not in node.log
        (said,) = node.complaints()
        assert said.startswith("tidelog up: ")
        return said


def test_a_second_process_on_a_data_directory_is_refused(data_dir: Path) -> None:
    with running_node(data_dir) as node:
        said = refusal(data_dir)
        assert f"process {node.pid}" in said
        assert "data directory" in said
        assert asyncio.run(values_or_none(node.bootstrap)) is None


async def values_or_none(address: str) -> None:
    """The first process serves on."""
    async with Client(address) as client:
        await client.create("orders")
        assert not (await client.produce("orders", batch())).HasField("error")


@pytest.mark.parametrize(
    ("flag", "setting"),
    [
        ("--port", "listeners"),
        ("--internal-port", "internal.port"),
        ("--metrics-port", "metrics.port"),
    ],
)
def test_a_busy_port_is_refused(data_dir: Path, flag: str, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = str(holder.getsockname()[1])
        said = refusal(data_dir, flag, port)
    assert f"127.0.0.1:{port}" in said
    assert f"set {setting}, or 0 for any free one" in said
    assert not data_dir.exists()
    with running_node(data_dir) as node:
        node.terminate()
        assert node.exit_code() == 0


def test_a_busy_port_is_refused_before_the_stores_are_opened(data_dir: Path) -> None:
    data_dir.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as holder:
        refusal(data_dir, "--metrics-port", str(holder.getsockname()[1]))
    assert [path.name for path in data_dir.iterdir()] == [NODE_LOCK]


def test_who_holds_the_directory_is_told_before_who_holds_the_port(data_dir: Path) -> None:
    with running_node(data_dir) as node:
        said = refusal(data_dir, "--port", node.bootstrap.rpartition(":")[2])
        assert f"process {node.pid}" in said


def test_a_data_directory_keeps_the_number_of_its_node(data_dir: Path) -> None:
    """Under another one it would find nothing of what it holds."""
    with running_node(data_dir, "--config", "node.id=3"):
        pass
    said = refusal(data_dir, "--config", "node.id=7")
    assert "is that of broker 3, not of node.id=7" in said
    assert "Start it with node.id=3" in said
    with running_node(data_dir, "--config", "node.id=3"):
        pass


def test_an_unknown_key_is_refused_with_the_nearest(data_dir: Path) -> None:
    said = refusal(data_dir, "--config", "flush.polcy=os")
    assert "flush.polcy" in said
    assert "Did you mean 'flush.policy'?" in said
    assert not data_dir.exists(), "nothing is touched before the configuration is understood"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("flush.policy=sometimes", ("flush.policy", "sometimes", "commit")),
        ("node.id=first", ("node.id", "first")),
        ("flush.ms=-1", ("flush.ms", "-1")),
        ("advertised.listeners=nonsense", ("advertised.listeners", "nonsense", "host:port")),
        ("compression.type=gzip", ("compression.type", "gzip", "producer")),
        ("nonsense", ("nonsense", "KEY=VALUE")),
        ("message.max.bytes=120 MiB", ("message.max.bytes", "socket.request.max.bytes")),
    ],
)
def test_a_bad_value_is_refused(data_dir: Path, setting: str, words: tuple[str, ...]) -> None:
    said = refusal(data_dir, "--config", setting)
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize("host", ["\udcff", "a" * 64, "a..b", "a b", "[::1", "localhost:9094"])
def test_a_host_that_can_be_none_is_refused(data_dir: Path, host: str) -> None:
    said = refusal(data_dir, "--host", host)
    assert "'listeners' in flag --host" in said
    assert "Accepted: host:port" in said
    assert not data_dir.exists()


def test_bad_variables_are_refused(data_dir: Path) -> None:
    said = refusal(data_dir, environment={"TIDELOG_FLUSH_POLCY": "os"})
    assert "TIDELOG_FLUSH_POLCY" in said
    assert "TIDELOG_FLUSH_POLICY" in said
    said = refusal(data_dir, environment={"TIDELOG_FLUSH_POLICY": "never"})
    assert "TIDELOG_FLUSH_POLICY" in said


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("node.properties", b"flush.policy", ("node.properties", "line 1", "key=value")),
        ("node.properties", b"\xff\xfe", ("node.properties",)),
        ("node.toml", b"flush.policy = [", ("node.toml", "TOML")),
        ("node.toml", b"flush.policy = 3.5", ("node.toml", "flush.policy")),
        ("node.properties", b"a=b", ("a", "node.properties", "line 1")),
    ],
)
def test_a_bad_file_is_refused(
    tmp_path: Path, data_dir: Path, name: str, content: bytes, words: tuple[str, ...]
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    said = refusal(data_dir, "--config-file", str(file))
    assert [word for word in words if word not in said] == []


def test_a_missing_file_is_refused(tmp_path: Path, data_dir: Path) -> None:
    assert "gone.toml" in refusal(data_dir, "--config-file", str(tmp_path / "gone.toml"))


def test_a_data_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    said = refusal(file / "data", log_folder=tmp_path / "log")
    assert str(file) in said


@pytest.mark.parametrize("content", [b"", b"x", b"nonsense" * 100])
def test_a_damaged_identity_is_refused(data_dir: Path, content: bytes) -> None:
    with running_node(data_dir) as node:
        node.terminate()
        node.exit_code()
    (data_dir / "identity").write_bytes(content)
    said = refusal(data_dir)
    assert "identity" in said
    assert "Restore the file from a copy" in said


def metadata_file(data_dir: Path) -> Path:
    """The file of the embedded metadata store."""
    return data_dir / "metadata" / "store.log"


@pytest.mark.parametrize("content", [b"", b"x", b"nonsense" * 1_000])
def test_a_damaged_metadata_store_is_refused(data_dir: Path, content: bytes) -> None:
    with running_node(data_dir) as node:
        node.terminate()
        node.exit_code()
    file = metadata_file(data_dir)
    file.write_bytes(content)
    said = refusal(data_dir)
    assert file.name in said
    assert file.read_bytes() == content, "what may still be of use is left as it is"


def test_flipped_bytes_in_the_metadata_store_are_refused(data_dir: Path) -> None:
    with running_node(data_dir) as node:
        asyncio.run(values_or_none(node.bootstrap))
        node.terminate()
        node.exit_code()
    file = metadata_file(data_dir)
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0xFF
    file.write_bytes(content)
    assert file.name in refusal(data_dir)


def test_a_node_whose_flags_are_wrong_shows_how_to_call_it(data_dir: Path) -> None:
    with node_process(data_dir, "--no-such-flag") as node:
        assert node.exit_code() == 2
        (said,) = node.complaints()
        assert "there is no flag --no-such-flag" in said
        assert "`tidelog up --help`" in said


#: A node whose controller meets an error that nobody has foreseen.
FAILING_CONTROLLER = """
import sys
from unittest import mock
import tidelog_controller.controller as controller
from tidelog.cli import main
unforeseen = ZeroDivisionError("unforeseen")
mock.patch.object(controller, "plan_cluster_id", side_effect=unforeseen).start()
sys.exit(main(["up", *sys.argv[1:]]))
"""


def test_a_start_whose_controller_fails_ends_with_its_cause(data_dir: Path) -> None:
    with node_process(data_dir, entry=("-c", FAILING_CONTROLLER)) as node:
        assert node.exit_code() == 1
        assert node.output == ""
        (said,) = [line for line in node.log_lines() if line.startswith("tidelog up: ")]
        assert "ZeroDivisionError('unforeseen')" in said
        assert "a background task failed" in node.log


def test_another_node_may_take_over_as_soon_as_the_first_is_gone(data_dir: Path) -> None:
    for _ in range(3):
        with running_node(data_dir) as node:
            node.kill()
            eventually(lambda node=node: node.has_ended, waiting_for="the process to end")  # type: ignore[misc]


def test_a_stop_waits_for_a_checkpoint_that_is_under_way(data_dir: Path) -> None:
    writing = threading.Event()
    written: list[str] = []

    class SlowCheckpoints(LocalDisk):
        def replace(self, path: str, content: bytes) -> None:
            in_thread = threading.current_thread() is not threading.main_thread()
            if path == names.WATERMARKS and in_thread and not written:
                writing.set()
                threading.Event().wait(SLOW_S)
                written.append("checkpoint")
            elif path == names.WATERMARKS and not in_thread and writing.is_set():
                written.append("last checkpoint")
            super().replace(path, content)

    async def scenario(node: LiveNode) -> None:
        await asyncio.to_thread(writing.wait)
        await node.restart()
        assert written[:2] == ["checkpoint", "last checkpoint"]

    run_on_node(
        data_dir,
        scenario,
        make_disk=SlowCheckpoints,
        replica_high_watermark_checkpoint_interval_ms="1",
    )


def test_a_node_whose_data_directory_is_removed_says_so_and_ends(data_dir: Path) -> None:
    with running_node(data_dir) as node:
        asyncio.run(produce_one(node.bootstrap))
        shutil.rmtree(data_dir)
        eventually(lambda: node.has_ended, waiting_for="the node to end")
        assert node.exit_code() == 1
        assert "it was removed, or another was put in its place" in node.log


async def produce_one(address: str) -> None:
    async with Client(address) as client:
        assert not (await client.produce("orders", batch(b"x"))).HasField("error")
