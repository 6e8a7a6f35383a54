"""What an error says, in words for one line: without the stacks, plans and codes around them.

`running.py` tells tries that failed with it; `building.py`, `checking.py` and `session.py` tell
what Spark refuses. Invariant: however many layers of Java an error came through, its words are one
line, which names the cause.
"""

from __future__ import annotations

import re
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tidelog.errors import InvalidConfig

#: What Spark puts before its message: the name of the condition.
CONDITION: Final = re.compile(r"^\[[\w.]+\]\s*")
#: What Spark adds to its message: the state, the place, the query and its plan.
APPENDIX: Final = re.compile(
    r"\s*(?:SQLSTATE: \w+|;? ?line \d+,? pos \d+|=== Streaming Query ===).*", re.DOTALL
)
#: A stack of Java's within a text, from its title or its first frame on.
JAVA_STACK: Final = re.compile(
    r"^(?:\s+at [^\s(]+\(|(?:JVM|Driver) stacktrace:).*", re.MULTILINE | re.DOTALL
)
#: The last line of a Python traceback within Spark's story: the error, and what it says.
LAST_WORDS: Final = re.compile(r"^(?:[a-z_]\w*\.)+[A-Z]\w+: (.+)$", re.MULTILINE)
#: How deep the cause of a Java error is looked for.
CAUSES_MAX: Final = 10


def words_of(error: Exception) -> str:
    """What an error says, without Spark's plan and codes, and without Java's stacks."""
    if isinstance(error, InvalidConfig):
        return str(error)
    if isinstance(error, Py4JJavaError):
        return _words_of_java(error.java_exception)
    if not isinstance(error, PySparkException):
        # Python's own errors may say little without their class: that of a KeyError is the key.
        return " ".join(f"{type(error).__name__}: {error}".split())
    words = _plain(str(error))
    # Java says "null" where an error has no message: only that of its cause is left then.
    cause = getattr(error, "_cause", None)
    if words in ("", "null") and isinstance(cause, PySparkException):
        return words_of(cause)
    return words


def words_of_failure(error: Exception) -> str:
    """What went wrong, taken out of Spark's story: the last words of the Python below, if any."""
    told = LAST_WORDS.findall(str(error))
    return " ".join(told[-1].split()) if told else words_of(error)


def _words_of_java(exception: Any) -> str:
    """The class and the first line of a Java error; of its cause where that line says nothing."""
    outermost = ""
    for _ in range(CAUSES_MAX):
        if exception is None:
            break
        kind, _colon, message = str(exception.toString()).partition(": ")
        words = _plain(_first_line(message))
        # Such as "Exception thrown in awaitResult:", which only announces the cause.
        if words not in ("", "null") and not words.endswith(":"):
            return f"{kind}: {words}"
        outermost = outermost or _plain(_first_line(kind))
        exception = exception.getCause()
    return outermost


def _first_line(text: str) -> str:
    return JAVA_STACK.sub("", text).strip().partition("\n")[0]


def _plain(text: str) -> str:
    """One line of a text of Spark's or Java's, without what stands around the message."""
    text = CONDITION.sub("", JAVA_STACK.sub("", text).strip())
    return " ".join(APPENDIX.sub("", text).split())
