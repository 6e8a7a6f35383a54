"""One contract for both twins of the record codec: same bytes, same records, same refusals."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any, Final

import pytest

from support.kafka_codecs import PEERS, SAMPLES, peer_batch, peer_records
from support.record_twins import Twin, twin
from tidelog.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompression,
)

GOLDEN: Final = Path(__file__).parent / "golden"
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
NOW: Final = 1_700_000_000_000


def sample_batch(codec: Twin, compression: str = "none", **options: Any) -> bytes:
    builder = codec.builder.BatchBuilder(1 << 20)
    for sample in SAMPLES:
        assert builder.append(sample.value, sample.key, sample.headers, sample.timestamp)
    batch: bytes = builder.build(codec.compression.Compression.from_name(compression), **options)
    return batch


def as_samples(records: list[Any]) -> list[tuple[int, Any]]:
    return [(r.offset, (r.timestamp, r.key, r.value, list(r.headers))) for r in records]


def batch_of(codec: Twin, count: int, size: int = 10, *, timestamp: int = NOW) -> bytes:
    builder = codec.builder.BatchBuilder(1 << 26)
    assert (
        builder.extend([b"%08d" % i + b"x" * (size - 8) for i in range(count)], timestamp) == count
    )
    batch: bytes = builder.build()
    return batch


def without_epoch(batch: bytes) -> bytes:
    """All but the leader epoch, for which some clients write 0: the broker assigns it anyway."""
    return batch[:12] + batch[16:]


def resealed(codec: Twin, batch: bytes, **changes: int) -> bytes:
    """The batch with other header fields and a CRC that agrees with them."""
    names = "base_offset length leader_epoch magic crc attributes last_offset_delta base_timestamp"
    names += " max_timestamp producer_id producer_epoch base_sequence record_count"
    layout = struct.Struct(">qiibIhiqqqhii")
    fields = dict(zip(names.split(), layout.unpack_from(batch), strict=True)) | changes
    renewed = layout.pack(*fields.values()) + batch[61:]
    checksum = codec.batch.crc32c(renewed[21:])
    return renewed[:17] + struct.pack(">I", checksum) + renewed[21:]


def test_the_twins_are_what_they_say(codec: Twin) -> None:
    is_pure = codec.decoder.__file__.endswith(".py")
    assert is_pure == (codec is twin("pure"))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("writer", [*PEERS, "tidelog"])
def test_golden_batches_are_read(codec: Twin, writer: str, compression: str) -> None:
    batch = (GOLDEN / f"{writer}-{compression}.batch").read_bytes()
    records = codec.decoder.decode_records(batch, "t", 3)
    assert as_samples(records) == [(i, tuple(s)) for i, s in enumerate(SAMPLES)]
    assert {(r.topic, r.partition, r.timestamp_type) for r in records} == {("t", 3, 0)}


def test_golden_batches_are_written(codec: Twin) -> None:
    written = sample_batch(codec)
    assert written == (GOLDEN / "tidelog-none.batch").read_bytes()
    for peer in PEERS:
        golden = (GOLDEN / f"{peer}-none.batch").read_bytes()
        assert without_epoch(written) == without_epoch(golden)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("peer", PEERS)
def test_peers_read_what_we_write(codec: Twin, peer: str, compression: str) -> None:
    batch = sample_batch(codec, compression)
    assert peer_records(peer, batch) == list(enumerate(SAMPLES))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("peer", PEERS)
def test_we_read_what_peers_write(codec: Twin, peer: str, compression: str) -> None:
    number = codec.compression.Compression.from_name(compression)
    batch = peer_batch(peer, SAMPLES, number, producer=(7, 2, 5), transactional=True)
    header = codec.batch.check_batch(batch, exact=True, from_producer=True)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 5)
    assert header.is_transactional
    assert header.compression == number
    records = codec.decoder.decode_records(batch, "t", 0)
    assert as_samples(records) == [(i, tuple(s)) for i, s in enumerate(SAMPLES)]


def test_producer_fields_as_peers_write_them(codec: Twin) -> None:
    ours = sample_batch(
        codec, producer_id=7, producer_epoch=2, base_sequence=2**31 - 3, transactional=True
    )
    for peer in PEERS:
        theirs = peer_batch(peer, SAMPLES, 0, producer=(7, 2, 2**31 - 3), transactional=True)
        assert without_epoch(ours) == without_epoch(theirs)
    header = codec.batch.check_batch(ours, from_producer=True)
    assert header.last_sequence == len(SAMPLES) - 1 - 3


def test_renumbering_equals_building_anew(codec: Twin) -> None:
    renumbered = codec.builder.set_producer(sample_batch(codec), 9, 1, 40)
    assert renumbered == sample_batch(codec, producer_id=9, producer_epoch=1, base_sequence=40)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer(codec: Twin, kind: type) -> None:
    batch = sample_batch(codec, "zstd")
    assert codec.batch.check_batch(kind(batch)).record_count == len(SAMPLES)
    assert len(codec.decoder.decode_records(kind(batch), "t", 0)) == len(SAMPLES)


@pytest.mark.parametrize("count", [1, 15, 16, 63, 64, 65, 200, 8_191, 8_193, 16_500])
def test_runs_of_equal_records(codec: Twin, count: int) -> None:
    batch = batch_of(codec, count)
    records = codec.decoder.decode_records(batch, "t", 0)
    assert [r.offset for r in records] == list(range(count))
    assert [r.value for r in records] == [b"%08dxx" % i for i in range(count)]
    assert {r.timestamp for r in records} == {NOW}


@pytest.mark.parametrize("step", [1, 2, 50, -1, -3])
@pytest.mark.parametrize("stays", [1, 7, 100])
def test_runs_of_equal_records_in_time(codec: Twin, step: int, stays: int) -> None:
    stamps = [NOW + index // stays * step for index in range(9_000)]
    builder = codec.builder.BatchBuilder(1 << 26)
    values = [b"%08d" % index for index in range(9_000)]
    keys = [b"key"] * 9_000
    assert builder.extend(values, NOW, keys=keys, timestamps=stamps) == 9_000
    records = codec.decoder.decode_records(builder.build(), "t", 0, start_offset=4_000)
    assert [r.timestamp for r in records] == stamps[4_000:]
    assert [(r.key, r.value) for r in records] == [(b"key", value) for value in values[4_000:]]
    assert [r.offset for r in records] == list(range(4_000, 9_000))


def test_several_batches_from_an_offset_on(codec: Twin) -> None:
    stored = b""
    for base in (0, 150, 300):
        batch = batch_of(codec, 150)
        header = codec.batch.read_header(batch)
        stored += codec.batch.assigned_prefix(header, base, 4) + batch[16:]
    records = codec.decoder.decode_records(stored, "t", 0, start_offset=170)
    assert [r.offset for r in records] == list(range(170, 450))
    assert {r.leader_epoch for r in records} == {4}
    headers = list(codec.batch.batch_headers(stored, whole=True))
    assert [h.base_offset for h in headers] == [0, 150, 300]
    assert [h.next_offset for h in codec.batch.batch_headers(stored[:-1])] == [150, 300]
    with pytest.raises(CorruptMessage, match="not a whole batch"):
        list(codec.batch.batch_headers(stored[:-1], whole=True))
    second = codec.decoder.decode_batch(stored, "t", 0, position=headers[0].size)
    assert [r.offset for r in second] == list(range(150, 300))


def test_the_offset_after_some_batches(codec: Twin) -> None:
    builder = codec.builder.BatchBuilder(1 << 20)
    builder.extend([b"x" * 40] * 3, NOW)
    batch = builder.build()
    header = codec.batch.read_header(batch)
    stored = b"".join(
        codec.batch.assigned_prefix(header, base, 0) + batch[16:] for base in (10, 13, 16)
    )
    assert codec.batch.offset_after(stored) == 19
    assert codec.batch.offset_after(stored[: len(batch)]) == 13
    with pytest.raises(CorruptMessage):
        codec.batch.offset_after(b"")


def test_batches_are_in_order_up_to_the_first_that_is_not(codec: Twin) -> None:
    builder = codec.builder.BatchBuilder(1 << 20)
    builder.extend([b"x" * 40] * 3, NOW)
    batch = builder.build()
    header, size = codec.batch.read_header(batch), len(batch)

    def placed(*bases: int, epoch: int = 4) -> bytes:
        return b"".join(codec.batch.assigned_prefix(header, at, epoch) + batch[16:] for at in bases)

    in_order = codec.batch.batches_in_order
    assert in_order(placed(10, 13), 10, end=16, epoch_max=4) == (2 * size, 16)
    for behind in (placed(14), placed(12), placed(-3), placed(13)[:-1], placed(13, epoch=5), b"x"):
        assert in_order(placed(10) + behind, 10, end=99, epoch_max=4) == (size, 13)
    assert in_order(placed(10, 13), 10, end=15, epoch_max=4) == (size, 13)
    spoilt = bytearray(placed(10, 13))
    for at, value in ((16, 1), (size + 8, 0x80), (size + 11, 1), (size + 23, 0x80)):
        changed = bytes(spoilt[:at]) + bytes([value]) + bytes(spoilt[at + 1 :])
        assert in_order(changed, 10, end=99, epoch_max=4) == ((size, 13) if at > size else (0, 10))
    for first in (placed(10), placed(14), placed(2**63 - 9), placed(-(2**63)), b""):
        assert in_order(first, 13, end=99, epoch_max=4) == (0, 13)
    assert in_order(placed(11), 10, end=99, epoch_max=4) == (0, 10)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_the_brokers_time_is_every_records_time(codec: Twin, compression: str) -> None:
    batch = sample_batch(codec, compression)
    header = codec.batch.read_header(batch)
    stamped = codec.batch.with_log_append_time(batch, header, 1_800_000_000_000) + batch[61:]
    renewed = codec.batch.check_batch(stamped, exact=True)
    assert (renewed.timestamp_type, renewed.base_timestamp) == (1, header.base_timestamp)
    records = codec.decoder.decode_records(stamped, "t", 0)
    assert {(r.timestamp, r.timestamp_type) for r in records} == {(1_800_000_000_000, 1)}
    for peer in PEERS:
        assert {s.timestamp for _, s in peer_records(peer, stamped)} == {1_800_000_000_000}
    with pytest.raises(InvalidTimestamp):
        codec.batch.check_batch(stamped, from_producer=True)


def test_control_batches_hold_no_records_of_users(codec: Twin) -> None:
    marker = sample_batch(codec, producer_id=1, producer_epoch=0, control=True, transactional=True)
    assert codec.decoder.decode_records(marker + marker, "t", 0) == []
    with pytest.raises(InvalidRecord, match="control"):
        codec.batch.check_batch(marker, from_producer=True)


def test_compacted_batches_have_gaps(codec: Twin) -> None:
    batch = resealed(codec, batch_of(codec, 20), last_offset_delta=99, base_offset=1000)
    assert codec.batch.check_batch(batch).last_offset == 1099
    assert len(codec.decoder.decode_records(batch, "t", 0)) == 20
    with pytest.raises(InvalidRecord, match="offset delta 19"):
        codec.batch.check_batch(batch, from_producer=True)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"magic": 1}, CorruptMessage),
        ({"length": 48}, CorruptMessage),
        ({"length": -1}, CorruptMessage),
        ({"length": 2**31 - 1}, CorruptMessage),
        ({"record_count": 0}, CorruptMessage),
        ({"record_count": -1}, CorruptMessage),
        ({"record_count": 2**31 - 1}, CorruptMessage),
        ({"last_offset_delta": 18}, CorruptMessage),
        ({"attributes": 0x40}, CorruptMessage),
        ({"attributes": -0x8000}, CorruptMessage),
        ({"attributes": 5}, UnsupportedCompression),
        ({"attributes": 0x10}, CorruptMessage),
        ({"base_offset": -1}, CorruptMessage),
        ({"base_offset": 2**62}, CorruptMessage),
        ({"base_timestamp": -(2**63)}, CorruptMessage),
        ({"max_timestamp": 2**63 - 1}, CorruptMessage),
        ({"producer_id": -2}, CorruptMessage),
        ({"producer_id": 4}, CorruptMessage),
        ({"producer_epoch": 1}, CorruptMessage),
        ({"base_sequence": 1}, CorruptMessage),
        ({"producer_id": 4, "producer_epoch": 0, "base_sequence": -1}, CorruptMessage),
    ],
)
def test_impossible_headers_are_refused(
    codec: Twin, changes: dict[str, int], refusal: type[Exception]
) -> None:
    batch = resealed(codec, batch_of(codec, 20), **changes)
    with pytest.raises(refusal):
        codec.batch.check_batch(batch)
    with pytest.raises(refusal):
        codec.decoder.decode_records(batch, "orders", 3)


def test_a_producers_arithmetic_is_checked(codec: Twin) -> None:
    batch = resealed(codec, batch_of(codec, 2), record_count=50, last_offset_delta=49)
    with pytest.raises(CorruptMessage, match="50 records cannot"):
        codec.batch.check_batch(batch, from_producer=True)
    batch = resealed(codec, batch_of(codec, 2), max_timestamp=NOW - 1)
    with pytest.raises(InvalidTimestamp):
        codec.batch.check_batch(batch, from_producer=True)


def test_the_crc_covers_every_byte_from_the_attributes_on(codec: Twin) -> None:
    batch = batch_of(codec, 3)
    for position in range(17, len(batch)):
        broken = bytearray(batch)
        broken[position] ^= 4
        with pytest.raises((CorruptMessage, UnsupportedCompression)):
            codec.batch.check_batch(bytes(broken))


def test_length_and_limit(codec: Twin) -> None:
    batch = batch_of(codec, 3)
    assert codec.batch.check_batch(b"ahead" + batch, 5, exact=True).size == len(batch)
    assert codec.batch.check_batch(batch + b"more").size == len(batch)
    with pytest.raises(CorruptMessage, match="claims"):
        codec.batch.check_batch(batch + b"more", exact=True)
    for cut in range(len(batch)):
        with pytest.raises(CorruptMessage):
            codec.batch.check_batch(batch[:cut])
    assert codec.batch.check_batch(batch, limit_bytes=len(batch)).size == len(batch)
    with pytest.raises(MessageTooLarge, match=f"limit is {len(batch) - 1}"):
        codec.batch.check_batch(batch, limit_bytes=len(batch) - 1)


def test_errors_name_topic_partition_and_offsets(codec: Twin) -> None:
    good, broken = batch_of(codec, 30), bytearray(batch_of(codec, 30))
    broken[61] ^= 2  # the length of the first record, behind a CRC that agrees
    stored = good + resealed(codec, bytes(broken), base_offset=30)
    with pytest.raises(CorruptMessage, match=r"'orders', partition 3, offsets 30 to 59.*malformed"):
        codec.decoder.decode_records(stored, "orders", 3)
    with pytest.raises(CorruptMessage, match=r"'orders', partition 3, offsets 30 to 59.*malformed"):
        codec.columns.decode_columns(stored, "orders", 3)
    stored = good + bytes(broken)
    with pytest.raises(CorruptMessage, match=r"'orders', partition 3, offsets 0 to 29.*CRC32C"):
        codec.decoder.decode_records(stored, "orders", 3)


def test_the_builder_keeps_its_limit(codec: Twin) -> None:
    builder = codec.builder.BatchBuilder(1_000)
    assert builder.append(b"x" * 5_000, None, (), NOW)  # alone, a record of any size fits
    assert not builder.append(b"x", None, (), NOW)
    assert builder.extend([b"x"], NOW) == 0
    assert builder.count == 1
    for limit in range(300, 340):
        builder = codec.builder.BatchBuilder(limit)
        while builder.append(b"value", b"key", [("name", b"header")], NOW + builder.count):
            assert builder.size == len(builder.build()) <= limit
        by_extend = codec.builder.BatchBuilder(limit)
        taken = by_extend.extend([b"value", None] * 50, NOW)
        assert by_extend.size == len(by_extend.build()) <= limit
        assert taken == by_extend.count


def test_extend_equals_append(codec: Twin) -> None:
    values = [None, b"", b"x" * 63, b"x" * 64, b"y" * 9_000] * 40
    keys = [b"k%d" % i if i % 3 else None for i in range(200)]
    stamps = [NOW + 300 * i for i in range(200)]
    one, many = codec.builder.BatchBuilder(1 << 22), codec.builder.BatchBuilder(1 << 22)
    for value, key, stamp in zip(values, keys, stamps, strict=True):
        assert one.append(value, key, (), stamp)
    assert many.extend(values, 0, keys=keys, timestamps=stamps) == 200
    assert many.build() == one.build()
    same, plain = codec.builder.BatchBuilder(1 << 22), codec.builder.BatchBuilder(1 << 22)
    for value in values[5:]:
        assert same.append(value, None, (), NOW)
    assert plain.extend(values, NOW, start=5) == 195
    assert plain.build() == same.build()


def test_what_the_builder_refuses(codec: Twin) -> None:
    builder = codec.builder.BatchBuilder()
    with pytest.raises(InvalidRecord, match="nothing was appended"):
        builder.build()
    for timestamp in (-1, 2**62):
        with pytest.raises(InvalidTimestamp, match=str(timestamp)):
            builder.append(b"x", None, (), timestamp)
    with pytest.raises(InvalidRecord, match="2 values and 1 keys"):
        builder.extend([b"a", b"b"], NOW, keys=[b"k"])
    for bad in ("text", 5, bytearray(b"x")):
        with pytest.raises(TypeError):
            builder.append(bad, None, (), NOW)
        with pytest.raises(TypeError):
            builder.append(b"x", bad, (), NOW)
        with pytest.raises(TypeError):
            builder.extend([bad], NOW)
    assert (builder.count, builder.size) == (0, 61)


def test_records_are_values(codec: Twin) -> None:
    first, again = (codec.decoder.decode_records(sample_batch(codec), "t", 1) for _ in range(2))
    assert first == again
    assert hash(first[0]) == hash(again[0])
    assert first[0] != first[1]
    assert first[0] != codec.decoder.decode_records(sample_batch(codec), "u", 1)[0]
    assert first[0] != "a record"
    assert pickle.loads(pickle.dumps(first)) == first
    assert repr(first[0]) == (
        "Record(topic='t', partition=1, offset=0, timestamp=1700000000000, "
        "key=None, value=b'first', headers=())"
    )
    assert "... (8191 bytes)" in repr(first[5])


def test_long_varints_mean_the_same_to_both(codec: Twin) -> None:
    largest = 2**62 - 1
    for number in (0, 63, 64, 8_191, 8_192, 2**31, largest, -1, -64, -65, -(2**62)):
        encoded = codec.varint.encode_varint(number)
        assert codec.varint.read_varint(encoded, 0) == (number, len(encoded))
        assert codec.varint.varint(number) == encoded
    with pytest.raises(CorruptMessage, match="longer than 9 bytes"):
        codec.varint.read_varint(b"\x80" * 9 + b"\x01", 0)
    with pytest.raises(IndexError):
        codec.varint.read_varint(b"\x80\x80", 0)
