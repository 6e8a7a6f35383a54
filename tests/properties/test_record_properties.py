"""What holds for any records and any bytes: round-trips, and never more than a typed refusal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.record_twins import TWINS, WHY_NOT_COMPILED, Twin, has_compiled, twin
from tidelog.errors import TidelogError

pytest.importorskip("pyarrow")

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
MUTATED_BATCHES: Final = 20_000
LIMIT_BYTES: Final = 1 << 20

PAYLOADS = st.one_of(st.none(), st.binary(max_size=200), st.just(b"x" * 9_000))
RECORDS = st.lists(
    st.tuples(
        PAYLOADS,
        PAYLOADS,
        st.lists(st.tuples(st.text(max_size=8), PAYLOADS), max_size=3).map(tuple),
        st.integers(min_value=0, max_value=2**62 - 1),
    ),
    min_size=1,
    max_size=80,
)


@pytest.fixture(params=TWINS, scope="module")
def codec(request: pytest.FixtureRequest) -> Iterator[Twin]:
    """Each twin in turn."""
    if request.param == "compiled" and not has_compiled():
        pytest.skip(WHY_NOT_COMPILED)
    with twin(request.param).in_place() as chosen:
        yield chosen


@given(records=RECORDS, compression=st.sampled_from(COMPRESSIONS), base=st.integers(0, 2**61))
def test_records_come_back(codec: Twin, records: list[Any], compression: str, base: int) -> None:
    builder = codec.builder.BatchBuilder(1 << 30)
    for value, key, headers, timestamp in records:
        assert builder.append(value, key, headers, timestamp)
    batch = builder.build(codec.compression.Compression.from_name(compression))
    header = codec.batch.check_batch(batch, exact=True, from_producer=True)
    assert header.max_timestamp == max(timestamp for *_, timestamp in records)
    assert compression != "none" or builder.size == len(batch)
    stored = codec.batch.assigned_prefix(header, base, 3) + batch[16:]
    read = codec.decoder.decode_records(stored, "t", 0)
    assert [(r.value, r.key, r.headers, r.timestamp) for r in read] == records
    assert [r.offset for r in read] == list(range(base, base + len(records)))


@given(records=RECORDS, limit_bytes=st.integers(100, 20_000), few_rows=st.sampled_from([0, 256]))
def test_columns_come_back(
    codec: Twin, records: list[Any], limit_bytes: int, few_rows: int
) -> None:
    values, keys, headers, timestamps = (list(column) for column in zip(*records, strict=True))
    timestamps = [timestamp % 2**52 for timestamp in timestamps]  # microseconds hold no more
    with mock.patch.object(codec.few_rows, "FEW_ROWS", few_rows):
        batches = codec.columns.encode_columns(
            values, key=keys, headers=headers, timestamp=timestamps, limit_bytes=limit_bytes
        )
    stored, base = b"", 0
    for batch in batches:
        header = codec.batch.check_batch(batch, exact=True, from_producer=True)
        stored += codec.batch.assigned_prefix(header, base, 0) + batch[16:]
        base += header.record_count
    read = codec.decoder.decode_records(stored, "t", 0)
    assert [r.value for r in read] == values
    assert [r.headers for r in read] == headers
    table = codec.columns.decode_columns(stored, include_headers=True)
    assert table["value"].to_pylist() == values
    assert table["key"].to_pylist() == keys
    assert table["offset"].to_pylist() == list(range(base))
    assert table["timestamp"].cast("int64").to_pylist() == [1_000 * stamp for stamp in timestamps]
    shown = [[(pair["key"], pair["value"]) for pair in row] for row in table["headers"].to_pylist()]
    assert [tuple(row) for row in shown] == headers


@given(junk=st.binary(max_size=400))
def test_junk_is_refused(codec: Twin, junk: bytes) -> None:
    for read in (codec.decoder.decode_records, codec.columns.decode_columns):
        if junk:
            with pytest.raises(TidelogError):
                read(junk, "t", 0)


def mutated(random_source: random.Random, batch: bytes) -> bytes:
    """The batch with a few bytes changed, or cut, or with another piece of itself put in."""
    broken = bytearray(batch)
    for _ in range(random_source.randint(1, 3)):
        way, at = random_source.randrange(5), random_source.randrange(len(broken))
        if way == 0:
            broken[at] ^= 1 << random_source.randrange(8)
        elif way == 1:
            broken[at] = random_source.choice((0, 1, 127, 128, 255))
        elif way == 2:
            broken[at : at + 4] = random_source.randbytes(4)
        elif way == 3 and len(broken) > 70:
            del broken[max(at, 62) :]
        else:
            broken[at:at] = broken[: random_source.randrange(20)]
    return bytes(broken)


def samples(codec: Twin) -> list[bytes]:
    """Batches of every compression, of mixed records and of equal ones."""
    batches = []
    for name in COMPRESSIONS:
        compression = codec.compression.Compression.from_name(name)
        mixed, equal = codec.builder.BatchBuilder(), codec.builder.BatchBuilder()
        for index in range(40):
            headers = [("h", b"v" * index)] if index % 7 == 0 else []
            key = None if index % 3 else b"key %d" % index
            assert mixed.append(b"v" * (index * 5), key, headers, 1_000 + index)
        equal.extend([b"0123456789"] * 90, 1_000)
        batches += [mixed.build(compression), equal.build(compression)]
    return batches


def outcome(read: Any, batch: bytes) -> Any:
    """What a way of reading makes of a batch: its rows, or the class of its refusal."""
    try:
        return read(batch)
    except TidelogError as error:
        return type(error)


def test_mutated_batches_are_read_or_refused(codec: Twin, random_source: random.Random) -> None:
    """Behind a checksum that is not looked at: records and columns see the same, or refuse it."""

    def records(batch: bytes) -> list[Any]:
        read = codec.decoder.decode_records(batch, "t", 0, check_crc=False, limit_bytes=LIMIT_BYTES)
        return [(r.value, r.key, r.offset, r.headers) for r in read]

    def columns(batch: bytes) -> list[Any]:
        table = codec.columns.decode_columns(
            batch,
            columns=["value", "key", "offset", "headers"],
            check_crc=False,
            limit_bytes=LIMIT_BYTES,
        )
        return [
            (*row[:3], tuple((pair["key"], pair["value"]) for pair in row[3]))
            for row in zip(*table.to_pydict().values(), strict=True)
        ]

    batches, refused = samples(codec), 0
    for round_number in range(MUTATED_BATCHES):
        batch = mutated(random_source, random_source.choice(batches))
        seen = outcome(records, batch)
        refused += isinstance(seen, type)
        if round_number % 4 == 0:
            by_column = outcome(columns, batch)
            assert isinstance(seen, type) == isinstance(by_column, type), (seen, by_column)
            assert isinstance(seen, type) or seen == by_column
    assert MUTATED_BATCHES // 4 < refused < MUTATED_BATCHES


def test_both_twins_read_mutated_batches_alike(random_source: random.Random) -> None:
    if not has_compiled():
        pytest.skip(WHY_NOT_COMPILED)
    pure, compiled = twin("pure"), twin("compiled")
    batches = samples(pure)
    for _ in range(MUTATED_BATCHES // 10):
        batch = mutated(random_source, random_source.choice(batches))

        def read(codec: Twin, batch: bytes = batch) -> list[Any]:
            return [
                (r.value, r.key, r.offset, r.timestamp, r.headers)
                for r in codec.decoder.decode_records(
                    batch, "t", 0, check_crc=False, limit_bytes=LIMIT_BYTES
                )
            ]

        assert outcome(lambda b: read(pure, b), batch) == outcome(
            lambda b: read(compiled, b), batch
        )


#: Records of few kinds, so that many follow one of their own kind; by `append` or `extend`.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "extend", "build"]),
        st.lists(st.sampled_from([b"", b"a", b"b", b"cc", None, b"x" * 70]), max_size=70),
        st.sampled_from([0, 1]),
        st.sampled_from([None, None, b"k"]),
        st.sampled_from([(), (), (("h", b"v"),)]),
    ),
    max_size=8,
)


@given(steps=STEPS, limit_bytes=st.sampled_from([62, 300, 1 << 20]))
def test_records_alike_come_back(codec: Twin, steps: list[Any], limit_bytes: int) -> None:
    builder = codec.builder.BatchBuilder(limit_bytes)
    written: list[Any] = []
    for call, values, timestamp, key, headers in steps:
        if call == "extend":
            added = builder.extend(values, timestamp)
            written += [(value, None, (), timestamp) for value in values[:added]]
        elif call == "append":
            for value in values:
                if builder.append(value, key, headers, timestamp):
                    written.append((value, key, headers, timestamp))
        elif written:
            builder.build()
        assert builder.count == len(written)
    if written:
        batch = builder.build()
        assert len(batch) == builder.size
        assert builder.size <= limit_bytes or len(written) == 1
        records = codec.decoder.decode_records(batch, "t", 0)
        assert [(r.value, r.key, r.headers, r.timestamp) for r in records] == written
        assert [r.offset for r in records] == list(range(len(written)))
