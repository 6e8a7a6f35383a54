"""The two twins of `tidelog.records`, pure and compiled, side by side in one process.

A contract test runs its body once for each. The modules of a twin stand in `sys.modules` while
such a test runs, so that what the codec imports late comes from the same twin.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, Final
from unittest import mock

import tidelog
import tidelog.records

TWINS: Final = ("pure", "compiled")
WHY_NOT_COMPILED: Final = "the compiled codec is not here: `make setup` compiles with gcc"

_PACKAGE: Final = "tidelog.records"
_NAMES: Final = (
    "batch",
    "builder",
    "chain",
    "columns",
    "column_decoder",
    "column_encoder",
    "compression",
    "decoder",
    "record",
    "source",
    "varint",
)


class Twin:
    """One twin: its modules by their short names."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        self.modules = modules

    def __getattr__(self, name: str) -> Any:
        try:
            return self.modules[f"{_PACKAGE}.{name}"]
        except KeyError:
            raise AttributeError(name) from None

    @contextmanager
    def in_place(self) -> Iterator[Twin]:
        """This twin is what `import tidelog.records` finds."""
        with (
            _exchanged(self.modules),
            mock.patch.object(tidelog, "records", self.modules[_PACKAGE]),
        ):
            yield self


def has_compiled() -> bool:
    """Whether this process uses the compiled codec, and so can test it."""
    return tidelog.records.COMPILED


@cache
def twin(name: str) -> Twin:
    """The twin of that name, loaded once."""
    if name == "compiled":
        return Twin(_loaded())
    with (
        mock.patch.dict(os.environ, {"TIDELOG_PURE": "1"}),
        mock.patch.object(sys, "meta_path", [*sys.meta_path]),
        mock.patch.object(tidelog, "records", tidelog.records),
        _exchanged({}),
    ):
        return Twin(_loaded())


def _loaded() -> dict[str, ModuleType]:
    for name in _NAMES:
        importlib.import_module(f"{_PACKAGE}.{name}")
    return _present()


def _present() -> dict[str, ModuleType]:
    return {
        name: module
        for name, module in sys.modules.items()
        if name == _PACKAGE or name.startswith(f"{_PACKAGE}.")
    }


@contextmanager
def _exchanged(modules: dict[str, ModuleType]) -> Iterator[None]:
    """Puts these modules in the place of the codec's; what else is imported meanwhile stays."""
    before = _present()
    try:
        _put(modules)
        yield
    finally:
        _put(before)


def _put(modules: dict[str, ModuleType]) -> None:
    for name in _present():
        del sys.modules[name]
    sys.modules.update(modules)
