"""Keyword arguments of a client, checked before anything is opened.

Each client lists its settings as a dataclass whose fields are made by the functions here; `read`
turns what the user wrote into it. Invariant: a name that is not a setting, and a value that cannot
be meant, is refused in words; none is ever ignored. Names are Kafka's in snake_case.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar

from tidelog.errors import InvalidConfig
from tidelog.nearest import did_you_mean
from tidelog.wording import is_unicode

Settings = TypeVar("Settings")

Duration = int | float | timedelta
Size = int | str

_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]i?b?|b)?", re.IGNORECASE)
_PORT: Final = re.compile(r"[0-9]{1,5}")
_UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_CHECK: Final = "check"
#: What other clients have, and what it belongs to that does not exist here yet.
_NOT_YET: Final = {
    "group": "consumer groups",
    "group_id": "consumer groups",
    "group_instance_id": "consumer groups",
    "transactional_id": "transactions",
}
#: What others call the address.
_ADDRESSES: Final = frozenset({"bootstrap_servers", "bootstrap.servers", "bootstrap_server"})
#: The longest duration, nearly 25 days: whoever writes more means "for ever", and neither the wire
#: nor gRPC's deadlines take much larger numbers.
LONGEST_MS: Final = 2**31 - 1
#: The largest size on the wire of what brokers are asked for, and of all else.
WIRE_SIZE_MAX: Final = 2**31 - 1
SIZE_MAX: Final = 2**63 - 1
#: A name that travels in the head of each call.
_HEAD_NAME_MAX: Final = 1000
#: How an address is written.
AN_ADDRESS: Final = 'Write "host:port", such as "localhost:9094"'


def read(kind: type[Settings], given: Mapping[str, object], client: str) -> Settings:
    """The settings of a client; InvalidConfig for a wrong name or value."""
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    checked: dict[str, object] = {}
    for name, value in given.items():
        field = fields.get(name)
        if field is None:
            raise InvalidConfig(f"{client} has no setting {name!r}", hint=_advice(name, fields))
        checked[name] = field.metadata[_CHECK](name, value)
    return kind(**checked)


def _advice(name: str, fields: Iterable[str]) -> str:
    """What to do instead of a setting that is not there."""
    if name in _ADDRESSES:
        return 'The address is the first argument, such as Producer("localhost:9094")'
    if name in _NOT_YET:
        return f"This Tidelog has no {_NOT_YET[name]} yet: leave it out"
    return did_you_mean(name, fields) or f"It has {', '.join(sorted(fields))}"


def _setting(default: object, check: Callable[[str, object], object]) -> Any:
    return dataclasses.field(default=default, metadata={_CHECK: check})


def duration_ms(default: int, *, least: int = 0) -> Any:
    """A duration: milliseconds, or a timedelta. The setting holds milliseconds.

    More than `LONGEST_MS` counts as that.
    """

    def check(name: str, value: object) -> float:
        number = value.total_seconds() * 1000 if isinstance(value, timedelta) else value
        if isinstance(number, bool) or not isinstance(number, int | float) or _is_nan(number):
            raise InvalidConfig(
                f"{name}={value!r:.80} is no duration", hint="Use milliseconds or a timedelta"
            )
        if number < least:
            raise InvalidConfig(f"{name}={value!r} is too small: at least {least} ms are needed")
        return min(number, LONGEST_MS)

    return _setting(default, check)


def _is_nan(number: float) -> bool:
    return isinstance(number, float) and math.isnan(number)


def size_bytes(default: int, *, least: int = 0, most: int = SIZE_MAX) -> Any:
    """A size: bytes, or text such as "64 MiB". The setting holds bytes."""

    def check(name: str, value: object) -> int:
        found = _size_of(value)
        if found is None:
            raise InvalidConfig(
                f"{name}={value!r:.80} is no size", hint='Use bytes, or text such as "64 MiB"'
            )
        if found < least:
            raise InvalidConfig(f"{name}={value!r} is too small: at least {least} bytes")
        if found > most:
            raise InvalidConfig(f"{name}={value!r:.80} is too large: at most {most} bytes")
        return found

    return _setting(default, check)


def _size_of(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    unit = (match[2] or "b").lower()
    return int(Decimal(match[1]) * _UNITS.get(unit[0], 1))


def count(default: int, *, least: int, most: int) -> Any:
    """A whole number between two bounds."""

    def check(name: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidConfig(f"{name}={value!r:.80} is no whole number")
        if not least <= value <= most:
            raise InvalidConfig(f"{name}={value!r:.80} is not between {least} and {most}")
        return value

    return _setting(default, check)


def choice(default: object, choices: Mapping[object, object]) -> Any:
    """One of a few values; `choices` maps what may be written to what is meant."""

    def check(name: str, value: object) -> object:
        for written, meant in choices.items():
            if value == written and isinstance(value, bool) == isinstance(written, bool):
                return meant
        words = list(dict.fromkeys(str(written) for written in choices))
        raise InvalidConfig(
            f"{name}={value!r:.80} is not possible",
            hint=did_you_mean(str(value), words) or f"Use one of {', '.join(dict.fromkeys(words))}",
        )

    return _setting(default, check)


def flag(default: bool) -> Any:
    """True or False."""
    return choice(default, {True: True, False: False})


def text(default: str) -> Any:
    """Text that is not empty."""

    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise InvalidConfig(f"{name}={value!r} must be text that is not empty")
        if not is_unicode(value):
            raise InvalidConfig(f"{name}={value!r:.80} is no Unicode text")
        return value

    return _setting(default, check)


def head_text(default: str) -> Any:
    """A name that travels in the head of each call, where gRPC takes nothing but plain ASCII."""

    def check(name: str, value: object) -> str:
        is_plain = isinstance(value, str) and value.isascii() and value.isprintable()
        if not isinstance(value, str) or not is_plain or not 0 < len(value) <= _HEAD_NAME_MAX:
            raise InvalidConfig(
                f"{name}={value!r:.80} must be text that is not empty, of printable ASCII",
                hint=f"At most {_HEAD_NAME_MAX} characters are possible: it goes with each call",
            )
        return value

    return _setting(default, check)


def anything(default: object) -> Any:
    """Checked by whoever uses it."""
    return _setting(default, lambda _, value: value)


def addresses(bootstrap: str | list[str] | tuple[str, ...]) -> list[str]:
    """The brokers to begin with: "host:port", several separated by commas, or a list of them."""
    if not isinstance(bootstrap, str | list | tuple):
        raise _no_address(bootstrap)
    parts = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    found = []
    for part in parts:
        if not isinstance(part, str):
            raise _no_address(part)
        if part.strip():
            found.append(part.strip())
    if not found:
        raise InvalidConfig(f"{bootstrap!r} names no broker", hint=AN_ADDRESS)
    for address in found:
        host, _, port = address.rpartition(":")
        if not (_is_host(host) and _PORT.fullmatch(port) and 0 < int(port) < 65_536):
            raise _no_address(address)
        if set(host) & set(":[]"):
            _check_brackets(address, host, port)
    return found


def _check_brackets(address: str, host: str, port: str) -> None:
    """Brackets are there around an address of IPv6, and nowhere else."""
    if host[0] == "[" and host[-1] == "]" and _is_ipv6(host[1:-1]):
        return
    if _is_ipv6(host):
        hint = f'An address of IPv6 stands in brackets: "[{host}]:{port}"'
    elif set(host) & set("[]"):
        hint = 'Brackets stand around an address of IPv6 alone, as in "[::1]:9094"'
    else:
        raise _no_address(address)
    raise InvalidConfig(f"{address!r:.80} is no address of a broker", hint=hint)


def _is_ipv6(text: str) -> bool:
    from ipaddress import AddressValueError, IPv6Address  # noqa: PLC0415 - few have one

    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _is_host(text: str) -> bool:
    return bool(text) and is_unicode(text) and text.isprintable() and not set(text) & set("/ ")


def _no_address(given: object) -> InvalidConfig:
    return InvalidConfig(f"{given!r:.80} is no address of a broker", hint=AN_ADDRESS)
