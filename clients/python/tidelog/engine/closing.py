"""`with` and `async with` for the clients that leave nothing behind: leaving closes.

Admin and consumers derive from one of these; producers have more to say when they are left.
Invariant: leaving closes whatever happened inside, and hides no error of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """A client of ordinary code."""

    @abstractmethod
    def close(self) -> None:
        """Ends what it has begun."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClosing(ABC):
    """A client of asyncio."""

    @abstractmethod
    async def close(self) -> None:
        """Ends what it has begun."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
