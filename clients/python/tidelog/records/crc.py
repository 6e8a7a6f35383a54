"""CRC32C, the checksum of every record batch from the producer to the reader.

`batch` checks with it, `builder` seals with it. Invariant: the buffer is never copied, whatever
kind of buffer it is, and the package behind it (40 ms to import) is loaded at the first checksum.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer


@cache
def _implementation() -> Callable[[Buffer, int], int]:
    from crc32c import crc32c as implementation  # noqa: PLC0415 - see the module's docstring

    return implementation


def crc32c(buffer: Buffer, value: int = 0) -> int:
    """The CRC32C of a buffer; `value` is the checksum of what came before it."""
    return _implementation()(buffer, value)
