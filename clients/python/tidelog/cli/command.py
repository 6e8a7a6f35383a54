"""The `tidelog` command: finds the verb, runs it, and says in words what went wrong.

Exit codes: 0 done, 1 failed, 2 called wrongly, 130 interrupted, 143 and 129 told to end. A user's
mistake never ends in a traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from io import FileIO, TextIOWrapper
from typing import Final

from tidelog.cli.client_verbs import CLIENT_VERBS
from tidelog.cli.told_to_end import exit_code
from tidelog.cli.verb import VERB_GROUP, Verb
from tidelog.errors import TidelogError
from tidelog.nearest import did_you_mean
from tidelog.version import __version__

USAGE: Final = """\
usage: tidelog VERB [arguments]

Tidelog keeps ordered, durable logs of records: topics, partitions, offsets.

verbs:
{verbs}

  tidelog VERB --help    what a verb takes
  tidelog --version      the version
"""

#: What writing fails with where the output is a file on a full or broken disk.
_UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def known_verbs() -> dict[str, Verb]:
    """Every verb by name, the services' among them where they are installed."""
    verbs: list[Verb] = [*CLIENT_VERBS]
    verbs += [entry.load() for entry in entry_points(group=VERB_GROUP)]
    return {verb.name: verb for verb in sorted(verbs, key=lambda verb: verb.name)}


def usage(verbs: dict[str, Verb]) -> str:
    """What `tidelog --help` shows."""
    width = max((len(name) for name in verbs), default=0)
    lines = [f"  {name:{width}}  {verb.summary}" for name, verb in verbs.items()]
    return USAGE.format(verbs="\n".join(lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """What the script does; `starting` calls it."""
    _open_missing_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            code = _obey(words)
        except KeyboardInterrupt as end:
            code = exit_code(end)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _forget_output()
    except OSError as error:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        _forget_output()
        _complain(" ".join(words[:1]), f"the output could not be written: {error.strerror}")
    return 1


def _obey(words: list[str]) -> int:
    verbs = known_verbs()
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage(verbs), end="")
        return 0 if words else 2
    if words[0] in ("--version", "-V"):
        print(f"tidelog {__version__}")
        return 0
    verb = verbs.get(words[0])
    if verb is None:
        hint = did_you_mean(words[0], verbs) or "`tidelog --help` lists the verbs."
        print(f"tidelog: there is no verb '{words[0]}'. {hint}", file=sys.stderr)
        return 2
    return _run(verb, words[1:])


def _run(verb: Verb, arguments: Sequence[str]) -> int:
    try:
        return verb.run(arguments)
    except TidelogError as error:
        _complain(verb.name, str(error))
        return 1
    except ModuleNotFoundError as error:
        _complain(
            verb.name,
            f"the module '{error.name}' is missing."
            f" Install what this verb needs: pip install '{verb.needs}'",
        )
        return 1
    except OSError as error:
        if error.filename is None:
            raise
        _complain(verb.name, f"{str(error.filename)!r:.80} can't be used: {error.strerror}")
        return 1
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)


class _Asides(TextIOWrapper):
    """The standard error: what nobody can be told must not change what is done, nor the code.

    Nothing is held back, so that no flush has anything to fail at.
    """

    def write(self, text: str) -> int:
        """As much as can be."""
        try:
            return super().write(text)
        except OSError:
            return len(text)


def _open_missing_streams() -> None:
    """Whoever started us closed a standard stream: what is read there is nothing, as is written.

    Left closed, its number would go to the next connection, and lines would be written into that.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)  # or a child, such as Spark's Java, has it closed
            # What replaces this object below, or for a test, must not close the number again.
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
    if type(sys.stderr) is TextIOWrapper:  # and no stand-in of whoever calls us
        unbuffered = FileIO(2, "wb", closefd=False)
        sys.stderr = _Asides(
            unbuffered, sys.stderr.encoding, errors="backslashreplace", write_through=True
        )
    # A file's name that is not UTF-8 must not end what prints it; \udcff is valid in JSON as well.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _complain(verb: str, message: str) -> None:
    sys.stdout.flush()
    print(f"tidelog {verb}: {message}", file=sys.stderr)


def _forget_output() -> None:
    """The output takes nothing any more: what is buffered must not be tried again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
