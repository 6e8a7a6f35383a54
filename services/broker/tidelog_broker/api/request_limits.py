"""What one request may ask for, looked at while it is still bytes.

`registration.py` puts this before every reader of a request. Items that are empty on the wire take
forty times their bytes once they are read, and each costs work and an answer. The invariant: what a
request makes of memory is bounded by these numbers, whatever its bytes say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidelog.errors import InvalidRequest
from tidelog.wire.envelopes import has_more_fields

#: As many as a large cluster has partitions; each is answered by itself.
REQUEST_ITEMS_MAX: Final = 100_000
#: A request that carries no batches has no reason to be larger.
PLAIN_REQUEST_BYTES_MAX: Final = 4 << 20
#: An item takes at least its tag and its length.
_ITEM_BYTES_MIN: Final = 2


class RequestLimit:
    """The limit of one call."""

    def __init__(self, *, carries_batches: bool = False) -> None:
        self._bytes_max = None if carries_batches else PLAIN_REQUEST_BYTES_MAX

    def guard(self, read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """The same reader, which raises InvalidRequest before it reads what is beyond the limit."""

        def read_within_limit(content: bytes) -> Any:
            self.check(content)
            return read(content)

        return read_within_limit

    def check(self, content: bytes) -> None:
        """Raises InvalidRequest for a request that is too large, or has too many items."""
        if self._bytes_max is not None and len(content) > self._bytes_max:
            raise InvalidRequest(
                f"A request of {len(content)} bytes that carries no batches is above the"
                f" {self._bytes_max} that this broker reads",
                hint="Ask for fewer things at once",
            )
        if len(content) <= REQUEST_ITEMS_MAX * _ITEM_BYTES_MIN:
            return
        if has_more_fields(content, REQUEST_ITEMS_MAX):
            raise InvalidRequest(
                f"A request of more than {REQUEST_ITEMS_MAX} items is not read",
                hint="Ask for fewer things at once",
            )
