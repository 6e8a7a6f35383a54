"""A long poll that waits for more: it reads once, when it answers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tidelog.wire.v1 import fetch_pb2
from tidelog_broker.api.caller import Caller
from tidelog_broker.api.fetch import LongPoll
from tidelog_runtime.principal import ANONYMOUS


def test_nothing_is_read_before_it_is_worth_an_answer() -> None:
    asked: list[str] = []

    def is_worth_answering(_: LongPoll) -> bool:
        asked.append("size")
        return len(asked) == 3

    def read_all(_: LongPoll) -> fetch_pb2.FetchResponse:
        asked.append("records")
        return fetch_pb2.FetchResponse()

    async def main() -> None:
        broker: Any = SimpleNamespace()
        options = fetch_pb2.FetchOptions(min_bytes=1 << 20, max_wait_ms=3_600_000)
        request = fetch_pb2.FetchRequest(options=options)
        poll = LongPoll(broker, Caller(ANONYMOUS, "", ""), request)
        answer = asyncio.create_task(poll.run(), name="long-poll")
        for times in (1, 2):
            for _ in range(10):
                await asyncio.sleep(0)
            assert asked == ["size"] * times
            poll.on_commit()
        await answer
        assert asked == ["size", "size", "size", "records"]

    with (
        patch.object(LongPoll, "_is_worth_answering", is_worth_answering),
        patch.object(LongPoll, "_read_all", read_all),
    ):
        asyncio.run(main())
