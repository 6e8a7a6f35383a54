"""The group coordinator as a service with a life of its own: it starts, it stops, it holds nothing.

Consumer groups, their offsets and their assignors come with the cluster's services. Until then the
composition root starts and stops it like the others, and no client is told that groups exist.
"""

from __future__ import annotations


class GroupCoordinator:
    """Holds no group yet."""

    def __init__(self) -> None:
        self._is_running = False

    @property
    def is_running(self) -> bool:
        """Between `start` and `stop`."""
        return self._is_running

    async def start(self) -> None:
        """Take up service."""
        assert not self._is_running, "a coordinator is started once"
        self._is_running = True

    async def stop(self) -> None:
        """Leave service; no error when it never began."""
        self._is_running = False
