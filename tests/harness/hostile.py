"""What a hostile or broken client may send: mutated batches, mutated messages, absurd values.

Everything is drawn from a seeded source. Half of the mutated batches get the CRC that belongs to
them, so that they come past the checksum and meet the checks behind it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from storage_kit.batches import batch

from tidelog.records.batch import CHECKED_POSITION, CRC, CRC_POSITION, HEADER_BYTES
from tidelog.records.compression import Compression
from tidelog.records.crc import crc32c

#: Position and format of the numbers in a batch header.
NUMBERS: Final = (
    (0, ">q"), (8, ">i"), (12, ">i"), (16, ">b"), (21, ">h"), (23, ">i"), (27, ">q"),
    (35, ">q"), (43, ">q"), (51, ">h"), (53, ">i"), (57, ">i"),
)  # fmt: skip
EDGES: Final = (0, 1, -1, 2, -2, 127, -128)


def valid_batches() -> list[bytes]:
    """What mutations begin with: small, large, compressed, idempotent."""
    values = [b"value %d" % number for number in range(50)]
    plain = [
        batch(b"x"),
        batch(*values),
        batch(b"y" * 3_000),
        batch(b"z", producer=(77, 0, 0)),
        batch(*values, producer=(78, 3, 0)),
    ]
    return plain + [batch(*values, compression=compression) for compression in Compression]


def sealed(content: bytes) -> bytes:
    """The same with the CRC that belongs to it."""
    if len(content) < HEADER_BYTES:
        return content
    renewed = bytearray(content)
    CRC.pack_into(renewed, CRC_POSITION, crc32c(bytes(content[CHECKED_POSITION:])))
    return bytes(renewed)


def flip_bits(content: bytes, chance: random.Random) -> bytes:
    """One to eight bits turned over, anywhere."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 8) if changed else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(content: bytes, chance: random.Random) -> bytes:
    """The beginning of it."""
    return content[: chance.randrange(len(content) + 1)]


def lengthen(content: bytes, chance: random.Random) -> bytes:
    """More bytes behind it, or the same once more."""
    return content + chance.choice((content, chance.randbytes(chance.randint(1, 200))))


def splice(content: bytes, chance: random.Random) -> bytes:
    """Random bytes in the middle."""
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.randbytes(chance.randint(1, 30)) + content[at:]


def lie(content: bytes, chance: random.Random) -> bytes:
    """Some numbers of the header replaced: lengths, counts, offsets, times, ids."""
    changed = bytearray(content)
    for position, form in chance.sample(NUMBERS, chance.randint(1, 3)):
        size = struct.calcsize(form)
        bits = size * 8 - 1
        number = chance.choice((*EDGES, 2**bits - 1, -(2**bits), chance.randrange(2**bits)))
        if position + size <= len(changed):
            struct.pack_into(form, changed, position, max(-(2**bits), min(2**bits - 1, number)))
    return bytes(changed)


MUTATIONS: Final[tuple[Callable[[bytes, random.Random], bytes], ...]] = (
    flip_bits, cut, lengthen, splice, lie, lie, lie,
)  # fmt: skip


def mutated_batch(originals: list[bytes], chance: random.Random) -> bytes:
    """One batch that somebody broke, by accident or on purpose."""
    content = chance.choice(MUTATIONS)(chance.choice(originals), chance)
    return sealed(content) if chance.random() < 0.5 else content


def mutated_bytes(content: bytes, chance: random.Random) -> bytes:
    """A serialised message that somebody broke."""
    return chance.choice((flip_bits, cut, lengthen, splice))(content, chance)


# --- messages with absurd values -----------------------------------------------------------------

TEXTS: Final = (
    "", "orders", "ordres", "__groups", ".", "..", "../../etc/passwd", "a b", "a\0b", "\n", "ü",
    "\U0001f600", "x" * 249, "x" * 250, "x" * 5_000, "orders-0", "%s%n", "1", "-1", "retention.ms",
    "segment.bytes", "cleanup.policy", "9" * 30, "1 GiB", "NaN", "true", "delete,compact",
)  # fmt: skip
TINY: Final = ("timeout_ms", "max_wait_ms")
#: Fields that would have the broker do a lot of honest work.
MODEST: Final = ("partitions", "total_partitions")


def _number(field: Any, chance: random.Random) -> int:
    if field.name in TINY:
        return chance.choice((0, 1, -1))
    if field.name in MODEST:
        return chance.choice((0, 1, 2, -1, -(2**31), 2**31 - 1, 10_001))
    bits = 63 if field.cpp_type == FieldDescriptor.CPPTYPE_INT64 else 31
    return chance.choice((*EDGES, 2**bits - 1, -(2**bits), chance.randrange(2**bits)))


def _scalar(field: Any, chance: random.Random) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_INT32 | FieldDescriptor.CPPTYPE_INT64:
            return _number(field, chance)
        case FieldDescriptor.CPPTYPE_BOOL:
            return chance.random() < 0.5
        case FieldDescriptor.CPPTYPE_ENUM:
            return chance.choice((0, 1, 2, 3, 4, 5, -1, 99, 2**31 - 1))
        case _ if field.type == FieldDescriptor.TYPE_BYTES:
            return chance.choice((b"", bytes(16), chance.randbytes(16), chance.randbytes(300)))
        case _:
            return chance.choice(TEXTS)


def fill(message: Message, chance: random.Random, depth: int = 0) -> None:
    """Gives the fields of a message absurd values, some of them none."""
    fields: Any = message.DESCRIPTOR.fields
    for field in fields:
        if chance.random() < 0.25 or depth > 4:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(getattr(message, field.name), field, chance)
        elif field.label == FieldDescriptor.LABEL_REPEATED:
            for _ in range(chance.choice((0, 1, 1, 2, 5))):
                if field.message_type is not None:
                    fill(getattr(message, field.name).add(), chance, depth + 1)
                else:
                    getattr(message, field.name).append(_scalar(field, chance))
        elif field.message_type is not None:
            fill(getattr(message, field.name), chance, depth + 1)
        else:
            setattr(message, field.name, _scalar(field, chance))


def _fill_map(entries: Any, field: Any, chance: random.Random) -> None:
    value_field = field.message_type.fields_by_name["value"]
    for _ in range(chance.choice((0, 1, 3))):
        key = chance.choice(TEXTS)
        if value_field.message_type is not None:
            fill(entries[key], chance, 4)
        else:
            entries[key] = _scalar(value_field, chance)
