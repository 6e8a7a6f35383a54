"""`dump-log` prints segments as kafka-dump-log does, and never guesses at what is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidelog.cli import main
from tidelog.cli.dump_log import LOG
from tidelog.records.batch import assigned_prefix, read_header
from tidelog.records.builder import BatchBuilder
from tidelog.records.compression import Compression

SEGMENT = "00000000000000000100.log"


def batch(base_offset: int, *values: bytes | None, codec: Compression = Compression.NONE) -> bytes:
    """A batch as it stands in a log, of leader epoch 7."""
    builder = BatchBuilder()
    for number, value in enumerate(values):
        headers: list[tuple[str, bytes | None]] = [("h", b"1"), ("g", None)] if number == 1 else []
        builder.append(value, b"k" if number else None, headers, 1_700_000_000_000 + number)
    built = bytes(builder.build(codec))
    prefix = assigned_prefix(read_header(built), base_offset, 7)
    return prefix + built[len(prefix) :]


def segment(folder: Path, *batches: bytes) -> Path:
    """A segment file."""
    file = folder / SEGMENT
    file.write_bytes(b"".join(batches))
    return file


def dumped(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    """The exit code and the lines of a dump."""
    code = main(["dump-log", *words])
    return code, capsys.readouterr().out.splitlines()


def test_batches_and_records(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = batch(100, b"one", None), batch(102, b"three")
    file = segment(tmp_path, first, second)
    code, lines = dumped(capfd, "--files", str(file), "--print-data-log")
    crcs = [read_header(one).crc for one in (first, second)]
    assert code == 0
    assert lines == [
        f"Dumping {file}",
        "Log starting offset: 100",
        "baseOffset: 100 lastOffset: 101 count: 2 baseSequence: -1 lastSequence: -1"
        " producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 7 isTransactional: false"
        " isControl: false deleteHorizonMs: OptionalLong.empty position: 0"
        f" CreateTime: 1700000000001 size: {len(first)} magic: 2 compresscodec: none"
        f" crc: {crcs[0]} isvalid: true",
        "| offset: 100 CreateTime: 1700000000000 keySize: -1 valueSize: 3 sequence: -1"
        " headerKeys: [] payload: one",
        "| offset: 101 CreateTime: 1700000000001 keySize: 1 valueSize: -1 sequence: -1"
        " headerKeys: [h,g] key: k",
        "baseOffset: 102 lastOffset: 102 count: 1 baseSequence: -1 lastSequence: -1"
        " producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 7 isTransactional: false"
        f" isControl: false deleteHorizonMs: OptionalLong.empty position: {len(first)}"
        f" CreateTime: 1700000000000 size: {len(second)} magic: 2 compresscodec: none"
        f" crc: {crcs[1]} isvalid: true",
        "| offset: 102 CreateTime: 1700000000000 keySize: -1 valueSize: 5 sequence: -1"
        " headerKeys: [] payload: three",
    ]


def test_what_is_printed_can_be_chosen(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = str(segment(tmp_path, batch(100, b"one", b"two")))
    assert len(dumped(capfd, "--files", file)[1]) == 3
    deep = dumped(capfd, "--files", file, "--deep-iteration")[1]
    assert deep[-1].endswith("sequence: -1 headerKeys: [h,g]")
    bare = dumped(capfd, "--files", file, "--print-data-log", "--skip-record-metadata")[1]
    assert bare[-2:] == ["| payload: one", "| key: k payload: two"]
    assert dumped(capfd, "--files", file, "--skip-record-metadata") == (2, [])


def test_sequences_of_an_idempotent_producer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    builder = BatchBuilder()
    for value in (b"one", b"two", b"three"):
        builder.append(value, None, [], 1)
    largest = 2**31 - 1
    built = builder.build(producer_id=5, producer_epoch=2, base_sequence=largest - 1)
    file = segment(tmp_path, bytes(built))
    lines = dumped(capfd, "--files", str(file), "--deep-iteration")[1]
    assert (
        f" baseSequence: {largest - 1} lastSequence: 0 producerId: 5 producerEpoch: 2 " in lines[2]
    )
    sequences = [line.partition("sequence: ")[2].split()[0] for line in lines[3:]]
    assert sequences == [str(largest - 1), str(largest), "0"]


@pytest.mark.parametrize("codec", list(Compression))
def test_every_compression(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], codec: Compression
) -> None:
    file = segment(tmp_path, batch(100, b"one", codec=codec))
    code, lines = dumped(capfd, "--files", str(file), "--print-data-log")
    assert code == 0
    assert f"compresscodec: {codec.name.lower()} " in lines[2]
    assert lines[3].endswith("payload: one")


def test_a_wrong_checksum_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    broken = bytearray(batch(100, b"one"))
    broken[-2] ^= 1
    file = segment(tmp_path, bytes(broken), batch(101, b"two"))
    code, lines = dumped(capfd, "--files", str(file), "--print-data-log")
    assert code == 1
    assert lines[2].endswith("isvalid: false")
    assert lines[3].endswith("isvalid: true")
    assert lines[4].endswith("payload: two")


@pytest.mark.parametrize("rest", [b"\0" * 10, b"\0" * 100, batch(101, b"two")[:-1]])
def test_a_torn_end_is_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], rest: bytes
) -> None:
    file = segment(tmp_path, batch(100, b"one"), rest)
    code, lines = dumped(capfd, "--files", str(file))
    assert code == 1
    assert lines[-1] == f"Found {len(rest)} invalid bytes at the end of {SEGMENT}"


def test_a_gap_between_offsets_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = segment(tmp_path, batch(100, b"one"), batch(105, b"two"))
    assert main(["dump-log", "--files", str(file), "--deep-iteration"]) == 0
    assert capfd.readouterr().err == (
        f"Non-consecutive offsets in {file}\n  100 is followed by 105\n"
    )


def test_it_stops_after_some_bytes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = batch(100, b"one")
    file = segment(tmp_path, first, batch(101, b"two"))
    code, lines = dumped(capfd, "--files", str(file), "--max-bytes", str(len(first)))
    assert (code, len(lines)) == (0, 3)


def test_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = segment(tmp_path, batch(100, b"one", b"\xff"))
    code, lines = dumped(capfd, "--files", str(file), "--print-data-log", "--json")
    (shown,) = map(json.loads, lines)
    assert code == 0
    assert (shown["file"], shown["base_offset"], shown["is_valid"]) == (str(file), 100, True)
    assert [record.get("value") for record in shown["records"]] == ["one", None]
    assert shown["records"][1]["value_base64"] == "/w=="


def test_a_folder_means_all_its_segments(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    segment(tmp_path, batch(100, b"one"))
    (tmp_path / "00000000000000000200.log").write_bytes(batch(200, b"two"))
    (tmp_path / "store.log").write_bytes(b"something else")
    code, lines = dumped(capfd, "--files", str(tmp_path))
    assert code == 0
    assert [line for line in lines if line.startswith("Log starting")] == [
        "Log starting offset: 100",
        "Log starting offset: 200",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gone.log", "There is no file"),
        ("00000000000000000100.index", "is no segment"),
        ("empty", "holds no segments"),
    ],
)
def test_what_is_no_segment_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "00000000000000000100.index").touch()
    assert main(["dump-log", "--files", str(tmp_path / name)]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("files", ["", ",", " , "])
def test_no_file_at_all_is_no_success(capsys: pytest.CaptureFixture[str], files: str) -> None:
    assert main(["dump-log", "--files", files]) == 1
    assert "names no file" in capsys.readouterr().err


def test_a_name_that_no_file_can_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", "--files", "x" * 300 + LOG]) == 1
    assert "can't be used: File name too long\n" in capsys.readouterr().err


def test_a_folder_that_is_named_as_a_segment_is_passed_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"{7:020}.log").mkdir()
    file = segment(tmp_path, batch(100, b"one"))
    code, lines = dumped(capfd, "--files", str(tmp_path))
    assert (code, lines[0]) == (0, f"Dumping {file}")
