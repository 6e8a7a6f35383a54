"""The calls and streams that a listener serves, and how many it lets in at once.

First among the interceptors of `grpc_serving`, so each call passes here before anything of it is
read. gRPC's own limit would do, but it says neither which setting it is nor its value, and it
refuses the probe of a health check as well: a busy broker would be killed for being busy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2

from tidelog.errors import ThrottlingQuotaExceeded
from tidelog_runtime.wire_errors import ERROR_KEY, to_wire

logger = logging.getLogger(__name__)

HEALTH_SERVICE: Final = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
#: What probes call. `Watch` holds its place for as long as it likes, and so has none kept free.
PROBE: Final = f"/{HEALTH_SERVICE}/Check"
#: Places above the limit that only probes may take. They have an end too, since a client may open
#: a call and never send its request.
PROBES_MAX: Final = 100

#: How long the tasks of calls may take to end once gRPC says that all is over; it takes a moment.
ENDING_S: Final = 1.0
#: A listener that stays full says so again after this.
SAY_AGAIN_S: Final = 60.0
#: Turns of the loop from a call's end until the task that waits for it has ended too.
TURNS_TO_END: Final = 3


class RunningCalls(grpc.aio.ServerInterceptor):
    """Knows the task of each call: to count them, and to wait for them at the end.

    gRPC's `stop` may return before the last has ended.
    """

    def __init__(self, calls_max: int) -> None:
        self._calls_max = calls_max
        self._served: set[asyncio.Task[Any]] = set()
        #: Apart, so that a storm of refusals keeps nobody out once there is room.
        self._refused: set[asyncio.Task[Any]] = set()
        #: How many were refused, ever.
        self.refused_count = 0
        self._say_at = 0.0
        # As a stream, whatever the call is: gRPC would read the request of any other first.
        make: Any = grpc.stream_stream_rpc_method_handler
        self._refusal = make(self._refuse)

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Notes the task in which gRPC serves this call, if there is room for one more."""
        served = self._served
        is_full = len(served) >= self._calls_max and not self._is_probe(handler_call_details.method)
        tasks = self._refused if is_full else served
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return self._refusal if is_full else await continuation(handler_call_details)

    def _is_probe(self, method: str) -> bool:
        """Whether a full listener serves this call nevertheless."""
        return method == PROBE and len(self._served) < self._calls_max + PROBES_MAX

    @property
    def running_count(self) -> int:
        """How many are served now."""
        return len(self._served)

    def _count_refusal(self) -> None:
        self.refused_count += 1
        now = asyncio.get_running_loop().time()
        if now >= self._say_at:
            self._say_at = now + SAY_AGAIN_S
            logger.warning(
                "a listener serves as many calls and streams as max.concurrent.rpcs=%d allows:"
                " further ones are refused (%d until now); raise it, or have fewer clients",
                self._calls_max,
                self.refused_count,
            )

    async def _refuse(self, _: Any, context: Any) -> None:
        self._count_refusal()
        error = ThrottlingQuotaExceeded(
            f"As many calls and streams are served at once as max.concurrent.rpcs={self._calls_max}"
            " allows",
            hint="Try again when some have ended, or raise max.concurrent.rpcs of the broker",
        )
        trailing = ((ERROR_KEY, to_wire(error).SerializeToString()),)
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error), trailing)

    async def wait_until_ended(self) -> None:
        """Returns when the tasks are gone, which after `stop` takes a moment."""
        if tasks := self._served | self._refused:
            await asyncio.wait(tasks, timeout=ENDING_S)
        for _ in range(TURNS_TO_END):
            await asyncio.sleep(0)
