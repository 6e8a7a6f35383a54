"""Adapters: the ports of the runtime on the real world. Chosen in the composition root alone."""

from tidelog.records import COMPILED

__all__ = ["COMPILED"]
