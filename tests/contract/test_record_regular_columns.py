"""Batches of records of one layout, which are read by their runs: the same as the general way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from unittest import mock

import pytest

from support.record_twins import Twin
from tidelog.errors import CorruptMessage

pa = pytest.importorskip("pyarrow")

NOW: Final = 1_700_000_000_000
COLUMNS: Final = ("key", "value", "offset", "timestamp", "timestamp_type", "headers")


def batch_of(
    codec: Twin, count: int, *, step_ms: int = 0, keys: Sequence[bytes | None] = (None,)
) -> bytes:
    """Records of one layout, as far as the growing numbers of these let them be."""
    builder = codec.builder.BatchBuilder(1 << 22)
    for number in range(count):
        key, value = keys[number % len(keys)], b"%08d" % number
        assert builder.append(value, key, (), NOW + number * step_ms)
    built: bytes = builder.build()
    return built


def outcome(codec: Twin, batch: bytes, **options: Any) -> object:
    """The columns, or that the batch is malformed."""
    try:
        found = codec.columns.decode_columns(batch, columns=COLUMNS, check_crc=False, **options)
    except CorruptMessage:
        return None
    found.validate(full=True)
    return found.to_pydict()


def assert_both_ways_agree(codec: Twin, batch: bytes, **options: Any) -> object:
    with mock.patch.object(codec.column_decoder, "regular_block", return_value=None):
        general = outcome(codec, batch, **options)
    assert outcome(codec, batch, **options) == general
    return general


def is_regular(codec: Twin, batch: bytes) -> bool:
    """Whether the batch is read by its runs."""
    source = codec.source.BatchSource("t", 0, start_offset=0, limit_bytes=1, check_crc=False)
    body = source.body(batch, 0, source.header(batch, 0))
    record_starts = codec.column_decoder._record_starts
    return codec.column_decoder.regular_block([body], record_starts) is not None


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 300, 8_191, 8_192, 8_200, 9_000])
@pytest.mark.parametrize("step_ms", [0, 1])
@pytest.mark.parametrize("keys", [(None,), (b"key",), (b"one", b"two")])
def test_regular_batches(
    codec: Twin, count: int, step_ms: int, keys: Sequence[bytes | None]
) -> None:
    batch = batch_of(codec, count, step_ms=step_ms, keys=keys)
    # A time that takes three bytes and is not the same everywhere is left to the general way.
    assert is_regular(codec, batch) == (not step_ms or count <= 8_192)
    rows = assert_both_ways_agree(codec, batch)
    assert isinstance(rows, dict)
    assert rows["value"] == [b"%08d" % number for number in range(count)]
    assert_both_ways_agree(codec, batch, start_offset=count // 3, end_offset=count - 1)


@pytest.mark.parametrize("keys", [(None, b"key"), (b"short", b"longer"), (b"", None)])
def test_other_batches(codec: Twin, keys: Sequence[bytes | None]) -> None:
    batch = batch_of(codec, 500, keys=keys)
    assert not is_regular(codec, batch)
    assert assert_both_ways_agree(codec, batch) is not None


def test_the_brokers_time(codec: Twin) -> None:
    batch = batch_of(codec, 200, step_ms=1)
    header = codec.batch.read_header(batch)
    stamped = codec.batch.with_log_append_time(batch, header, NOW + 500) + batch[61:]
    assert is_regular(codec, stamped)
    assert assert_both_ways_agree(codec, stamped) is not None


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_is_read_by_runs(codec: Twin, name: str) -> None:
    batch = batch_of(codec, 200, step_ms=1, keys=(b"key",))
    with mock.patch.object(codec.column_decoder, "Block", side_effect=AssertionError):
        rows = codec.columns.decode_columns(batch, columns=(name,))
    assert rows.num_rows == 200


def several(codec: Twin, *batches: bytes) -> bytes:
    """The batches behind each other, as a log holds them, with a gap before the last one."""
    placed: list[bytes] = []
    offset = 7
    for batch in batches:
        header = codec.batch.read_header(batch)
        offset += 5 if len(placed) == len(batches) - 1 else 0
        placed.append(offset.to_bytes(8, "big") + batch[8:])
        offset += header.record_count
    return b"".join(placed)


@pytest.mark.parametrize("gzipped", [False, True])
def test_several_batches(codec: Twin, gzipped: bool) -> None:
    compression = codec.compression.Compression.GZIP if gzipped else None
    options = {"compression": compression} if compression else {}
    whole = [
        codec.columns.encode_columns(
            [b"%08d" % (number + place * 1_000) for number in range(300 + place)],
            key=[b"key"] * (300 + place),
            timestamp=NOW + place,
            **options,
        )
        for place in range(3)
    ]
    batches = several(codec, *(batch for made in whole for batch in made))
    with mock.patch.object(codec.column_decoder, "Block", side_effect=AssertionError):
        rows = outcome(codec, batches)
    assert isinstance(rows, dict)
    assert rows == assert_both_ways_agree(codec, batches)
    assert rows["offset"] == [*range(7, 608), *range(613, 915)]
    assert rows["value"][300] == b"00001000"
    for start, end in ((7, 915), (8, 915), (7, 914), (400, 500), (300, 307), (610, 612)):
        assert_both_ways_agree(codec, batches, start_offset=start, end_offset=end)


@pytest.mark.parametrize("other", [{"key": None}, {"key": [b"other"] * 300}])
def test_several_batches_of_different_layouts(codec: Twin, other: dict[str, Any]) -> None:
    values = [b"%08d" % number for number in range(300)]
    (first,) = codec.columns.encode_columns(values, key=[b"key"] * 300, timestamp=NOW)
    (second,) = codec.columns.encode_columns(values, timestamp=NOW, **other)
    rows = assert_both_ways_agree(codec, several(codec, first, second))
    assert isinstance(rows, dict)
    assert rows["value"] == values * 2


def test_the_second_batch_is_broken(codec: Twin) -> None:
    good = batch_of(codec, 300)
    for position in (61, 62, 65, 70, len(good) - 1):
        bad = bytearray(good)
        bad[position] ^= 1
        assert_both_ways_agree(codec, several(codec, good, bytes(bad), good))


def test_whatever_byte_is_wrong(codec: Twin) -> None:
    batch = batch_of(codec, 70, step_ms=1, keys=(b"k",))
    assert is_regular(codec, batch)
    for position in range(61, len(batch)):
        for wrong in (1, 64, 128):
            broken = bytearray(batch)
            broken[position] ^= wrong
            assert_both_ways_agree(codec, bytes(broken))


def test_offsets_with_gaps_before_between_and_behind(codec: Twin) -> None:
    batch = bytearray(batch_of(codec, 40))
    batch[23:27] = (45).to_bytes(4, "big")
    assert not is_regular(codec, bytes(batch))
    assert assert_both_ways_agree(codec, bytes(batch)) is not None


def test_runs_of_different_layouts(codec: Twin) -> None:
    builder = codec.builder.BatchBuilder(1 << 22)
    for number in range(128):
        assert builder.append(b"value" if number < 64 else b"longer value", None, (), NOW)
    batch = builder.build()
    assert not is_regular(codec, batch)
    rows = assert_both_ways_agree(codec, batch)
    assert isinstance(rows, dict)
    assert rows["value"] == [b"value"] * 64 + [b"longer value"] * 64


def test_numbers_that_end_with_their_records_are_malformed(codec: Twin) -> None:
    short, count = b"\x04\x00\x80", 17
    long = b"\xd0\x0f" + bytes(1000)
    body = short * (count - 1) + long
    header = bytearray(batch_of(codec, count)[:61])
    header[8:12] = (49 + len(body)).to_bytes(4, "big")
    batch = bytes(header) + body
    assert outcome(codec, batch) is None
    with pytest.raises(CorruptMessage):
        codec.decoder.decode_records(batch, "t", 0, check_crc=False)
