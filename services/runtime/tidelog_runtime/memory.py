"""Tunes the C library's memory allocator before a service starts.

gRPC hands megabyte messages back and forth; with glibc's defaults each one is mapped and unmapped
anew, and page faults halve the throughput (docs/performance.md has the figures). Service entry
points call this first thing. The client SDK never does: the process it lives in isn't ours.
"""

from __future__ import annotations

import ctypes
import platform
from typing import Final

M_TRIM_THRESHOLD: Final = -1
M_TOP_PAD: Final = -2
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8

MIB: Final = 1024 * 1024
#: 32 MiB is the most that glibc takes as mmap threshold. The pad is small against it, since what a
#: pad reserves counts as memory at rest.
SETTINGS: Final = (
    (M_MMAP_THRESHOLD, 32 * MIB),
    (M_TRIM_THRESHOLD, 256 * MIB),
    (M_TOP_PAD, 16 * MIB),
    (M_ARENA_MAX, 2),
)


def tune_allocator() -> bool:
    """Applies the settings; False where the C library is not glibc and nothing was changed."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    mallopt.restype = ctypes.c_int
    return all(mallopt(name, value) == 1 for name, value in SETTINGS)
