"""The producer: records handed over by user code become acknowledged batches in the log."""

from tidelog.records import COMPILED

__all__ = ["COMPILED"]
