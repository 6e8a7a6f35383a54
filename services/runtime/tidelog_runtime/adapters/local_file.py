"""One open file of the operating system, as the Disk port wants it.

Every batch that is appended goes through `LocalFile.append`, which is why this is compiled and
apart from `local_disk`. Appends are positional writes, vectored where there are several parts: no
part is copied or joined, and a failed append leaves the file as it was.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from typing import Final

from tidelog_runtime.disk import Buffer

#: The kernel takes at most this many parts in one vectored write.
_PARTS_MAX: Final = 1024


class DescriptorSync:
    """The sync of one open file: a call like any other, which the kernel can also make itself."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        #: -1 once the file is closed.
        self.descriptor = descriptor

    def __call__(self) -> None:
        """Sync here and now."""
        os.fdatasync(self.descriptor)


class LocalFile:
    """One open file. `size` is kept here, so that an append needs a single system call."""

    __slots__ = ("_descriptor", "size", "sync")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        #: Makes what was written so far durable when it is called.
        self.sync = DescriptorSync(descriptor)

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write all parts at the end, or nothing."""
        position = self.size
        only = parts[0] if len(parts) == 1 else None
        expected = len(only) if only is not None else sum([len(part) for part in parts])
        try:
            if only is not None:
                # The kernel has less to do than for a vector of one.
                written = os.pwrite(self._descriptor, only, position)
            else:
                written = os.pwritev(self._descriptor, parts[:_PARTS_MAX], position)
            if written != expected:
                self._write_rest(parts, position, written, expected)
        except OSError:
            self._cut_back(position)
            raise
        self.size = position + expected
        return position

    def _write_rest(
        self, parts: Sequence[Buffer], position: int, written: int, expected: int
    ) -> None:
        """A short write is legal; the next one either continues or says what is wrong."""
        while written < expected:
            rest = _after(parts, written)
            count = os.pwritev(self._descriptor, rest[:_PARTS_MAX], position + written)
            if count == 0:
                raise OSError(errno.EIO, "the file took no more bytes and gave no reason")
            written += count

    def _cut_back(self, position: int) -> None:
        # The error that brought us here tells more than a second one would.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, position)

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`."""
        content = os.pread(self._descriptor, length, position)
        if len(content) == length or position + len(content) >= self.size:
            return content
        pieces = [content]
        read = len(content)
        while read < length:
            piece = os.pread(self._descriptor, length - read, position + read)
            if not piece:
                break
            pieces.append(piece)
            read += len(piece)
        return b"".join(pieces)

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes."""
        os.ftruncate(self._descriptor, size)
        self.size = size

    def forget_cache(self, position: int) -> None:
        """Have the kernel drop the clean pages from there on."""
        os.posix_fadvise(self._descriptor, position, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = self.sync.descriptor = -1


def _after(parts: Sequence[Buffer], skipped: int) -> list[Buffer]:
    """The parts without their first `skipped` bytes, still without copying any."""
    rest: list[Buffer] = []
    for part in parts:
        if skipped >= len(part):
            skipped -= len(part)
            continue
        rest.append(memoryview(part)[skipped:])
        skipped = 0
    return rest
