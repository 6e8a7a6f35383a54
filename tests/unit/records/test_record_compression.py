"""The five compressions: framings, levels, and what a bomb may cost."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import cramjam
import lz4.frame
import pytest
import snappy
import zstandard

from tidelog.errors import CorruptMessage, InvalidConfig, MessageTooLarge, UnsupportedCompression
from tidelog.records.compression import Compression, check_level, compress, decompress

COMPRESSED: Final = [codec for codec in Compression if codec is not Compression.NONE]
DATA: Final = b"".join(b"record %d of many; " % number for number in range(9_000))
LIMIT: Final = 1 << 20

BOMB_BYTES: Final = 192 * 1024 * 1024
#: What a decoder may hold beside its limit: its own tables and windows.
ROOM_KIB: Final = 24 * 1024


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("data", [b"", b"x", DATA[:32_768], DATA[:32_769], DATA])
def test_what_is_compressed_comes_back(codec: Compression, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed, LIMIT) == data
    assert decompress(codec, memoryview(packed), len(data)) == data
    if data:
        with pytest.raises(MessageTooLarge, match=str(len(data) - 1)):
            decompress(codec, packed, len(data) - 1)


def test_other_packages_read_our_framings() -> None:
    assert gzip.decompress(bytes(compress(Compression.GZIP, DATA))) == DATA
    assert zstandard.ZstdDecompressor().decompress(bytes(compress(Compression.ZSTD, DATA))) == DATA
    packed = bytes(compress(Compression.LZ4, DATA))
    assert lz4.frame.decompress(packed) == DATA
    # Kafka's own readers refuse frames whose blocks depend on each other.
    assert not lz4.frame.get_frame_info(packed)["block_linked"]
    assert bytes(compress(Compression.SNAPPY, DATA)).startswith(b"\x82SNAPPY\x00")


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        (Compression.SNAPPY, snappy.compress(DATA)),
        (Compression.LZ4, lz4.frame.compress(DATA)),
        (Compression.LZ4, lz4.frame.compress(DATA[:5]) + lz4.frame.compress(DATA[5:])),
        (Compression.GZIP, gzip.compress(DATA[:5]) + gzip.compress(DATA[5:])),
        (Compression.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(DATA)),
        (Compression.ZSTD, zstandard.compress(DATA[:5]) + zstandard.compress(DATA[5:])),
    ],
)
def test_other_framings_are_read(codec: Compression, packed: bytes) -> None:
    assert decompress(codec, packed, LIMIT) == DATA


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_is_cut_or_is_no_such_thing_is_corrupt(codec: Compression) -> None:
    packed = bytes(compress(codec, DATA))
    for broken in (packed[: len(packed) // 2], packed[:-1], packed[:9], b"\xffjunk" * 20):
        with pytest.raises(CorruptMessage, match=codec.name.lower()):
            decompress(codec, broken, LIMIT)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_flipped_bits_raise_nothing_untyped(codec: Compression, random_source: Any) -> None:
    packed = bytes(compress(codec, DATA))
    for _ in range(500):
        broken = bytearray(packed)
        broken[random_source.randrange(len(broken))] ^= 1 << random_source.randrange(8)
        try:
            assert len(decompress(codec, bytes(broken), LIMIT)) <= LIMIT
        except (CorruptMessage, MessageTooLarge):
            continue


def test_a_block_that_claims_too_much_is_not_believed() -> None:
    claim = b"\xff\xff\xff\x7f"  # 268,435,455 bytes, in four
    with pytest.raises(CorruptMessage, match="claim"):
        decompress(Compression.SNAPPY, claim + b"\x00" * 20, 1 << 30)
    with pytest.raises(MessageTooLarge):
        decompress(Compression.SNAPPY, claim + b"\x00" * 20, LIMIT)


def test_a_zstd_window_beyond_the_limit_is_refused() -> None:
    window_of_1_gib = bytes((20 << 3,))
    frame = b"\x28\xb5\x2f\xfd" + b"\x00" + window_of_1_gib + b"\x01\x00\x00" + b"\x00" * 8
    with pytest.raises(MessageTooLarge):
        decompress(Compression.ZSTD, frame, LIMIT)


def bomb(codec: Compression) -> bytes:
    """Few bytes that hold many, in the framing of the codec."""
    zeros = bytes(BOMB_BYTES)
    if codec is Compression.GZIP:
        return gzip.compress(zeros, 1)
    if codec is Compression.ZSTD:
        return bytes(zstandard.ZstdCompressor(write_content_size=False).compress(zeros))
    if codec is Compression.LZ4:
        return bytes(lz4.frame.compress(zeros, store_size=False))
    return bytes(cramjam.snappy.compress_raw(zeros))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc/self/status")
@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_costs_no_more_than_the_limit(codec: Compression, tmp_path: Path) -> None:
    (tmp_path / "bomb").write_bytes(bomb(codec))
    program = f"""
import re, sys
from pathlib import Path
from tidelog.errors import MessageTooLarge
from tidelog.records.compression import Compression, compress, decompress

def peak_kib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

codec, packed = Compression({int(codec)}), Path(sys.argv[1]).read_bytes()
decompress(codec, compress(codec, bytes({LIMIT})), {LIMIT})
before = peak_kib()
try:
    decompress(codec, packed, {LIMIT})
except MessageTooLarge:
    print(peak_kib() - before)
"""
    seen = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "bomb")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONMALLOC": "malloc"},
    )
    assert int(seen.stdout) < ROOM_KIB


def test_names_and_numbers() -> None:
    assert [Compression.from_name(codec.name.lower()) for codec in Compression] == [*Compression]
    with pytest.raises(UnsupportedCompression, match=r"brotli.*none, gzip, snappy, lz4, zstd"):
        Compression.from_name("brotli")
    with pytest.raises(UnsupportedCompression, match="number 5"):
        Compression.from_number(5)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_levels(codec: Compression) -> None:
    lowest, highest = {"GZIP": (1, 9), "LZ4": (1, 12), "ZSTD": (1, 22)}[codec.name]
    small = [len(bytes(compress(codec, DATA, level))) for level in (lowest, highest)]
    assert small[1] <= small[0]
    for level in (lowest - 1, highest + 1):
        with pytest.raises(InvalidConfig, match=f"levels {lowest} to {highest}; level {level}"):
            compress(codec, DATA, level)


def test_what_has_no_levels_takes_none() -> None:
    for codec in (Compression.NONE, Compression.SNAPPY):
        assert check_level(codec, None) == 0
        with pytest.raises(InvalidConfig, match="no levels"):
            compress(codec, DATA, 1)
