"""Flags as Kafka's tools have them, and the words when one is wrong.

Every verb of the client builds its parser here. Invariant: a flag or value that cannot be meant
ends in one line that names it, the nearest right one where there is one, and exit code 2; names
are never completed from their beginnings, as in Kafka's tools.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from tidelog.nearest import did_you_mean, nearest
from tidelog.version import __version__

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

DEFAULT_BOOTSTRAP: Final = "localhost:9094"
CALLED_WRONGLY: Final = 2
#: Numbers as people write them, also in property files: Python would take 1_0 for ten, and digits
#: of other scripts.
WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,40}")
DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]{1,40}\.[0-9]{0,40}|\.[0-9]{1,40})")


class VerbParser(argparse.ArgumentParser):
    """The flags of one verb."""

    def __init__(self, verb: str, description: str, examples: str = "") -> None:
        super().__init__(
            prog=f"tidelog {verb}",
            description=description,
            epilog=f"examples:\n{examples}" if examples else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument("--version", action="version", version=f"tidelog {__version__}")

    def add_connection(self, *older_config_flags: str) -> None:
        """The flags that every verb has which speaks to a cluster."""
        self.add_argument(
            "--bootstrap-server",
            metavar="HOST:PORT[,HOST:PORT]",
            help=f"the brokers to begin with (default {DEFAULT_BOOTSTRAP})",
        )
        self.add_argument(
            "--command-config",
            *older_config_flags,
            metavar="FILE",
            help="a file of client settings, key=value lines with Kafka's names",
        )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The options; ends the program when a flag is unknown."""
        options, unknown = self.parse_known_args(self._with_values_joined(arguments))
        if unknown:
            self.error(self._about_unknown(unknown[0]))
        return options

    def _with_values_joined(self, arguments: Sequence[str]) -> list[str]:
        """A value may begin with a dash, as a topic's id may: argparse would take it for a flag."""
        joined: list[str] = []
        for word in arguments:
            flag = self._option_string_actions.get(joined[-1]) if joined else None
            is_value = word.startswith("-") and not word.startswith("--") and word != "-h"
            if flag is not None and flag.nargs is None and is_value:
                joined[-1] += f"={word}"
            else:
                joined.append(word)
        return joined

    def error(self, message: str) -> NoReturn:
        """Ends the program with one line."""
        end = "" if message.endswith((".", "?")) else "."
        self.exit(
            CALLED_WRONGLY, f"{self.prog}: {message}{end} `{self.prog} --help` lists the flags.\n"
        )

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """As argparse does it, which keeps to itself what can't be written."""
        if message:
            (file or sys.stderr).write(message)

    @staticmethod
    def is_given(options: argparse.Namespace, flag: str) -> bool:
        """Whether a flag was given."""
        value = getattr(options, _destination(flag))
        return value is not None and value is not False

    def require(self, options: argparse.Namespace, *flags: str) -> None:
        """Ends the program when none of these flags was given."""
        if all(getattr(options, _destination(flag)) is None for flag in flags):
            self.error(f"{' or '.join(flags)} is missing")

    def refuse_together(self, options: argparse.Namespace, flag: str, *others: str) -> None:
        """Ends the program when a flag was given with one that it cannot go with."""
        if not self.is_given(options, flag):
            return
        for other in others:
            if self.is_given(options, other):
                self.error(f"{flag} and {other} cannot be used together")

    def _about_unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"there is nothing to do with {word!r}: flags begin with --"
        name = word.partition("=")[0]
        return f"there is no flag {name}. {did_you_mean(name, self._option_string_actions)}".strip()


def _destination(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def whole_number(least: int | None = None, most: int | None = None) -> Callable[[str], int]:
    """The type of a flag that takes a whole number."""

    def convert(text: str) -> int:
        if not WHOLE_NUMBER.fullmatch(text):
            raise argparse.ArgumentTypeError(f"{text!r:.80} is no whole number")
        number = int(text)
        if least is not None and number < least:
            raise argparse.ArgumentTypeError(f"{number} is too small, it must be at least {least}")
        if most is not None and number > most:
            raise argparse.ArgumentTypeError(f"{number} is too large, it must be at most {most}")
        return number

    return convert


def one_of(*words: str) -> Callable[[str], str]:
    """The type of a flag that takes one of a few words."""

    def convert(text: str) -> str:
        if text in words:
            return text
        near = nearest(text, words)
        hint = f"did you mean {near}?" if near else f"it is one of {', '.join(words)}"
        raise argparse.ArgumentTypeError(f"{text!r} is not possible; {hint}")

    return convert


def pair(text: str) -> tuple[str, str]:
    """The type of a flag that takes KEY=VALUE."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not written as KEY=VALUE")
    return key.strip(), value
