"""What a client does once so that messages of a megabyte cost no page faults.

Producers and consumers call it when they are made. glibc maps each large block anew and gives it
back to the kernel at once, until a program has freed a large one: then it keeps as much at hand.
So one is allocated and freed here, never touched. The allocator's settings stay as they are: the
process isn't ours. Other C libraries are not changed by it.
"""

from __future__ import annotations

from functools import cache
from typing import Final

#: Above the largest message that a client sends or is pushed by default.
LARGEST_BYTES: Final = 8 * 1024 * 1024


@cache
def expect_large_messages() -> None:
    """Has the C library keep freed memory for the next message; only the first call does."""
    bytes(LARGEST_BYTES)
