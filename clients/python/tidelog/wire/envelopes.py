"""Messages with large payloads, without the copies that generated code makes of each.

What is produced and what is fetched travels in items of a request or an answer, each with one field
of bytes that may be a megabyte. An `Outgoing` is joined once, into what gRPC sends; `Layout.split`
leaves the payloads where they arrived. Invariant: the bytes are those of the schema, and generated
code reads and writes all that is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from google.protobuf.message import DecodeError

from tidelog.wire.v1 import fetch_pb2, produce_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from typing_extensions import Buffer

MessageT = TypeVar("MessageT", bound="Message")

#: An answer or a request whose first item is smaller is left to generated code, whose price is by
#: the byte; ours is by the item.
LARGE_ITEM_BYTES: Final = 16 * 1024
#: And so is one of more items, most of which must be small.
ITEMS_SPLIT_MAX: Final = 10_000
#: And so is an item of more fields than any type has that carries a payload: a view takes ninety
#: times what a field of two bytes does.
ITEM_FIELDS_MAX: Final = 16
#: An item is put back as its tag, its length and what is left of it; what is no item is one piece.
_PIECES_MAX: Final = 3 * ITEMS_SPLIT_MAX

_LENGTH_DELIMITED: Final = 2
_SEVEN_BITS: Final = 0x7F
_LONGEST_VARINT: Final = 10
#: Bytes that a field takes behind its tag, by wire type, where that is fixed.
_FIXED_BYTES: Final = {1: 8, 5: 4}


class Incoming(NamedTuple, Generic[MessageT]):
    """A message without its payloads, and the payload of each item, which is a view or bytes.

    Views are of `content`, which is the message as it arrived, each from its place in `begins` on;
    both are empty where the payloads are bytes of their own.
    """

    message: MessageT
    payloads: Sequence[bytes | memoryview]
    content: bytes = b""
    begins: Sequence[int] = ()


class Layout(Generic[MessageT]):
    """Where in a type of message the payloads lie."""

    def __init__(self, message_type: type[MessageT], items: str, payload: str) -> None:
        field = message_type.DESCRIPTOR.fields_by_name[items]
        assert field.message_type is not None
        self._type = message_type
        self._items = items
        self._payload = payload
        self.item_tag: Final = field.number << 3 | _LENGTH_DELIMITED
        number = field.message_type.fields_by_name[payload].number
        self.payload_tag: Final = number << 3 | _LENGTH_DELIMITED

    def split(self, content: bytes) -> Incoming[MessageT]:
        """Reads a message; raises `DecodeError` where it is none."""
        if len(content) >= LARGE_ITEM_BYTES:
            try:
                found = self._split(content)
            except IndexError as error:
                raise DecodeError("A message ends within a field") from error
            if found is not None:
                return found
        message = self._type.FromString(content)
        items: Iterable[Any] = getattr(message, self._items)
        return Incoming(message, [getattr(item, self._payload) for item in items])

    def _split(self, content: bytes) -> Incoming[MessageT] | None:
        """None where generated code does better."""
        view = memoryview(content)
        rest: list[Buffer] = []
        payloads: list[bytes | memoryview] = []
        begins: list[int] = []
        position, end = 0, len(content)
        while position < end:
            begin = position
            tag, start, position = _field(content, position, end)
            if len(rest) >= _PIECES_MAX:
                return None
            if tag != self.item_tag:
                rest.append(view[begin:position])
                continue
            if not payloads and position - start < LARGE_ITEM_BYTES:
                return None
            taken_out = self._take_out(view, start, position)
            if taken_out is None:
                return None
            small, payload, place = taken_out
            rest += (varint(tag), varint(len(small)), small)
            payloads.append(payload)
            begins.append(place)
        return Incoming(self._type.FromString(b"".join(rest)), payloads, content, begins)

    def _take_out(
        self, view: memoryview, position: int, end: int
    ) -> tuple[bytes, bytes | memoryview, int] | None:
        """An item without its payload, the payload, and where that begins; None where it is odd."""
        small: list[Buffer] = []
        payload: bytes | memoryview = b""
        place = position
        content = view.obj
        assert isinstance(content, bytes)
        for _ in range(ITEM_FIELDS_MAX + 1):
            if position >= end:
                return b"".join(small), payload, place
            begin = position
            tag, start, position = _field(content, position, end)
            if tag == self.payload_tag:
                payload, place = view[start:position], start
            else:
                small.append(view[begin:position])
        return None


class Outgoing(Generic[MessageT]):
    """A message on its way out; `head` holds what it says beside its items."""

    __slots__ = ("_layout", "_pieces", "count", "head", "payload_bytes")

    def __init__(self, layout: Layout[MessageT], head: MessageT) -> None:
        self.head = head
        #: How many items there are, and what their payloads take.
        self.count = 0
        self.payload_bytes = 0
        self._layout = layout
        self._pieces: list[Buffer] = []

    def add(self, item: Message, payload: Sequence[Buffer], size: int) -> None:
        """Adds an item: `item` says all but the payload, which takes `size` bytes in its pieces."""
        self.count += 1
        self.payload_bytes += size
        small = item.SerializeToString()
        if size:
            small = b"".join((small, varint(self._layout.payload_tag), varint(size)))
        self._pieces += (varint(self._layout.item_tag), varint(len(small) + size), small, *payload)

    def to_bytes(self) -> bytes:
        """The message as it is sent."""
        return b"".join((self.head.SerializeToString(), *self._pieces))


#: What producers send.
PRODUCE: Final = Layout(produce_pb2.ProduceRequest, "partitions", "batch")
#: What leaders push.
FETCHED: Final = Layout(fetch_pb2.FetchStreamResponse, "partitions", "records")


def varint(number: int) -> bytes:
    """A number as protobuf writes tags and lengths."""
    encoded = bytearray()
    while number > _SEVEN_BITS:
        encoded.append(number & _SEVEN_BITS | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def has_more_fields(content: bytes, limit: int) -> bool:
    """Whether a message holds more values than that, repeated ones each; nothing of it is read.

    Raises `DecodeError` for a fault before that many, and for a group, which no message of ours
    has: generated code would read on behind it, and what is there was not counted.
    """
    position, end = 0, len(content)
    try:
        for _ in range(limit + 1):
            if position == end:
                return False
            length = content[position + 1]
            if content[position] & 0x87 != _LENGTH_DELIMITED:
                _, _, position = _field(content, position, end)
            elif length <= _SEVEN_BITS:
                # Items with small batches come by the thousand: a tag and a length of few bytes.
                position += 2 + length
            elif content[position + 2] <= _SEVEN_BITS:
                position += 3 + (length & _SEVEN_BITS | content[position + 2] << 7)
            else:
                _, _, position = _field(content, position, end)
    except IndexError as error:
        raise DecodeError("A message ends within a field") from error
    return True


def _read_varint(content: bytes, position: int) -> tuple[int, int]:
    """A number, and the position behind it."""
    number = 0
    for index in range(_LONGEST_VARINT):
        octet = content[position + index]
        number |= (octet & _SEVEN_BITS) << 7 * index
        if octet <= _SEVEN_BITS:
            return number, position + index + 1
    raise DecodeError("A number takes more than ten bytes")


def _field(content: bytes, position: int, end: int) -> tuple[int, int, int]:
    """The tag of the field at a position, where its content begins, and where it ends."""
    tag, start = _read_varint(content, position)
    kind = tag & 7
    if kind == _LENGTH_DELIMITED:
        length, start = _read_varint(content, start)
        after = start + length
    elif kind == 0:
        _, after = _read_varint(content, start)
    elif kind in _FIXED_BYTES:
        after = start + _FIXED_BYTES[kind]
    else:
        raise DecodeError(f"A field has the wire type {kind}")
    if after > end or tag >> 3 == 0:
        raise DecodeError("A field ends behind its message, or has no number")
    return tag, start, after
