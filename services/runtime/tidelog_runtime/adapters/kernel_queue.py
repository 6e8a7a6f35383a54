"""The queue of syncs that Linux works on by itself (io_submit), and an event loop can watch.

Python offers no such call, so this is ctypes over four system calls and the layout of two
structures. `KernelQueue.open` tries the whole way once and says None where the system has no such
thing, or forbids it. Nothing here blocks but `wait_for_all` and `close`. The
invariant: of each sync that was taken, its end is told once, under the number it was given.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import struct
import sys
import time
from collections.abc import Sequence
from typing import Final, NamedTuple


class _Calls(NamedTuple):
    """The numbers of the system calls, which each architecture has of its own."""

    setup: int
    destroy: int
    events: int
    submit: int


_CALLS: Final = {
    "x86_64": _Calls(setup=206, destroy=207, events=208, submit=209),
    "aarch64": _Calls(setup=0, destroy=1, events=4, submit=2),
}
#: struct iocb on a little-endian machine: number, key, flags of the call, kind, priority,
#: descriptor, buffer, length, position, reserved, flags, descriptor to make readable.
_REQUEST: Final = struct.Struct("<QIIHhIQQqQII")
_FDATASYNC: Final = 3
_TELL_DESCRIPTOR: Final = 1
#: struct io_event: number, address of the request, result, second result.
_EVENT: Final = struct.Struct("<QQqq")
#: How long the trial may wait for an empty file in memory.
_TRIAL_S: Final = 1.0


class KernelQueue:
    """At most `capacity` syncs at a time, all from one thread."""

    def __init__(self, calls: _Calls, capacity: int) -> None:
        self.capacity = capacity
        self.under_way = 0
        self._calls = calls
        # The calls don't block: to let go of the interpreter's lock would cost more than they do.
        self._library = ctypes.PyDLL(None, use_errno=True)
        self._requests = bytearray(_REQUEST.size * capacity)
        self._events = bytearray(_EVENT.size * capacity)
        requests = ctypes.addressof(ctypes.c_char.from_buffer(self._requests))
        self._addresses = (ctypes.c_void_p * capacity)(
            *range(requests, requests + len(self._requests), _REQUEST.size)
        )
        self._event_memory = ctypes.c_void_p(
            ctypes.addressof(ctypes.c_char.from_buffer(self._events))
        )
        self._no_time = (ctypes.c_long * 2)(0, 0)
        self._context = ctypes.c_ulong(0)
        #: Readable when something has ended.
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            self._system_call(calls.setup, ctypes.c_uint(capacity), ctypes.byref(self._context))
        except OSError:
            os.close(self.descriptor)
            raise

    @classmethod
    def open(cls, capacity: int) -> KernelQueue | None:
        """A queue that was seen working; None where there can be none."""
        calls = _CALLS.get(platform.machine())
        if calls is None or sys.platform != "linux" or sys.maxsize < 2**32:
            return None
        try:
            queue = cls(calls, capacity)
        except OSError:
            return None
        if queue._works():
            return queue
        queue.close()
        return None

    def _works(self) -> bool:
        """Whether it syncs: kernels before 4.18 know no such request, some sandboxes neither."""
        try:
            trial = os.memfd_create("tidelog-sync", os.MFD_CLOEXEC)
        except OSError:
            return False
        try:
            if self.submit(0, [trial]) != 1:
                return False
            deadline = time.monotonic() + _TRIAL_S
            while time.monotonic() < deadline:
                if ended := self.ended():
                    return ended == [(0, None)]
                time.sleep(0)
            return False
        finally:
            os.close(trial)

    def submit(self, first: int, descriptors: Sequence[int]) -> int:
        """Begin the fdatasync of these, numbered from `first` on; how many of them were taken.

        The kernel refuses a descriptor that is none, and what it has no room for.
        """
        count = min(len(descriptors), self.capacity - self.under_way)
        for at in range(count):
            _REQUEST.pack_into(
                self._requests,
                at * _REQUEST.size,
                *(first + at, 0, 0, _FDATASYNC, 0, descriptors[at] & 0xFFFFFFFF, 0, 0, 0, 0),
                *(_TELL_DESCRIPTOR, self.descriptor),
            )
        taken = 0
        if count:
            with contextlib.suppress(OSError):  # none was taken: threads will see what is wrong
                taken = self._system_call(
                    self._calls.submit, self._context, ctypes.c_long(count), self._addresses
                )
        self.under_way += taken
        return taken

    def ended(self) -> list[tuple[int, OSError | None]]:
        """The numbers of those that have ended since the last call, and how."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.descriptor)
        return self._events_of(self._library, 0, self._no_time)

    def wait_for_all(self) -> list[tuple[int, OSError | None]]:
        """The same of all that are under way, when the last of them has ended."""
        # This one blocks, so that others must run meanwhile.
        return self._events_of(ctypes.CDLL(None, use_errno=True), self.under_way, None)

    def _events_of(
        self, library: ctypes.CDLL, at_least: int, patience: object
    ) -> list[tuple[int, OSError | None]]:
        count = self._system_call(
            self._calls.events,
            self._context,
            ctypes.c_long(at_least),
            ctypes.c_long(self.capacity),
            self._event_memory,
            patience,
            library=library,
        )
        self.under_way -= count
        found = memoryview(self._events)[: count * _EVENT.size]
        return [
            (number, OSError(-result, os.strerror(-result)) if result < 0 else None)
            for number, _, result, _ in _EVENT.iter_unpack(found)
        ]

    def _system_call(
        self, number: int, *arguments: object, library: ctypes.CDLL | None = None
    ) -> int:
        while True:
            call = (library or self._library).syscall
            result = int(call(ctypes.c_long(number), *arguments))
            if result >= 0:
                return result
            code = ctypes.get_errno()
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))

    def close(self) -> None:
        """Wait for what is under way, and give all back."""
        ctypes.CDLL(None).syscall(ctypes.c_long(self._calls.destroy), self._context)
        os.close(self.descriptor)
