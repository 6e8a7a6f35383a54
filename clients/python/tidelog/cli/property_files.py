"""Property files and lists as Kafka's tools take them: key=value lines, with Java's escapes.

`--command-config`, `--reader-config` and `--formatter-config` come through here. What a key means
is decided by whoever asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidelog.errors import InvalidConfig

_ENTRY: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
#: As Java knows them; Python's own blanks are all that Unicode has, and its own lines end at form
#: feeds and other characters, too.
_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(file: str | None) -> dict[str, str]:
    """The properties of a file, none where no file is named; InvalidConfig when it can't be."""
    if file is None:
        return {}
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidConfig(
            f"The file {file!r} can't be read",
            cause=cause or str(error),
            hint="It holds key=value lines",
        ) from error
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """The properties of a text; a later line wins."""
    properties = {}
    for line in _logical_lines(text):
        match = _ENTRY.fullmatch(line)
        if match is not None:
            properties[_unescaped(match[1])] = _unescaped(match[2])
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, each joined with those it is continued on."""
    held: str | None = None
    lines = _LINE_END.split(text)
    if not lines[-1]:
        lines.pop()  # behind the last line end there is no line
    for line in lines:
        stripped = line.lstrip(_BLANKS)
        if not held and (not stripped or stripped[0] in "#!"):
            held = None  # a backslash alone above is nothing then; at the very end it is a key
            continue
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        if backslashes % 2:
            held = (held or "") + stripped[:-1]
            continue
        yield (held or "") + stripped
        held = None
    if held is not None:
        yield held


def _unescaped(text: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        escaped = match[1]
        if len(escaped) > 1:
            return chr(int(escaped[1:], 16))
        if escaped == "u":
            raise InvalidConfig(
                f"{text!r:.80} has \\u without four digits behind it",
                hint="Write \\u00e9, or the character itself, or two backslashes for one",
            )
        return _NAMED_ESCAPES.get(escaped, escaped)

    found = _ESCAPE.sub(meaning, text)
    # Java writes a character beyond the first 65,536 as two escapes.
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
