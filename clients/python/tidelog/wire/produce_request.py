"""A ProduceRequest on its way out, in pieces that are joined once, into what gRPC sends.

The producer's pipeline makes one for each request, the lane hands it to gRPC, which calls
`to_bytes`. Invariant: the bytes are those of a `ProduceRequest` of the schema. Generated code would
copy each batch three times more on the way; here it makes all that is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidelog.wire.v1 import produce_pb2

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LENGTH_DELIMITED: Final = 2
_FIELDS: Final = produce_pb2.ProduceRequest.DESCRIPTOR.fields_by_name
_ITEM_FIELDS: Final = produce_pb2.PartitionBatch.DESCRIPTOR.fields_by_name


def _tag(number: int) -> bytes:
    return varint(number << 3 | _LENGTH_DELIMITED)


def varint(number: int) -> bytes:
    """A number as protobuf writes lengths."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_PARTITION: Final = _tag(_FIELDS["partitions"].number)
_BATCH: Final = _tag(_ITEM_FIELDS["batch"].number)


class OutgoingProduce:
    """See the module; `head` holds what the request says as a whole."""

    __slots__ = ("_pieces", "head")

    def __init__(self, head: produce_pb2.ProduceRequest) -> None:
        self.head = head
        self._pieces: list[Buffer] = []

    def add(self, item: produce_pb2.PartitionBatch, batch: Sequence[Buffer], size: int) -> None:
        """Adds a partition's batch: `item` says all but the batch, which takes `size` bytes."""
        said = b"".join((item.SerializeToString(), _BATCH, varint(size)))
        self._pieces += (_PARTITION, varint(len(said) + size), said, *batch)

    def to_bytes(self) -> bytes:
        """The request as it is sent."""
        return b"".join((self.head.SerializeToString(), *self._pieces))
