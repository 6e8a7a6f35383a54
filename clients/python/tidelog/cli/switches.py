"""Switches written as text: `true` and `false` in the properties of console tools."""

from __future__ import annotations

from tidelog.errors import InvalidConfig


def boolean(name: str, text: str) -> bool:
    """The switch that a property's text means; InvalidConfig when it means neither."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise InvalidConfig(f"{name}={text} is neither true nor false")
    return word == "true"
