"""Zigzag varints, the integers inside a record, and the tables that make writing them cheap.

Every record passes through here on its way into a batch (`builder`) and out of one (`decoder`,
`chain`). Invariant: what is read back has at most 63 significant bits, so that the compiled twin
(64-bit integers) and the pure source (unbounded ones) can never disagree about a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.errors import CorruptMessage

if TYPE_CHECKING:
    from mypy_extensions import i64

#: Non-negative numbers below this one are looked up; they take one or two bytes.
TABLE_SIZE: Final = 8192

_ONE_BYTE: Final = 64
_SEVEN_BITS: Final = 127
#: The first number that two bytes cannot hold.
TWO_BYTES: Final = 1 << 14
#: Nine bytes hold 63 bits. Kafka allows a tenth, which only a delta of 146 million years needs.
_LAST_SHIFT: Final = 56


def encode_varint(number: i64) -> bytes:
    """The zigzag varint of any number between -2**62 and 2**62 - 1."""
    rest: i64 = (number << 1) ^ (number >> 63)
    encoded = []
    while rest > _SEVEN_BITS:
        encoded.append((rest & _SEVEN_BITS) | 128)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _table() -> list[bytes]:
    short = [bytes((number << 1,)) for number in range(_ONE_BYTE)]
    long = [
        bytes((((number << 1) & _SEVEN_BITS) | 128, number >> 6))
        for number in range(_ONE_BYTE, TABLE_SIZE)
    ]
    return short + long


#: The varint of each number from 0 to TABLE_SIZE - 1.
VARINTS: Final[list[bytes]] = _table()


def varint(number: i64) -> bytes:
    """The zigzag varint of a number, from the table where it has one."""
    if 0 <= number < TABLE_SIZE:
        return VARINTS[number]
    return encode_varint(number)


def finish_varint(buffer: bytes, position: i64, begun: i64) -> tuple[i64, i64]:
    """Read on where `begun`, the first byte or two with all their bits, was not the whole.

    Returns the number with its zigzag still on, and the position after it. A read behind the end
    raises `IndexError`, which the callers turn into their own words.
    """
    number: i64 = begun - 128
    shift: i64 = 7
    if begun >= TWO_BYTES:
        number = begun - TWO_BYTES
        shift = 14
    while shift <= _LAST_SHIFT:
        byte: i64 = buffer[position]
        position += 1
        number |= (byte & _SEVEN_BITS) << shift
        if byte <= _SEVEN_BITS:
            return number, position
        shift += 7
    raise CorruptMessage(f"a varint is longer than {_LAST_SHIFT // 7 + 1} bytes")


def read_varint(buffer: bytes, position: i64) -> tuple[i64, i64]:
    """Read a whole varint: the number without its zigzag, and the position after it."""
    number: i64 = buffer[position]
    position += 1
    if number > _SEVEN_BITS:
        number, position = finish_varint(buffer, position, number)
    return (number >> 1) ^ -(number & 1), position
