"""The word that the broker is about to stop, and who wants to hear it.

Said once, before anything is taken down: from then on new calls are refused, produce streams
answer what they have taken and end, readers are told to look elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.errors import ShuttingDown


class Stopping:
    """A flag that can be listened to."""

    __slots__ = ("_broker_name", "_listeners", "_next_key", "is_set")

    def __init__(self, broker_name: str) -> None:
        self._broker_name = broker_name
        self._listeners: dict[int, Callable[[], None]] = {}
        self._next_key = 0
        self.is_set = False

    def reason(self) -> ShuttingDown:
        """What callers are told."""
        return ShuttingDown(
            f"{self._broker_name} is shutting down", hint="Ask again: another broker, or it later"
        )

    def check(self) -> None:
        """Refuses whatever comes once the flag is set."""
        if self.is_set:
            raise self.reason()

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls back when the flag is set (at once if it is); returns how to stop listening."""
        key = self._next_key
        self._next_key += 1
        self._listeners[key] = callback
        if self.is_set:
            callback()

        def stop_listening() -> None:
            self._listeners.pop(key, None)

        return stop_listening

    def set(self) -> None:
        """Tells everybody, in the order in which they began to listen."""
        self.is_set = True
        for callback in list(self._listeners.values()):
            callback()
