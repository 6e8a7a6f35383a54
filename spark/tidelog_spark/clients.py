"""Clients that live as long as their process: every task of a worker uses the same connections.

Readers, writers and the driver's planning come here instead of making clients. Invariant: a client
is never used in another process than the one that made it, and never by two at once: one that only
one may use is borrowed and given back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tidelog.consumer.consumer import Consumer

Client = TypeVar("Client")

_lock = threading.Lock()
_shared: dict[Hashable, object] = {}
_idle: dict[Hashable, list[object]] = {}


def _key(kind: Callable[..., object], bootstrap: str, settings: dict[str, object]) -> Hashable:
    return os.getpid(), kind, bootstrap, tuple(sorted(settings.items()))


def client_for(kind: Callable[..., Client], bootstrap: str, **settings: object) -> Client:
    """This process's client of a kind (`Admin`, `Producer`) with these settings.

    It may be used by several at once and is closed when the process ends.
    """
    key = _key(kind, bootstrap, settings)
    with _lock:
        client = _shared.get(key)
        if client is None:
            client = _shared[key] = kind(bootstrap, **settings)
        return client  # type: ignore[return-value] # the kind is in the key


@contextmanager
def borrowed(kind: Callable[..., Client], bootstrap: str, **settings: object) -> Iterator[Client]:
    """A client that only one may use at a time (`Consumer`), given back for the next task.

    One whose use failed is not used again.
    """
    key = _key(kind, bootstrap, settings)
    with _lock:
        idle = _idle.setdefault(key, [])
        client = idle.pop() if idle else None
    if client is None:
        client = kind(bootstrap, **settings)
    try:
        yield client  # type: ignore[misc] # the kind is in the key
    except BaseException:
        client.close()  # type: ignore[attr-defined] # every client has it
        raise
    with _lock:
        idle.append(client)


def borrowed_consumer(
    bootstrap: str, **settings: object
) -> AbstractContextManager[Consumer[bytes, bytes]]:
    """A consumer for one task; its class is imported here, since most of planning needs none."""
    from tidelog.consumer.consumer import Consumer  # noqa: PLC0415

    return borrowed(Consumer, bootstrap, **settings)


def close_clients() -> None:
    """Closes all clients of this process; the next use makes new ones."""
    with _lock:
        clients = [*_shared.values(), *(client for idle in _idle.values() for client in idle)]
        _shared.clear()
        _idle.clear()
    for client in clients:
        client.close()  # type: ignore[attr-defined] # every client has it
