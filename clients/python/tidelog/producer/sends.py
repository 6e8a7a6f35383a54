"""The two calls that programs make once a record: `Producer.send`, `AsyncProducer.send_nowait`.

Each is one compiled method, so that nothing but it stands between the caller and the accumulator.
They are the same but for their names; what a full buffer or an unknown topic means is the
subclass's to say, and so are the types of topic and partition: declared here, they would be checked
by compiled code, whose words do not name the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import get_ident
from typing import Any

from mypy_extensions import mypyc_attr

from tidelog.producer.accumulator import Accumulator
from tidelog.producer.delivery import Delivery
from tidelog.producer.handing_over import HandingOver, HeadersLike, Serializer, hand_over
from tidelog.producer.partitioner import Partitioner
from tidelog.producer.type_variables import K, V


@mypyc_attr(allow_interpreted_subclasses=True)
class ThreadSends(HandingOver[K, V]):
    """What `Producer` inherits."""

    def send(
        self,
        topic: Any,
        value: V | None = None,
        key: K | None = None,
        *,
        headers: HeadersLike | None = None,
        timestamp: int | datetime | None = None,
        partition: Any = None,
        on_delivery: Callable[[Delivery], object] | None = None,
        delivery_timeout: float | timedelta | None = None,
    ) -> Delivery:
        """Hands over one record; returns at once with a handle whose `result()` is the verdict.

        Waits only while the topic is not yet known or the buffer is full, at most
        `max_block_ms`; `BufferFull` then. `timestamp` is in milliseconds or a datetime,
        `delivery_timeout` in seconds: this record's own deadline. `on_delivery` is called with
        the handle at the verdict, from the producer's thread.
        """
        return hand_over(
            self,
            topic,
            value,
            key,
            headers,
            timestamp,
            partition,
            on_delivery,
            delivery_timeout,
        )


@mypyc_attr(allow_interpreted_subclasses=True)
class LoopSends(HandingOver[K, V]):
    """What `AsyncProducer` inherits."""

    def __init__(
        self,
        accumulator: Accumulator,
        partitioner: Partitioner,
        key: Serializer | None,
        value: Serializer | None,
    ) -> None:
        super().__init__(accumulator, partitioner, key, value)
        #: The thread of the loop that sends, and whether that runs; 0 until the first use. Both
        #: are asked once a record: the running loop itself would cost several times as much.
        self._thread_id: int = 0
        self._is_running: Callable[[], bool] = bool

    def _check_loop(self) -> None:
        """Refuses a caller on another loop than the one that sends, or on none."""

    def send_nowait(
        self,
        topic: Any,
        value: V | None = None,
        key: K | None = None,
        *,
        headers: HeadersLike | None = None,
        timestamp: int | datetime | None = None,
        partition: Any = None,
        on_delivery: Callable[[Delivery], object] | None = None,
        delivery_timeout: float | timedelta | None = None,
    ) -> Delivery:
        """Hands over one record without waiting; `await` the handle for the verdict.

        Raises `BufferFull` when the buffer has no room: let the loop run, or use `send`.
        """
        if get_ident() != self._thread_id or not self._is_running():
            self._check_loop()
        return hand_over(
            self,
            topic,
            value,
            key,
            headers,
            timestamp,
            partition,
            on_delivery,
            delivery_timeout,
        )
