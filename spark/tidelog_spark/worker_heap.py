"""Keeps what a Spark worker has imported out of the collections that Spark makes after every task.

Readers and writers call it when a task's work is done. Between two tasks Spark's Python workers
collect garbage, which walks everything that Spark, Arrow and the clients have loaded: 50 ms of a
processor for nothing. Invariant: what is garbage when it is called is collected, not kept, and only
processes that are Spark's workers are touched.
"""

from __future__ import annotations

import gc
import sys

from pyspark import TaskContext

_modules_seen = 0


def spare_imports() -> None:
    """What lives now is left alone by later collections; does nothing until more is imported."""
    global _modules_seen  # noqa: PLW0603 - it tells of the heap, which is the process's as well
    if TaskContext.get() is None or len(sys.modules) == _modules_seen:
        return
    _modules_seen = len(sys.modules)
    gc.collect()
    gc.freeze()
