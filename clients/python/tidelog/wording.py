"""Numbers in sentences: what errors, warnings and the command line say of so many things.

Everybody who words a message for a person may use it. Pure.
"""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """ "1 record", "2 records"."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
