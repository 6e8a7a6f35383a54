"""Checksummed frames: how everything beside the segments themselves is written to disk.

Journal and index files are a header and a growing run of frames; checkpoints, snapshots and
markers are a header and exactly one. The invariant: what is read back was written whole, and was
written by a format version we know; anything else is reported as damage, never half believed.

    header   4 bytes  magic, names the kind of file
             2 bytes  format version, big endian
    frame    4 bytes  length of the payload, at least 1 (so that zeroes are not a frame)
             4 bytes  CRC32C of the payload
             payload
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from tidelog.errors import StorageError, UnsupportedVersion
from tidelog.records.crc import crc32c

_HEADER: Final = struct.Struct(">4sH")
_FRAME: Final = struct.Struct(">II")

HEADER_SIZE: Final = _HEADER.size


class DamagedFile(StorageError):
    """A file beside the segments fails its checksum or is not what its name says."""


def header(magic: bytes, version: int) -> bytes:
    """The first bytes of a file of this kind."""
    return _HEADER.pack(magic, version)


def frame(payload: bytes) -> bytes:
    """A payload with its length and checksum."""
    assert payload, "an empty frame could not be told from zeroes"
    return _FRAME.pack(len(payload), crc32c(payload)) + payload


def check_header(content: bytes, magic: bytes, version: int, path: str) -> None:
    """Raise unless the content begins as a file of this kind and version does."""
    if len(content) < HEADER_SIZE:
        raise DamagedFile(f"{path} ends within its header ({len(content)} bytes)")
    found_magic, found_version = _HEADER.unpack_from(content)
    if found_magic != magic:
        raise DamagedFile(f"{path} begins with {found_magic!r} instead of {magic!r}")
    if found_version != version:
        raise UnsupportedVersion(
            f"{path} has format version {found_version}; this broker knows version {version}",
            hint="Start the release that wrote it, or one that can upgrade it",
        )


def frames(content: bytes, position: int = HEADER_SIZE) -> Iterator[tuple[int, memoryview]]:
    """Each whole frame's payload with the position behind it; ends at the first bad one."""
    view = memoryview(content)
    while position + _FRAME.size < len(content):
        length, checksum = _FRAME.unpack_from(content, position)
        start = position + _FRAME.size
        end = start + length
        if length == 0 or end > len(content):
            return
        payload = view[start:end]
        if crc32c(payload) != checksum:
            return
        yield end, payload
        position = end


def seal(magic: bytes, version: int, payload: bytes) -> bytes:
    """The content of a file that holds one payload."""
    return header(magic, version) + frame(payload)


def unseal(content: bytes, magic: bytes, version: int, path: str) -> memoryview:
    """The payload of a sealed file; DamagedFile unless every byte is as it was written."""
    check_header(content, magic, version, path)
    for end, payload in frames(content):
        if end == len(content):
            return payload
    raise DamagedFile(f"{path} fails its checksum ({len(content)} bytes)")
