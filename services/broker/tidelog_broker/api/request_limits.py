"""What one request may ask for, looked at before it is read as far as that is dear.

`registration.py` puts this before every reader of a request. Items that are empty on the wire take
forty times their bytes once they are read, and each costs work and an answer. The invariant: what a
request makes of memory is bounded by these numbers, whatever its bytes say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

from tidelog.errors import InvalidRequest
from tidelog.wire.envelopes import Incoming, has_more_fields

#: As many as a large cluster has partitions; each is answered by itself.
REQUEST_ITEMS_MAX: Final = 100_000
#: A request that carries no batches has no reason to be larger; one that does is counted as bytes.
PLAIN_REQUEST_BYTES_MAX: Final = 4 << 20
#: An item takes at least its tag and its length.
_ITEM_BYTES_MIN: Final = 2


class RequestLimit:
    """The limit of one call."""

    def __init__(self, *, carries_batches: bool = False) -> None:
        self._carries_batches = carries_batches

    def guard(self, read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """The same reader, which raises InvalidRequest for what is beyond the limit."""

        def read_within_limit(content: bytes) -> Any:
            if len(content) <= REQUEST_ITEMS_MAX * _ITEM_BYTES_MIN:
                return read(content)
            refusal = self._refusal(content)
            request = read(content) if refusal is None else None
            if request is not None and items_of(request) > REQUEST_ITEMS_MAX:
                refusal = _too_many()
            if refusal is None:
                return request
            # The error's traceback keeps what stands here for as long as somebody keeps the error.
            content, request = b"", None
            raise refusal

        return read_within_limit

    def _refusal(self, content: bytes) -> InvalidRequest | None:
        """Why these bytes are not even read."""
        if len(content) <= PLAIN_REQUEST_BYTES_MAX:
            return None
        if not self._carries_batches:
            return InvalidRequest(
                f"A request of {len(content)} bytes that carries no batches is above the"
                f" {PLAIN_REQUEST_BYTES_MAX} that this broker reads",
                hint="Ask for fewer things at once",
            )
        try:
            return _too_many() if has_more_fields(content, REQUEST_ITEMS_MAX) else None
        except DecodeError as fault:
            # What can't be counted isn't read either: the two need not agree on where it ends.
            return InvalidRequest(
                f"A request of {len(content)} bytes is no message of this protocol",
                cause=str(fault),
            )


def items_of(request: Any) -> int:
    """How many things a request holds, in all its lists."""
    if isinstance(request, Incoming):
        return len(request.payloads)
    lists = [field.name for field in request.DESCRIPTOR.fields if field.is_repeated]
    return sum(len(getattr(request, name)) for name in lists)


def _too_many() -> InvalidRequest:
    return InvalidRequest(
        f"A request of more than {REQUEST_ITEMS_MAX} items is not served",
        hint="Ask for fewer things at once",
    )
