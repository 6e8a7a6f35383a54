"""A long poll that waits for more: it holds nothing of what it has read."""

from __future__ import annotations

import asyncio
import weakref
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tidelog.wire.v1 import fetch_pb2
from tidelog_broker.api.caller import Caller
from tidelog_broker.api.fetch import LongPoll
from tidelog_runtime.principal import ANONYMOUS


class Response:
    """Something that was read."""


def test_what_was_read_goes_before_the_wait() -> None:
    read: list[weakref.ref[Response]] = []

    def read_all(_: LongPoll) -> tuple[Response, bool]:
        response = Response()
        read.append(weakref.ref(response))
        return response, len(read) == 3

    async def main() -> None:
        broker: Any = SimpleNamespace()
        options = fetch_pb2.FetchOptions(min_bytes=1 << 20, max_wait_ms=3_600_000)
        request = fetch_pb2.FetchRequest(options=options)
        poll = LongPoll(broker, Caller(ANONYMOUS, "", ""), request)
        answer = asyncio.create_task(poll.run(), name="long-poll")
        for reads in (1, 2):
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(read) == reads
            assert read[-1]() is None, "nothing is kept"
            poll.on_commit()
        await answer
        assert len(read) == 3

    with patch.object(LongPoll, "_read_all", read_all):
        asyncio.run(main())
