"""A grpc.aio channel whose `close` returns when nothing of its calls is left on the event loop.

`channel_grpc` makes them. grpc.aio itself forgets an operation whose waiter was cancelled: its
event comes some moments later, after the caller has closed, and finds tasks that nobody waits for,
or a loop that has ended. Invariant: a call is ended where gRPC's core runs it, so that its tasks
end by themselves, and each of them is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Self
from weakref import WeakSet

import grpc.aio

#: How long gRPC may take to tell that a cancelled call has ended; it takes a moment.
ENDING_S: Final = 1.0
CANCELLED: Final = "Locally cancelled by application!"


class QuietChannel(grpc.aio.Channel):
    """See the module. Everything but the end of a call is left to the channel inside."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self._calls: WeakSet[Any] = WeakSet()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    # ------------------------------------------------------------------ grpc.aio.Channel

    def unary_unary(self, *method: Any, **options: Any) -> Any:
        """See grpc.aio.Channel."""
        return partial(self._begin_unary, self._channel.unary_unary(*method, **options))

    def unary_stream(self, *method: Any, **options: Any) -> Any:
        """See grpc.aio.Channel."""
        return partial(self._begin, self._channel.unary_stream(*method, **options))

    def stream_unary(self, *method: Any, **options: Any) -> Any:
        """See grpc.aio.Channel."""
        return partial(self._begin, self._channel.stream_unary(*method, **options))

    def stream_stream(self, *method: Any, **options: Any) -> Any:
        """See grpc.aio.Channel."""
        return partial(self._begin, self._channel.stream_stream(*method, **options))

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """See grpc.aio.Channel."""
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """See grpc.aio.Channel."""
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """See grpc.aio.Channel."""
        await self._channel.channel_ready()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        """Cancels the calls that still run after `grace` seconds, and waits until they are gone."""
        self._is_closed = True
        if grace and self._tasks:
            await asyncio.wait(set(self._tasks), timeout=grace)
        for call in list(self._calls):
            call.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=ENDING_S)
        await self._channel.close()

    # ------------------------------------------------------------------ calls

    def _begin_unary(self, start: Callable[..., Any], *request: Any, **details: Any) -> _UnaryCall:
        self._refuse_if_closed()
        call = _UnaryCall(start(*request, **details))
        self._calls.add(call)
        self._keep([call.ending])
        return call

    def _begin(self, start: Callable[..., Any], *requests: Any, **details: Any) -> Any:
        """Starts a streaming call and learns which tasks gRPC has made for it.

        It makes some at once, and in their first step one more, which waits for the call's end:
        what is new after that step and was not there before it.
        """
        self._refuse_if_closed()
        loop = asyncio.get_running_loop()
        known = asyncio.all_tasks()
        loop.call_soon(lambda: known.update(asyncio.all_tasks()))
        call = start(*requests, **details)
        self._calls.add(call)
        self._keep(asyncio.all_tasks() - known)
        loop.call_soon(lambda: self._keep(asyncio.all_tasks() - known))
        return call

    def _keep(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        for task in tasks:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise grpc.aio.UsageError("Channel is closed.")


class _UnaryCall:
    """A call of gRPC's with another way to be cancelled; the rest is the call's own."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.ending = asyncio.get_running_loop().create_task(_end_of(call), name="tidelog-call")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def cancel(self) -> bool:
        """Ends the call in gRPC's core alone, as the call's own `cancel` begins.

        That goes on to cancel the task which waits for the core, and so nobody is told the end.
        """
        if self._call.done():
            return False
        self._call._cython_call.cancel(CANCELLED)
        return True

    def __await__(self) -> Generator[Any, None, Any]:
        return self._answer().__await__()

    async def _answer(self) -> Any:
        try:
            await asyncio.shield(self.ending)
        except asyncio.CancelledError:
            self.cancel()
            raise
        return await self._call


async def _end_of(call: Any) -> None:
    """Returns once the call has ended and gRPC has told so; keeps nothing but the call."""
    with suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
        await call
