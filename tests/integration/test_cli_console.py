"""Lines in by `console-producer`, lines out by `console-consumer`, against a running node."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.client import Client
from tidelog.cli import main
from tidelog.records.batch import CHECKED_POSITION, CRC, CRC_POSITION, HEADER_BYTES
from tidelog.records.builder import BatchBuilder
from tidelog.records.crc import crc32c
from tidelog_node.testing import InProcessCluster


class Console:
    """Both tools on one cluster."""

    def __init__(
        self,
        cluster: InProcessCluster,
        capture: pytest.CaptureFixture[bytes],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self._server = ("--bootstrap-server", cluster.address)
        self._capture = capture
        self._monkeypatch = monkeypatch

    def produce(self, lines: bytes, *words: str, topic: str = "orders") -> tuple[int, str]:
        """Sends lines: the exit code, and what went to stderr."""
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
        code = main(["console-producer", *self._server, "--topic", topic, *words])
        said = self._capture.readouterr()
        assert said.out == b""
        return code, said.err.decode()

    def consume(self, *words: str) -> tuple[int, bytes, str]:
        """Prints records: the exit code, the output, and what went to stderr."""
        code = main(["console-consumer", *self._server, *words])
        said = self._capture.readouterr()
        return code, said.out, said.err.decode()

    def all_of(self, count: int, *words: str) -> bytes:
        """The first records of the topic, printed."""
        limit = ("--topic", "orders", "--from-beginning", "--max-messages", str(count))
        code, out, err = self.consume(*limit, *words)
        assert (code, err) == (0, f"Processed a total of {count} messages\n")
        return out


@pytest.fixture(autouse=True)
def _forget_calls() -> Iterator[None]:
    """An error that was caught keeps its call, and so a thread of grpc's, until it is collected."""
    yield
    gc.collect()


@pytest.fixture
def console(
    tidelog_cluster: InProcessCluster,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> Console:
    """Both tools on a cluster of this test's own."""
    return Console(tidelog_cluster, capsysbinary, monkeypatch)


def test_lines_come_back(console: Console) -> None:
    assert console.produce(b"one\ntwo\r\n\nfour") == (0, "")
    assert console.all_of(4) == b"one\ntwo\n\nfour\n"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression(console: Console, codec: str) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(5_000))
    assert console.produce(lines, "--compression-codec", codec) == (0, "")
    assert console.all_of(5_000) == lines


def test_a_codec_that_is_not_named_is_gzip(
    console: Console, tidelog_cluster: InProcessCluster, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert console.produce(b"one\n", "--compression-codec") == (0, "")
    tidelog_cluster.stop()
    assert main(["dump-log", "--files", str(tidelog_cluster.data_dir / "topics")]) == 0
    assert b"compresscodec: gzip" in capsysbinary.readouterr().out


def test_keys_headers_and_nothing(console: Console) -> None:
    reading = ("parse.key=true", "parse.headers=true", "key.separator=:", "null.marker=NIL")
    words = [word for property in reading for word in ("--reader-property", property)]
    lines = b"h1:a,h2:NIL\tk1:v1\nNIL\tNIL:NIL\n"
    assert console.produce(lines, *words, "--sync") == (0, "")
    printing = ("print.key=true", "print.headers=true", "print.offset=true", "key.separator=|")
    shown = [word for property in printing for word in ("--formatter-property", property)]
    assert console.all_of(2, *shown) == (
        b"Offset:0|h1:a,h2:null|k1|v1\nOffset:1|NO_HEADERS|null|null\n"
    )


def test_old_spellings(console: Console, tmp_path: Path) -> None:
    (tmp_path / "producer").write_text("linger.ms=0\n")
    (tmp_path / "reader").write_text("parse.key=true\nkey.separator=\\t\n")
    (tmp_path / "formatter").write_text("print.key=true\nkey.separator=\\t\n")
    words = ["--producer.config", str(tmp_path / "producer"), "--producer-property", "acks=1"]
    words += ["--reader-config", str(tmp_path / "reader"), "--property", "null.marker=-"]
    assert console.produce(b"k\t-\n", *words) == (0, "")
    words = ["--consumer-property", "fetch.max.wait.ms=100", "--property", "null.literal=0"]
    words += ["--formatter-config", str(tmp_path / "formatter")]
    assert console.all_of(1, *words) == b"k\t0\n"


def test_flags_become_settings(console: Console) -> None:
    words = ["--batch-size", "100", "--timeout", "1", "--max-block-ms", "5000"]
    words += ["--max-memory-bytes", "100000", "--request-required-acks", "-1"]
    words += ["--request-timeout-ms", "1500", "--metadata-expiry-ms", "1000"]
    assert console.produce(b"one\n", *words) == (0, "")
    code, err = console.produce(b"two\n", "--message-send-max-retries", "3")
    assert code == 0
    assert err.startswith("retries has no effect here: ")
    assert console.all_of(2) == b"one\ntwo\n"


def test_a_line_that_cannot_be_read_stops(
    console: Console, tidelog_cluster: InProcessCluster
) -> None:
    code, err = console.produce(b"k\tv\nbroken\nl\tw\n", "--property", "parse.key=true")
    assert code == 1
    assert err.startswith(
        "tidelog console-producer: No key separator found on line number 2: 'broken'. "
    )
    assert [record.key for record in tidelog_cluster.records("orders")] == [b"k"]


def test_a_refused_record_fails_the_verb(console: Console) -> None:
    code, err = console.produce(b"x" * 2_000_000 + b"\n")
    assert code == 1
    assert "max.message.bytes" in err


def test_json(console: Console) -> None:
    console.produce(b"one\n")
    (shown,) = map(json.loads, console.all_of(1, "--json").splitlines())
    assert (shown["topic"], shown["offset"], shown["value"]) == ("orders", 0, "one")


def test_it_stops_when_nothing_comes(console: Console) -> None:
    console.produce(b"one\n")
    words = ("--topic", "orders", "--from-beginning", "--timeout-ms", "100")
    assert console.consume(*words) == (
        0,
        b"one\n",
        "No record came within 100 ms\nProcessed a total of 1 messages\n",
    )


@pytest.mark.parametrize(
    ("offset", "printed"),
    [("2", b"three\n"), ("earliest", b"one\ntwo\nthree\n"), ("latest", b"")],
)
def test_an_offset_of_a_partition(console: Console, offset: str, printed: bytes) -> None:
    console.produce(b"one\ntwo\nthree\n")
    words = ("--topic", "orders", "--partition", "0", "--offset", offset, "--timeout-ms", "100")
    assert console.consume(*words)[:2] == (0, printed)


def test_without_a_place_it_begins_at_the_end(console: Console) -> None:
    console.produce(b"one\n")
    assert console.consume("--topic", "orders", "--timeout-ms", "100")[1] == b""
    words = ("--consumer-property", "auto.offset.reset=earliest")
    assert console.consume("--topic", "orders", "--timeout-ms", "100", *words)[1] == b"one\n"


def test_several_topics(console: Console) -> None:
    for topic in ("orders-eu", "orders-us", "payments"):
        console.produce(topic.encode() + b"\n", topic=topic)
    words = ("--include", "orders-.*", "--from-beginning", "--max-messages", "2")
    code, out, _ = console.consume(*words)
    assert code == 0
    assert sorted(out.splitlines()) == [b"orders-eu", b"orders-us"]


def test_the_events_of_system_tests(console: Console) -> None:
    console.produce(b"one\n")
    assert console.all_of(1, "--enable-systest-events") == b"one\nshutdown_complete\n"


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_isolation_levels(console: Console, level: str) -> None:
    console.produce(b"one\n")
    assert console.all_of(1, "--isolation-level", level) == b"one\n"


def test_what_cannot_be_deserialized_stops_or_is_skipped(console: Console) -> None:
    console.produce(b"12345678\nshort\n12345678\n")
    words = ("--topic", "orders", "--from-beginning", "--max-messages", "3")
    code, _, err = console.consume(*words, "--value-deserializer", "LongDeserializer")
    assert code == 1
    assert "The record of orders-0 at offset 1 can't be shown" in err
    skip = (*words, "--value-deserializer", "LongDeserializer", "--skip-message-on-error")
    code, out, err = console.consume(*skip)
    number = b"%d\n" % int.from_bytes(b"12345678", "big")
    assert (code, out) == (0, number * 2)
    assert "skipped: the record of orders-0 at offset 1" in err


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (("--topic", "ordres"), 1, "Topic 'ordres' does not exist. Did you mean 'orders'?"),
        (("--topic", "orders", "--partition", "7"), 1, "has no partition 7"),
        (("--include", "gone.*"), 1, "No topic matches 'gone.*'"),
        (("--include", "("), 1, "is no regular expression"),
        (("--topic", "orders", "--group", "g"), 1, "no consumer groups yet"),
        (("--topic", "orders", "--consumer-property", "group.id=g"), 1, "no consumer groups yet"),
        (("--topic", "orders", "--property", "print.keys=true"), 1, "Did you mean 'print.key'?"),
        (("--topic", "orders", "--formatter", "x.Y"), 1, "There is no formatter 'x.Y'"),
        ((), 2, "--topic or --include is missing"),
        (("--topic", "a", "--include", "b"), 2, "--topic and --include cannot be used together"),
        (("--topic", "a", "--offset", "1"), 2, "the partition is required when offset"),
        (("--topic", "a", "--partition", "0", "--offset", "x"), 2, "'x' is no offset"),
        (
            ("--topic", "a", "--partition", "0", "--offset", "1", "--from-beginning"),
            2,
            "--from-beginning and --offset cannot be used together",
        ),
        (
            ("--topic", "a", "--json", "--property", "print.key=true"),
            2,
            "--json and --formatter-property cannot be used together",
        ),
        (("--topic", "a", "--isolation-level", "read_comitted"), 2, "did you mean read_committed"),
    ],
)
def test_the_consumer_says_what_is_wrong(
    console: Console, words: tuple[str, ...], code: int, part: str
) -> None:
    console.produce(b"one\n")
    found, out, err = console.consume(*words)
    assert (found, out) == (code, b"")
    assert part in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (("--line-reader", "com.example.Mine"), 1, "is a class of Java"),
        (("--property", "parse.keys=true"), 1, "Did you mean 'parse.key'?"),
        (("--producer-property", "linger.mss=1"), 1, "Did you mean 'linger.ms'?"),
        (("--producer-property", "transactional.id=t"), 1, "no transactions yet"),
        (("--producer-property", "linger.ms"), 2, "is not written as KEY=VALUE"),
        (("--compression-codec", "zst"), 2, "did you mean zstd?"),
        (("--request-required-acks", "most"), 2, "it is one of -1, 0, 1, all"),
        (("--command-config", "gone.properties"), 1, "'gone.properties' can't be read"),
    ],
)
def test_the_producer_says_what_is_wrong(
    console: Console, words: tuple[str, ...], code: int, part: str
) -> None:
    found, err = console.produce(b"one\n", *words)
    assert found == code
    assert part in err
    assert err.count("\n") == 1


def test_a_wrong_topic_name_is_refused(console: Console) -> None:
    code, err = console.produce(b"one\n", topic="two words")
    assert code == 1
    assert "has characters that are not allowed" in err


@pytest.mark.parametrize("verb", ["console-producer", "console-consumer", "get-offsets"])
@pytest.mark.parametrize(
    ("address", "part"),
    [
        ("localhost", "'localhost' is no address of a broker"),
        ("localhost:99999", "'localhost:99999' is no address of a broker"),
        ("127.0.0.1:1", "None of the brokers could be reached (127.0.0.1:1)"),
        ("nowhere.invalid:9094", "None of the brokers could be reached"),
    ],
)
def test_a_wrong_address_is_told_at_once(
    capsys: pytest.CaptureFixture[str], verb: str, address: str, part: str
) -> None:
    assert main([verb, "--bootstrap-server", address, "--topic", "orders"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert part in said.err
    assert said.err.count("\n") == 1


def rubbish(value: bytes) -> bytes:
    """A batch whose checksum vouches for records that are none."""
    builder = BatchBuilder()
    builder.append(value, None, [], 1)
    batch = bytearray(builder.build())
    batch[HEADER_BYTES:] = b"\x7f" * (len(batch) - HEADER_BYTES)
    batch[CRC_POSITION:CHECKED_POSITION] = CRC.pack(crc32c(bytes(batch[CHECKED_POSITION:])))
    return bytes(batch)


def test_a_batch_that_is_rubbish_stops_or_is_skipped(
    console: Console, tidelog_cluster: InProcessCluster
) -> None:
    async def produce() -> None:
        async with Client(tidelog_cluster.address) as client:
            ack = await client.produce("orders", rubbish(b"value"))
            assert not ack.HasField("error"), ack.error

    console.produce(b"one\n")
    asyncio.run(produce())
    console.produce(b"two\n")
    words = ("--topic", "orders", "--from-beginning", "--max-messages", "2")
    code, out, err = console.consume(*words)
    assert (code, out) == (1, b"one\n")
    assert "Topic 'orders', partition 0, offsets 1 to 1" in err
    code, out, err = console.consume(*words, "--skip-message-on-error")
    assert (code, out) == (0, b"one\ntwo\n")
    assert err.startswith("skipped: Topic 'orders', partition 0, offsets 1 to 1")


def test_bytes_that_are_no_text(console: Console) -> None:
    console.produce(b"\xff\x00\xfe\n")
    assert console.all_of(1) == b"\xff\x00\xfe\n"


def test_time_stamps_are_of_now(console: Console) -> None:
    console.produce(b"one\n")
    line = console.all_of(1, "--property", "print.timestamp=true").decode()
    assert re.fullmatch(r"CreateTime:\d{13}\tone\n", line)
