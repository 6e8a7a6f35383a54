"""What `Producer` and `AsyncProducer` share when they are made: settings, accumulator, refusals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, Final

from tidelog.channel import ChannelFactory
from tidelog.channel_grpc import grpc_channel_factory
from tidelog.engine.cluster import Cluster
from tidelog.errors import ClientClosed, ForkedClient, InvalidRequest, TidelogError
from tidelog.forking import FORK_HINT
from tidelog.producer.accumulator import Accumulator
from tidelog.producer.delivery import Deliveries
from tidelog.producer.producer_settings import ProducerSettings
from tidelog.wording import counted

CLOSED: Final = "The producer is closed"


def accumulator_of(
    settings: ProducerSettings,
    *,
    clock: Callable[[], float],
    wake: Callable[[], None],
    hurry: Callable[[bool], None],
    is_shared: bool,
) -> Accumulator:
    """The accumulator that these settings ask for."""
    return Accumulator(
        batch_bytes=settings.batch_size,
        limit_bytes=settings.buffer_memory,
        clock=clock,
        wake=wake,
        hurry=hurry,
        is_shared=is_shared,
    )


def cluster_of(
    settings: ProducerSettings, bootstrap: list[str], channel_factory: ChannelFactory | None
) -> Cluster:
    """The producer's way to the cluster."""
    return Cluster(
        bootstrap,
        channel_factory or grpc_channel_factory(),
        client_id=settings.client_id,
        request_timeout_s=settings.client_timeout_s,
    )


def several(name: str, values: Any) -> None:
    """Refuses one text where many records are meant: each of its letters would become one."""
    is_one = isinstance(values, str | bytes | bytearray | memoryview)
    if is_one or not isinstance(values, Iterable):
        raise InvalidRequest(
            f"send_many takes a list of {name}, not one {type(values).__name__}",
            hint="send() takes one record",
        )


@contextmanager
def telling_what_was_taken(deliveries: Deliveries) -> Iterator[None]:
    """A call of many records that ends early: its error carries the handle of those taken."""
    try:
        yield
    except TidelogError as error:
        if not len(deliveries):
            raise
        carrier = copy(error)
        carrier.taken = deliveries
        carrier.add_note(
            f"{counted(len(deliveries), 'record')} of the call had been taken and will have"
            " verdicts: the error's `taken` is their handle"
        )
        raise carrier from error.__cause__


def described(producer: object, bootstrap: list[str], refusal: TidelogError | None) -> str:
    """How a producer shows itself, as the other clients do."""
    state = "" if refusal is None else ", closed"
    return f"{type(producer).__name__}({', '.join(bootstrap)!r}{state})"


def closed_error() -> ClientClosed:
    """What a closed producer answers."""
    return ClientClosed(CLOSED, hint="Make a new one")


def forked_error(made_in: int) -> ForkedClient:
    """What the parent's producer answers in a child process."""
    return ForkedClient(
        f"The producer was made by process {made_in}, this is {os.getpid()}",
        hint=FORK_HINT,
    )
