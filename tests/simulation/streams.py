"""What both ends of a simulated call are made of: an inbox, and a window that bounds the sender.

A message counts against the sender's window from `acquire` until the receiving application took
it out of its inbox and the news of that travelled back, as HTTP/2 flow control does it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message


def serialized(message: Any, serializer: Callable[[Any], bytes] | None) -> bytes:
    """A message as it goes over the wire, the same in every process.

    The serializers of stubs and servicers write a map in an order that differs from one process to
    the next; asked for, protobuf writes it in the order of its keys.
    """
    data = bytes(message if serializer is None else serializer(message))
    return message.SerializeToString(deterministic=True) if isinstance(message, Message) else data


class SendWindow:
    """How many bytes of one direction may be under way; an empty window admits any message."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._outstanding = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def acquire(self, size: int) -> bool:
        """Wait for room; False when the stream ended meanwhile."""
        while not self._closed and not self._has_room(size):
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        if not self._closed:
            self._outstanding += size
        return not self._closed

    def release(self, size: int) -> None:
        """The receiver has taken a message of this size."""
        self._outstanding -= size
        self._wake()

    def close(self) -> None:
        """The stream ended: whoever waits is told so."""
        self._closed = True
        self._wake()

    def _has_room(self, size: int) -> bool:
        return self._outstanding == 0 or self._outstanding + size <= self._limit_bytes

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


class Inbox:
    """Messages that arrived and were not read yet; ends once, after the last of them."""

    def __init__(self, consumed: Callable[[int], None]) -> None:
        self._consumed = consumed
        self._messages: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message: bytes) -> None:
        """A message arrived."""
        if not self._ended:
            self._messages.append(message)
            self._wake()

    def end(self, *, discard: bool = False) -> None:
        """Nothing more will arrive; with `discard`, what is unread is lost too."""
        self._ended = True
        if discard:
            self._messages.clear()
        self._wake()

    async def get(self) -> bytes | None:
        """The next message, None after the last."""
        assert self._waiter is None, "only one read of a stream at a time"
        while not self._messages:
            if self._ended:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message = self._messages.popleft()
        self._consumed(len(message))
        return message

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
