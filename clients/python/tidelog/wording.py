"""What errors, warnings and the command line say, and whether a text can be said at all.

Everybody who words a message for a person may use it. Pure.
"""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """ "1 record", "2 records"."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def is_unicode(text: str) -> bool:
    """False of what came from bytes that are no UTF-8: no message can carry it."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
