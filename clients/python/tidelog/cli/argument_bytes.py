"""Arguments as the bytes that were typed: what stands between the parts of lines need be no text.

Readers and formatters of the console tools come here with their separators and markers. Python
hands arguments over as text in which bytes that are no UTF-8 are kept as lone surrogates.
"""

from __future__ import annotations

from tidelog.errors import InvalidConfig


def argument_bytes(name: str, text: str) -> bytes:
    """The bytes of an argument or property; InvalidConfig where there are none."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidConfig(f"{name}={text!r:.80} is no Unicode text") from error
