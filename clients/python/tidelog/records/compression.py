"""The five compressions of a record batch, in the framings that Kafka's clients speak.

`builder` and `columns` compress a batch's records with it, the decoders undo it. Invariant:
`decompress` never holds more than about twice its limit, whatever the bytes claim of themselves.
One package serves snappy, lz4 and zstd, loaded at the first use; gzip is in the standard library.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from tidelog.errors import CorruptMessage, InvalidConfig, MessageTooLarge, UnsupportedCompression

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Compression(IntEnum):
    """How the records of a batch are compressed; the number is what the attributes carry."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_name(cls, name: str) -> Compression:
        """The compression that Kafka's `compression.type` calls so."""
        try:
            return cls[name.upper()]
        except KeyError:
            names = ", ".join(known.name.lower() for known in cls)
            raise UnsupportedCompression(
                f"There is no compression {name!r}", hint=f"Known are {names}"
            ) from None

    @classmethod
    def from_number(cls, number: int) -> Compression:
        """The compression that a batch's attributes name so."""
        try:
            return cls(number)
        except ValueError:
            raise UnsupportedCompression(f"There is no compression number {number}") from None


#: Levels that a codec takes, and the one that it gets when none is asked for.
_LEVELS: Final[dict[Compression, tuple[int, int, int]]] = {
    Compression.GZIP: (1, 9, 6),
    Compression.LZ4: (1, 12, 1),
    Compression.ZSTD: (1, 22, 3),
}

#: The framing of snappy-java: a magic, two version numbers, then blocks behind their lengths.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
_XERIAL_BLOCK_BYTES: Final = 32 * 1024

#: Three bytes of snappy are a copy of 64 at most.
_SNAPPY_LARGEST_RATIO: Final = 22

#: What the package says when the room given to `decompress_into` is too small.
_NO_ROOM: Final = "failed to write whole buffer"
_FIRST_GUESS_BYTES: Final = 64 * 1024
_GUESSED_RATIO: Final = 8
#: A zstd decoder reserves its window beside its output; every decoder must take 8 MiB.
_SMALLEST_WINDOW_LIMIT: Final = 8 * 1024 * 1024
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"


def check_level(codec: Compression, level: int | None) -> int:
    """The level to compress at: `level` if the codec has it, its default if none is given."""
    if codec not in _LEVELS:
        if level is not None:
            raise InvalidConfig(f"{codec.name.lower()} has no levels; level {level} was given")
        return 0
    lowest, highest, default = _LEVELS[codec]
    if level is None:
        return default
    if isinstance(level, bool) or not isinstance(level, int):
        raise InvalidConfig(f"compression_level={level!r:.80} is no whole number")
    if not lowest <= level <= highest:
        raise InvalidConfig(
            f"{codec.name.lower()} has levels {lowest} to {highest}; level {level} was given"
        )
    return level


def compress(codec: Compression, data: Buffer, level: int | None = None) -> Buffer:
    """Compress the records of one batch. Raises `InvalidConfig` for a level the codec lacks."""
    level = check_level(codec, level)
    if codec is Compression.NONE:
        return data
    if codec is Compression.GZIP:
        deflate = zlib.compressobj(level, zlib.DEFLATED, 31)
        return deflate.compress(data) + deflate.flush()
    if codec is Compression.SNAPPY:
        return _compress_snappy(data)
    if codec is Compression.LZ4:
        # Kafka's own readers refuse blocks that depend on each other.
        frame = _cramjam().lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        frame.compress(data)
        return bytes(frame.finish())
    return bytes(_cramjam().zstd.compress(data, level))


def decompress(codec: Compression, data: Buffer, limit_bytes: int) -> bytes:
    """Undo `compress`.

    Raises `CorruptMessage` for bytes that are no such thing, `MessageTooLarge` for more than
    `limit_bytes` of records.
    """
    if codec is Compression.NONE:
        if memoryview(data).nbytes > limit_bytes:
            raise _too_large(codec, limit_bytes)
        return bytes(data)
    if codec is Compression.GZIP:
        return _decompress_gzip(memoryview(data), limit_bytes)
    if codec is Compression.SNAPPY:
        return _decompress_snappy(memoryview(data), limit_bytes)
    if codec is Compression.ZSTD:
        known_bytes = _zstd_content(memoryview(data), limit_bytes)
        return _decompress_frames(codec, data, known_bytes, limit_bytes)
    return _decompress_frames(codec, data, None, limit_bytes)


def _cramjam() -> Any:  # its modules are built at run time; their stubs miss what we call
    import cramjam  # noqa: PLC0415 - loaded at the first use, see the module's docstring

    return cramjam


def _too_large(codec: Compression, limit_bytes: int) -> MessageTooLarge:
    return MessageTooLarge(
        f"The records take more than {limit_bytes} bytes once decompressed ({codec.name.lower()})"
    )


def _corrupt(codec: Compression, cause: object) -> CorruptMessage:
    return CorruptMessage(
        f"The compressed records are no valid {codec.name.lower()}", cause=str(cause)
    )


def _decompress_gzip(data: memoryview, limit_bytes: int) -> bytes:
    members: list[bytes] = []
    left = limit_bytes
    while data.nbytes or not members:
        inflate = zlib.decompressobj(31)
        try:
            # One byte above the limit tells "exactly full" from "too large".
            member = inflate.decompress(data, left + 1)
        except zlib.error as error:
            raise _corrupt(Compression.GZIP, error) from error
        left -= len(member)
        if left < 0:
            raise _too_large(Compression.GZIP, limit_bytes)
        if not inflate.eof:
            raise _corrupt(Compression.GZIP, "it ends too early")
        members.append(member)
        data = data[data.nbytes - len(inflate.unused_data) :]
    return members[0] if len(members) == 1 else b"".join(members)


def _compress_snappy(data: Buffer) -> bytes:
    compress_raw = _cramjam().snappy.compress_raw
    view = memoryview(data)
    pieces = [_XERIAL_HEADER]
    for start in range(0, view.nbytes, _XERIAL_BLOCK_BYTES):
        block = bytes(compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += [len(block).to_bytes(4, "big"), block]
    return b"".join(pieces)


def _decompress_snappy(data: memoryview, limit_bytes: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(data, limit_bytes, limit_bytes)
    if data.nbytes < len(_XERIAL_HEADER):
        raise _corrupt(Compression.SNAPPY, "it ends inside its header")
    position, left = len(_XERIAL_HEADER), limit_bytes
    blocks = []
    while position < data.nbytes:
        start = position + 4
        position = start + int.from_bytes(data[position:start], "big")
        if position > data.nbytes:
            raise _corrupt(Compression.SNAPPY, "it ends inside a block")
        block = _snappy_block(data[start:position], left, limit_bytes)
        left -= len(block)
        blocks.append(block)
    return b"".join(blocks)


def _snappy_block(block: memoryview, left: int, limit_bytes: int) -> bytes:
    cramjam = _cramjam()
    try:
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > left:
            raise _too_large(Compression.SNAPPY, limit_bytes)
        if claimed > block.nbytes * _SNAPPY_LARGEST_RATIO:
            raise _corrupt(Compression.SNAPPY, f"{block.nbytes} bytes claim to hold {claimed}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _corrupt(Compression.SNAPPY, error) from error


def _decompress_frames(
    codec: Compression, data: Buffer, known_bytes: int | None, limit_bytes: int
) -> bytes:
    """Decompress into room of our own, with more of it each time that it was too little."""
    cramjam = _cramjam()
    decompress_into = getattr(cramjam, codec.name.lower()).decompress_into
    guessed = max(_FIRST_GUESS_BYTES, memoryview(data).nbytes * _GUESSED_RATIO)
    size = min(guessed if known_bytes is None else known_bytes, limit_bytes)
    while True:
        room = bytearray(size)
        try:
            written = decompress_into(data, room)
        except cramjam.DecompressionError as error:
            if str(error) != _NO_ROOM:
                raise _corrupt(codec, error) from error
        else:
            return bytes(memoryview(room)[:written])
        if size >= limit_bytes:
            raise _too_large(codec, limit_bytes)
        size = min(max(size, _FIRST_GUESS_BYTES) * _GUESSED_RATIO, limit_bytes)


def _zstd_content(data: memoryview, limit_bytes: int) -> int | None:
    """The content size that the first zstd frame names, if it does.

    Refuses what would not fit, and a window that would take more memory than the records may.
    """
    if data.nbytes < 14 or bytes(data[:4]) != _ZSTD_MAGIC:
        return None
    descriptor = data[4]
    single_segment = descriptor & 0b0010_0000 != 0
    position = 5
    if not single_segment:
        exponent, mantissa = data[5] >> 3, data[5] & 0b111
        window_bytes = (1 << (10 + exponent)) // 8 * (8 + mantissa)
        if window_bytes > max(limit_bytes, _SMALLEST_WINDOW_LIMIT):
            raise _too_large(Compression.ZSTD, limit_bytes)
        position = 6
    position += (0, 1, 2, 4)[descriptor & 0b11]
    size_bytes = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    if size_bytes == 0:
        return None
    content = int.from_bytes(data[position : position + size_bytes], "little")
    content += 256 if size_bytes == 2 else 0
    if content > limit_bytes:
        raise _too_large(Compression.ZSTD, limit_bytes)
    return content
