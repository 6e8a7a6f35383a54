"""What Spark's Java logs of a query that fails: page after page, once for each layer it ends.

`session.py` leaves it out while a pipeline runs, unless the user has chosen a level of that log.
Invariant: only lines are left out that stand for a failure of the query itself, which `running.py`
tells with its cause; whatever else goes wrong in Java is logged as ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

#: The layers through which one failure goes, from the task to the query. Each is a whole message.
TOLD_IN_WORDS: Final = (
    r"Aborting task",
    r"Exception in task .*",
    r".*Task \d+ in stage .* failed \d+ times; aborting job",
    r"Abort(ing|ed) commit for partition .*",
    r"Data source write support .* (is aborting|aborted)\.",
    r"Query .* terminated with error",
)


@contextmanager
def without_what_is_told(spark: SparkSession) -> Iterator[None]:
    """Inside, those lines and their stacks are not logged."""
    # Where Java logs through something else than Spark brings along, it says all of it: that is
    # a nuisance, and no reason not to run. What py4j doesn't find it calls a package.
    added: tuple[Any, Any, Any] | None = None
    with suppress(Py4JError, TypeError):
        added = _add_filter(spark)
    try:
        yield
    finally:
        if added is not None:
            context, root, told = added
            # Java may be gone, and its log with it.
            with suppress(Py4JError, ConnectionError):
                root.removeFilter(told)
                context.updateLoggers()


def _add_filter(spark: SparkSession) -> tuple[Any, Any, Any]:
    """Java's logging context, its root logger, and the filter that was added to that."""
    logging: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr] # always there
    context = logging.LogManager.getContext(False)
    root = context.getConfiguration().getRootLogger()
    result = logging.core.Filter.Result
    pattern = f"(?s)({'|'.join(TOLD_IN_WORDS)})"
    told = logging.core.filter.RegexFilter.createFilter(
        pattern, None, False, result.DENY, result.NEUTRAL
    )
    root.addFilter(told)
    context.updateLoggers()
    return context, root, told
