"""The `tidelog` command as people run it: processes, pipes, signals, and what it imports."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.eventually import eventually
from support.hang_guard import HANG_S, read_line, start
from tidelog import Producer
from tidelog.cli.command import known_verbs
from tidelog.errors import UnknownTopic
from tidelog_node.testing import InProcessCluster

TIDELOG = str(Path(sys.executable).parent / "tidelog")
#: What takes time to import; help must do without.
HEAVY = ("grpc", "google.protobuf", "asyncio", "numpy", "pyarrow", "tidelog_node.node")


def run(*words: str, lines: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Runs the command to its end."""
    return subprocess.run(
        [TIDELOG, *words], input=lines, capture_output=True, check=False, timeout=HANG_S
    )


@pytest.fixture(autouse=True)
def _forget_calls() -> Iterator[None]:
    """An error that was caught keeps its call, and so a thread of grpc's, until it is collected."""
    yield
    gc.collect()


@pytest.fixture
def consumer(tidelog_cluster: InProcessCluster) -> Iterator[subprocess.Popen[bytes]]:
    """A console consumer that has printed its first record and waits for more."""
    server = ("--bootstrap-server", tidelog_cluster.address)
    assert run("console-producer", *server, "--topic", "orders", lines=b"one\n").returncode == 0
    with start("console-consumer", *server, "--topic", "orders", "--from-beginning") as process:
        try:
            assert read_line(process) == b"one\n"
            yield process
        finally:
            process.kill()


def test_the_first_steps(tidelog_cluster: InProcessCluster) -> None:
    server = ("--bootstrap-server", tidelog_cluster.address)
    produced = run("console-producer", *server, "--topic", "greetings", lines=b"hello\n")
    assert (produced.returncode, produced.stdout, produced.stderr) == (0, b"", b"")
    limit = ("--from-beginning", "--max-messages", "1")
    consumed = run("console-consumer", *server, "--topic", "greetings", *limit)
    assert (consumed.returncode, consumed.stdout) == (0, b"hello\n")
    assert consumed.stderr == b"Processed a total of 1 messages\n"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_consumer_that_is_told_to_stop(
    consumer: subprocess.Popen[bytes], number: signal.Signals, code: int
) -> None:
    consumer.send_signal(number)
    out, err = consumer.communicate(timeout=HANG_S)
    assert (consumer.returncode, out) == (code, b"")
    assert err == b"Processed a total of 1 messages\n"


def test_a_consumer_that_is_told_to_stop_by_timeout(consumer: subprocess.Popen[bytes]) -> None:
    """`timeout` tells its child and then its group, the child among it: two signals at once."""
    consumer.send_signal(signal.SIGTERM)
    consumer.send_signal(signal.SIGTERM)
    out, err = consumer.communicate(timeout=HANG_S)
    assert (abs(consumer.returncode) % 128, out) == (signal.SIGTERM, b"")
    assert err == b"Processed a total of 1 messages\n"


def test_a_consumer_waits_for_more(
    consumer: subprocess.Popen[bytes], tidelog_cluster: InProcessCluster
) -> None:
    server = ("--bootstrap-server", tidelog_cluster.address)
    run("console-producer", *server, "--topic", "orders", lines=b"two\n")
    assert read_line(consumer) == b"two\n"


def test_a_consumer_outlives_a_restart_of_the_broker(
    consumer: subprocess.Popen[bytes], tidelog_cluster: InProcessCluster
) -> None:
    tidelog_cluster.restart()
    server = ("--bootstrap-server", tidelog_cluster.address)
    assert run("console-producer", *server, "--topic", "orders", lines=b"two\n").returncode == 0
    assert read_line(consumer) == b"two\n"


def test_a_closed_pipe_ends_quietly(tidelog_cluster: InProcessCluster) -> None:
    server = ("--bootstrap-server", tidelog_cluster.address)
    lines = b"".join(b"%d\n" % number for number in range(100_000))
    run("console-producer", *server, "--topic", "orders", lines=lines)
    command = [TIDELOG, "console-consumer", *server, "--topic", "orders", "--from-beginning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait() == 1
    assert said.startswith(b"Processed a total of ")
    assert said.count(b"\n") == 1


@pytest.mark.parametrize(
    ("closed", "words"),
    [
        ("<&-", ["console-producer", "--topic", "orders"]),
        (">&-", ["console-consumer", "--topic", "orders", "--from-beginning", "--max-messages=1"]),
        (">&-", ["topics", "--list"]),
        ("2>&-", ["console-consumer", "--topic", "orders", "--from-beginning", "--max-messages=1"]),
        ("<&- >&- 2>&-", ["topics", "--list"]),
    ],
)
def test_a_stream_that_was_closed_before_it_began(
    tidelog_cluster: InProcessCluster, closed: str, words: list[str]
) -> None:
    with Producer(tidelog_cluster.address) as producer:
        producer.send("orders", b"one")
    server = ["--bootstrap-server", tidelog_cluster.address]
    shell = ["sh", "-c", f'"$@" {closed}', "sh", TIDELOG, *words, *server]
    seen = subprocess.run(shell, capture_output=True, check=False, timeout=HANG_S)
    assert seen.returncode == 0, seen.stderr
    assert b"Traceback" not in seen.stderr
    assert seen.stdout in {b"", b"one\n"}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux alone shows descriptors")
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_the_number_of_a_closed_stream_goes_to_nothing_else(
    tidelog_cluster: InProcessCluster, closed: tuple[int, ...]
) -> None:
    """Whatever had it would be written into: a connection, or the file of somebody's records."""
    verb = ["console-consumer", "--from-beginning"] if 0 in closed else ["console-producer"]
    server = ["--bootstrap-server", tidelog_cluster.address]
    shut = " ".join(f"{number}>&-" for number in closed)
    shell = ["sh", "-c", f'exec "$@" {shut}', "sh", TIDELOG, *verb, "--topic", "orders", *server]
    with Producer(tidelog_cluster.address) as producer:
        producer.send("orders", b"one")
    with subprocess.Popen(
        shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            if 0 in closed:
                assert read_line(process) == b"one\n"
            else:
                assert process.stdin is not None
                process.stdin.write(b"two\n")
                process.stdin.flush()
                eventually(lambda: len(_values(tidelog_cluster)) == 2, waiting_for="the record")
            leads_to = [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in closed]
            facts = [Path(f"/proc/{process.pid}/fdinfo/{number}").read_text() for number in closed]
        finally:
            process.kill()
    assert leads_to == [os.devnull] * len(closed)
    flags = [int(fact.split("flags:")[1].split()[0], 8) for fact in facts]
    assert not any(flag & os.O_CLOEXEC for flag in flags), "children have it as well"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no file here is full by nature")
@pytest.mark.parametrize(
    "words",
    [
        ["console-consumer", "--topic", "orders", "--from-beginning", "--max-messages=1"],
        ["topics", "--list"],
        ["get-offsets"],
        ["consumer-perf-test", "--topic=orders", "--num-records=1", "--timeout=1000"],
        [
            "producer-perf-test",
            "--topic=orders",
            "--num-records=1",
            "--record-size=1",
            "--throughput=-1",
        ],
        ["doctor"],
        ["--help"],
        ["topics", "--help"],
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_at_the_output_is_said(
    tidelog_cluster: InProcessCluster, words: list[str], unbuffered: str
) -> None:
    with Producer(tidelog_cluster.address) as producer:
        producer.send("orders", b"one")
    server = [] if "--help" in words else ["--bootstrap-server", tidelog_cluster.address]
    with Path("/dev/full").open("wb") as output:
        seen = subprocess.run(
            [TIDELOG, *words, *server],
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
            timeout=HANG_S,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    said = b"tidelog %b: the output could not be written: No space left on device\n"
    assert seen.stderr.endswith(said % words[0].encode()), seen.stderr
    assert (seen.returncode, b"Traceback" in seen.stderr) == (1, False)


def test_a_producer_sends_while_it_reads(tidelog_cluster: InProcessCluster) -> None:
    """Lines are records when they come, not when the input ends."""
    server = ("--bootstrap-server", tidelog_cluster.address)
    command = [TIDELOG, "console-producer", *server, "--topic", "orders"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        eventually(lambda: _values(tidelog_cluster) == [b"one"], waiting_for="the record")
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_producer_that_is_told_to_end_sends_what_it_has_read(
    tidelog_cluster: InProcessCluster, number: signal.Signals, code: int
) -> None:
    """The records linger for an hour: nothing but the end can have sent them."""
    server = ("--bootstrap-server", tidelog_cluster.address)
    assert run("topics", *server, "--create", "--topic", "orders").returncode == 0
    words = ("console-producer", *server, "--topic", "orders", "--timeout", "3600000")
    terminal, theirs = open_terminal()
    with start(*words, stdin=theirs) as process:
        os.close(theirs)
        assert process.stdout is not None
        for line in (b"one\n", b"two\n"):
            assert process.stdout.read(1) == b">"
            os.write(terminal, line)
        assert process.stdout.read(1) == b">", "both lines are accepted"
        process.send_signal(number)
        out, err = process.communicate(timeout=HANG_S)
    os.close(terminal)
    assert (process.returncode, out, err) == (code, b"", b"")
    assert _values(tidelog_cluster) == [b"one", b"two"]


def open_terminal() -> tuple[int, int]:
    """Both ends of a terminal; a bare root folder without /dev/pts has none."""
    try:
        return os.openpty()
    except OSError as error:
        pytest.skip(f"no terminal can be had here: {error}")


def test_a_refusal_gives_no_advice_for_programs(tidelog_cluster: InProcessCluster) -> None:
    server = ("--bootstrap-server", tidelog_cluster.address)
    words = ("--create", "--topic", "orders", "--config", "max.message.bytes=100")
    assert run("topics", *server, *words).returncode == 0
    seen = run("console-producer", *server, "--topic", "orders", lines=b"x" * 200 + b"\n")
    assert seen.returncode == 1
    assert seen.stderr.startswith(b"tidelog console-producer: 1 record was not acknowledged")
    assert b"on_delivery" not in seen.stderr


def test_somebody_who_types_is_prompted_and_told(tidelog_cluster: InProcessCluster) -> None:
    server = ("--bootstrap-server", tidelog_cluster.address)
    command = [TIDELOG, "console-producer", *server, "--topic", "orders"]
    command += ["--producer-property", "max.block.ms=10000"]
    terminal, theirs = open_terminal()
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        os.close(theirs)
        assert process.stdout is not None
        assert process.stdout.read(1) == b">"
        os.write(terminal, b"one\n")
        assert process.stdout.read(1) == b">"
        eventually(lambda: _values(tidelog_cluster) == [b"one"], waiting_for="the record")
        os.write(terminal, b"\x04")
        out, err = process.communicate(timeout=HANG_S)
    os.close(terminal)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_somebody_who_types_is_told_of_a_refusal(tidelog_cluster: InProcessCluster) -> None:
    server = ("--bootstrap-server", tidelog_cluster.address)
    words = ("--create", "--topic", "orders", "--config", "max.message.bytes=100")
    assert run("topics", *server, *words).returncode == 0
    command = [TIDELOG, "console-producer", *server, "--topic", "orders"]
    terminal, theirs = open_terminal()
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        os.close(theirs)
        assert process.stderr is not None
        os.write(terminal, b"x" * 200 + b"\n")
        said = process.stderr.readline()
        os.write(terminal, b"\x04")
        process.communicate()
    os.close(terminal)
    assert said.startswith(b"not sent: ")
    assert b"max.message.bytes" in said
    assert process.returncode == 1


def _values(cluster: InProcessCluster) -> list[bytes | None]:
    try:
        return [record.value for record in cluster.records("orders")]
    except UnknownTopic:
        return []


@pytest.mark.parametrize("verb", known_verbs())
def test_help_imports_nothing_heavy(verb: str) -> None:
    program = (
        "import sys; from tidelog.cli import main; main(sys.argv[1:]);"
        f" print(*(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)"
    )
    seen = subprocess.run(
        [sys.executable, "-c", program, verb, "--help"], capture_output=True, check=True
    )
    assert seen.stderr.split() == []


@pytest.mark.parametrize("is_on_path", [True, False])
def test_what_tidelog_up_says_to_try_works(tmp_path: Path, is_on_path: bool) -> None:
    command = [TIDELOG, "up", "--data-dir", str(tmp_path / "data"), "--port", "0"]
    command += ["--metrics-port", "0", "--internal-port", "0"]
    folder = f"{Path(TIDELOG).parent}{os.pathsep}" if is_on_path else ""
    in_shell = os.environ | {"PATH": f"{folder}/usr/bin{os.pathsep}/bin"}
    environment = in_shell | {"TIDELOG_LOG_LEVEL": "WARNING"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as node:
        assert node.stdout is not None
        banner = b"".join(node.stdout.readline() for _ in range(5)).decode()
        try:
            produce, consume = _suggestions(banner, "tidelog" if is_on_path else TIDELOG)
            sent = subprocess.run(["/bin/sh", "-c", produce], check=False, env=in_shell)
            assert sent.returncode == 0
            limited = f"{consume} --max-messages 1"
            got = subprocess.run(
                ["/bin/sh", "-c", limited], check=True, capture_output=True, env=in_shell
            )
            assert got.stdout == b"hello\n"
        finally:
            node.terminate()


def _suggestions(banner: str, program: str) -> tuple[str, str]:
    lines = [line.strip() for line in banner.splitlines()]
    (first,) = [line.removeprefix("try").strip() for line in lines if line.startswith("try")]
    (second,) = [line for line in lines if line.startswith(f"{program} console-consumer")]
    return first, second


def test_json_of_a_process(tidelog_cluster: InProcessCluster) -> None:
    server = ("--bootstrap-server", tidelog_cluster.address)
    run("topics", *server, "--create", "--topic", "orders")
    assert json.loads(run("topics", *server, "--list", "--json").stdout) == ["orders"]
