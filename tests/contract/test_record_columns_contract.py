"""Columns in and out: the same rows and bytes as record by record, for both twins."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Final

import pytest

from support.kafka_codecs import SAMPLES, peer_records
from support.record_twins import Twin
from tidelog.errors import InvalidRecord, InvalidRequest, InvalidTimestamp, MessageTooLarge

pa = pytest.importorskip("pyarrow")

NOW: Final = 1_700_000_000_000
VALUES: Final = [b"abc", None, b"", b"x" * 300, b"y" * 12, b"z" * 13] * 30
TEXTS: Final = [None if value is None else value.decode() for value in VALUES]


@pytest.fixture(autouse=True)
def _all_rows_are_many(codec: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told of columns here is told of the way that many rows take."""
    monkeypatch.setattr(codec.few_rows, "FEW_ROWS", 0)


def by_record(codec: Twin, batch: bytes) -> list[dict[str, Any]]:
    """The rows that a decode record by record gives."""
    return [
        {
            "key": record.key,
            "value": record.value,
            "offset": record.offset,
            "timestamp": record.timestamp * 1000,
            "timestamp_type": record.timestamp_type,
            "headers": [{"key": name, "value": value} for name, value in record.headers],
        }
        for record in codec.decoder.decode_records(batch, "t", 0)
    ]


def by_column(codec: Twin, batch: bytes, **options: Any) -> list[dict[str, Any]]:
    """The rows that a decode by columns gives."""
    table = codec.columns.decode_columns(batch, columns=codec.columns.COLUMNS, **options)
    index = table.schema.names.index("timestamp")
    rows: list[dict[str, Any]] = table.set_column(
        index, "timestamp", table["timestamp"].cast(pa.int64())
    ).to_pylist()
    return rows


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_columns_hold_what_records_hold(codec: Twin, compression: str) -> None:
    builder = codec.builder.BatchBuilder(1 << 20)
    for sample in SAMPLES:
        assert builder.append(sample.value, sample.key, sample.headers, sample.timestamp)
    batch = builder.build(codec.compression.Compression.from_name(compression))
    assert by_column(codec, batch) == by_record(codec, batch)
    stored = b""
    for base in range(0, 10 * len(SAMPLES), len(SAMPLES)):
        header = codec.batch.read_header(batch)
        stored += codec.batch.assigned_prefix(header, base, 0) + batch[16:]
    assert by_column(codec, stored) == by_record(codec, stored)
    some = by_column(codec, stored, start_offset=200, end_offset=900)
    assert some == by_record(codec, stored)[200:900]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 600, 8_300, 16_500])
@pytest.mark.parametrize("size", [0, 5, 12, 13, 63, 64, 100])
def test_runs_of_equal_records(codec: Twin, count: int, size: int) -> None:
    values = [bytes((i % 256,)) * size for i in range(count)]
    batch = codec.columns.encode_columns(values, timestamp=NOW, limit_bytes=1 << 30)[0]
    builder = codec.builder.BatchBuilder(1 << 30)
    builder.extend(values, NOW)
    assert batch == builder.build()
    table = codec.columns.decode_columns(batch)
    assert table["value"].to_pylist() == values
    assert table["offset"].to_pylist() == list(range(count))
    assert table["key"].null_count == count


@pytest.mark.parametrize("size", [8_191, 8_192, 20_000])
def test_large_values_of_one_size(codec: Twin, size: int) -> None:
    values = [bytes((i % 256,)) * size for i in range(100)]
    batches = codec.columns.encode_columns(values[:1] + values, timestamp=NOW, limit_bytes=10**6)
    builder = codec.builder.BatchBuilder(10**6)
    builder.extend((values[:1] + values)[: codec.batch.read_header(batches[0]).record_count], NOW)
    assert batches[0] == builder.build()


def test_the_brokers_time_and_markers(codec: Twin) -> None:
    batch = codec.columns.encode_columns(VALUES, timestamp=NOW)[0]
    header = codec.batch.read_header(batch)
    stamped = codec.batch.with_log_append_time(batch, header, NOW + 5) + batch[61:]
    builder = codec.builder.BatchBuilder()
    assert builder.append(b"marker", b"", (), NOW)
    marker = builder.build(producer_id=1, producer_epoch=0, control=True, transactional=True)
    rows = by_column(codec, stamped + marker)
    assert rows == by_record(codec, stamped)
    assert {(row["timestamp"], row["timestamp_type"]) for row in rows} == {((NOW + 5) * 1000, 1)}


def test_only_what_is_asked_for(codec: Twin) -> None:
    batch = codec.columns.encode_columns(VALUES, timestamp=NOW)[0]
    decode = codec.columns.decode_columns
    assert decode(batch).schema.names == ["key", "value", "offset", "timestamp"]
    assert decode(batch, columns=["value"]).to_pydict() == {"value": VALUES}
    assert decode(batch, columns=["offset"], include_headers=True).schema.names == [
        "offset",
        "headers",
    ]
    empty = decode(b"", columns=codec.columns.COLUMNS)
    assert (empty.num_rows, empty.schema) == (
        0,
        decode(batch, columns=codec.columns.COLUMNS).schema,
    )
    assert decode(batch, start_offset=10**9).num_rows == 0
    for wrong in (["colour"], ["value", "value"]):
        with pytest.raises(InvalidRequest, match="not possible"):
            decode(batch, columns=wrong)


@pytest.mark.parametrize(
    "kind", ["binary", "large_binary", "binary_view", "string", "large_string", "string_view"]
)
@pytest.mark.parametrize("as_key", [False, True])
def test_every_arrow_type_of_bytes(codec: Twin, kind: str, as_key: bool) -> None:
    column = pa.array(TEXTS if "string" in kind else VALUES, getattr(pa, kind)())
    expected = {"key": VALUES if as_key else [None] * len(VALUES), "value": VALUES}
    for variant in (column, pa.chunked_array([column[:7], column[7:]]), column.slice(0)):
        batches = codec.columns.encode_columns(
            variant, key=variant if as_key else None, timestamp=NOW
        )
        assert codec.columns.decode_columns(batches[0], columns=["key", "value"]).to_pydict() == (
            expected
        )
    sliced = codec.columns.encode_columns(column.slice(3, 50), timestamp=NOW)[0]
    assert codec.columns.decode_columns(sliced)["value"].to_pylist() == VALUES[3:53]


def test_other_arrow_types_of_bytes(codec: Twin) -> None:
    for column, expected in (
        (pa.array(TEXTS).dictionary_encode(), VALUES),
        (pa.array([b"ab", None, b"cd"], pa.binary(2)), [b"ab", None, b"cd"]),
        (pa.nulls(3), [None] * 3),
        (pa.chunked_array([], pa.binary()), None),
    ):
        if expected is None:
            with pytest.raises(InvalidRecord, match="empty"):
                codec.columns.encode_columns(column, timestamp=NOW)
        else:
            batch = codec.columns.encode_columns(column, timestamp=NOW)[0]
            assert codec.columns.decode_columns(batch)["value"].to_pylist() == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_every_unit_of_time(codec: Twin, unit: str) -> None:
    column = pa.array([NOW, NOW + 1_000], pa.timestamp("ms", "UTC")).cast(pa.timestamp(unit, "UTC"))
    batch = codec.columns.encode_columns([b"a", b"b"], timestamp=column)[0]
    records = codec.decoder.decode_records(batch, "t", 0)
    assert [record.timestamp for record in records] == [NOW, NOW + 1_000]


@pytest.mark.parametrize("few_rows", [0, len(VALUES)])
@pytest.mark.parametrize("limit_bytes", [62, 100, 700, 5_000, 1 << 20])
def test_batches_equal_the_builders_and_keep_the_limit(
    codec: Twin, limit_bytes: int, few_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec.few_rows, "FEW_ROWS", few_rows)
    keys = [b"k%d" % i if i % 3 else None for i in range(len(VALUES))]
    stamps = [NOW + (i * 7919) % 100_000 for i in range(len(VALUES))]
    headers = [[("h", b"v"), ("n", None)] if i % 50 == 0 else [] for i in range(len(VALUES))]
    for extra in ({}, {"headers": headers}):
        batches = codec.columns.encode_columns(
            VALUES, key=keys, timestamp=stamps, limit_bytes=limit_bytes, **extra
        )
        row = 0
        for batch in batches:
            header = codec.batch.check_batch(batch, exact=True, from_producer=True)
            builder = codec.builder.BatchBuilder(limit_bytes)
            for at in range(row, row + header.record_count):
                some = headers[at] if extra else ()
                assert builder.append(VALUES[at], keys[at], some, stamps[at])
            assert batch == builder.build()
            assert header.size <= limit_bytes or header.record_count == 1
            row += header.record_count
        assert row == len(VALUES)


@pytest.mark.parametrize("row_count", [1, 2, 100])
@pytest.mark.parametrize("with_keys", [False, True])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_few_rows_give_the_bytes_of_many(
    codec: Twin,
    row_count: int,
    with_keys: bool,
    compression: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = codec.compression.Compression.from_name(compression)
    keys = [b"k%d" % row if row % 3 else None for row in range(row_count)] if with_keys else None
    for timestamp in (NOW, [NOW + row * 7919 % 100_000 for row in range(row_count)]):
        columns = {"value": VALUES[:row_count], "key": keys, "timestamp": timestamp}
        many = codec.columns.encode_columns(**columns, compression=chosen)
        with monkeypatch.context() as patched:
            patched.setattr(codec.few_rows, "FEW_ROWS", row_count)
            assert codec.columns.encode_columns(**columns, compression=chosen) == many


def test_peers_read_columns(codec: Twin) -> None:
    zstd = codec.compression.Compression.ZSTD
    batch = codec.columns.encode_columns(VALUES, timestamp=NOW, compression=zstd)[0]
    for peer in ("aiokafka", "kafka-python"):
        assert [sample.value for _, sample in peer_records(peer, batch)] == VALUES


@pytest.mark.parametrize(
    ("columns", "refusal"),
    [
        ({"value": []}, InvalidRecord),
        ({"value": b"one"}, InvalidRecord),
        ({"value": 3}, InvalidRecord),
        ({"value": [1, 2]}, InvalidRecord),
        ({"value": [b"a", "b", 3]}, InvalidRecord),
        ({"value": [b"a"], "key": [b"a", b"b"]}, InvalidRecord),
        ({"value": [b"a"], "key": [1.5]}, InvalidRecord),
        ({"value": [b"a"], "timestamp": -1}, InvalidTimestamp),
        ({"value": [b"a"], "timestamp": 2**62}, InvalidTimestamp),
        ({"value": [b"a"], "timestamp": [-1]}, InvalidTimestamp),
        ({"value": [b"a"], "timestamp": [None]}, InvalidTimestamp),
        ({"value": [b"a"], "timestamp": ["noon"]}, InvalidTimestamp),
        ({"value": [b"a"], "timestamp": [1, 2]}, InvalidRecord),
        ({"value": [b"a"], "timestamp": 1.5}, InvalidRecord),
        ({"value": [b"a"], "headers": 5}, InvalidRecord),
        ({"value": [b"a"], "headers": [[], []]}, InvalidRecord),
        ({"value": [b"a"], "headers": [5]}, InvalidRecord),
        ({"value": [b"a"], "headers": [[("a",)]]}, InvalidRecord),
        ({"value": [b"a"], "headers": [[("a", 1)]]}, InvalidRecord),
        ({"value": [b"a"], "headers": [[(None, b"1")]]}, InvalidRecord),
    ],
)
def test_columns_that_are_none(
    codec: Twin, columns: dict[str, Any], refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        codec.columns.encode_columns(**{"timestamp": NOW, **columns})


def test_a_column_beyond_arrows_limit_is_refused(
    codec: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = codec.columns.encode_columns(VALUES, timestamp=NOW)[0]
    monkeypatch.setattr(f"{codec.columns.__package__}.binary_column._LARGEST_BYTES", 1_000)
    with pytest.raises(MessageTooLarge, match="fewer batches"):
        codec.columns.decode_columns(batch)


def test_without_arrow_the_error_says_what_to_install() -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
from tidelog.errors import TidelogError
from tidelog.records.columns import decode_columns, encode_columns
for call in (lambda: decode_columns(b""), lambda: encode_columns([], timestamp=0)):
    try:
        call()
    except TidelogError as error:
        print(error.hint)
"""
    seen = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert seen.stdout.splitlines() == ["Install both: pip install numpy pyarrow"] * 2
