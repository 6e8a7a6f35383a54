"""Logs of a service: one line an event, for people or (`log.format=json`) for machines.

Fields go into `extra={"fields": {...}}` and come out as `key=value` or as JSON members, so that
the message itself stays the same sentence each time and can be searched for.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final

TEXT_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, dict) else {}


class TextFormatter(logging.Formatter):
    """`12:30:01.123 INFO tidelog_broker: message key=value`."""

    def __init__(self) -> None:
        super().__init__(TEXT_FORMAT, datefmt="%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it where there is one."""
        message = super().format(record)
        fields = " ".join(f"{key}={value}" for key, value in _fields_of(record).items())
        if not fields:
            return message
        first, newline, rest = message.partition("\n")
        return f"{first} {fields}{newline}{rest}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The event with its fields; a traceback is one string."""
        event: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        event = event | _fields_of(record) | event
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)


def configure_logging(level: str, log_format: str) -> None:
    """Sends the process's logs to standard error in one of the two forms."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
