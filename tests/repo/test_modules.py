"""Every module says what it is for, packages only gather, and the public names are pinned."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.tree import ROOT, SOURCE_ROOTS, python_files, relative

#: What people may import by these names. A change here is a change of the public interface.
PUBLIC: Final = {
    "tidelog": [
        "Admin",
        "AsyncAdmin",
        "AsyncConsumer",
        "AsyncProducer",
        "BrokerUnreachable",
        "BufferFull",
        "ClientClosed",
        "Consumer",
        "ConsumerRecord",
        "Deliveries",
        "Delivery",
        "DeliveryExpired",
        "FetchedBatch",
        "ForkedClient",
        "InvalidConfig",
        "InvalidRequest",
        "MessageTooLarge",
        "NewTopic",
        "OffsetAndTimestamp",
        "OffsetOutOfRange",
        "OutcomeUnknown",
        "Producer",
        "Receipt",
        "Record",
        "Refused",
        "RequestTimedOut",
        "RetriableError",
        "SerializationFailed",
        "Serializer",
        "TidelogError",
        "TopicAlreadyExists",
        "TopicPartition",
        "UnknownTopic",
        "UnknownTopicId",
        "UnreadableBatch",
        "__version__",
        "json",
        "none",
        "utf8",
    ],
    "tidelog.producer": ["COMPILED"],
    "tidelog.records": ["COMPILED"],
}

#: What takes time or space to import and is not needed before it is used.
HEAVY: Final = ("asyncio", "google.protobuf", "grpc", "numpy", "pyarrow")


def test_every_module_has_a_docstring() -> None:
    without = [
        relative(path)
        for path in python_files()
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert without == []


def gathers_only(path: Path) -> bool:
    """Whether a package's `__init__.py` defines nothing but the lazy lookup of its names."""
    lazy = {"__getattr__", "__dir__"}
    return all(
        getattr(node, "name", "") in lazy
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_packages_only_gather_names() -> None:
    packages = [path for root in SOURCE_ROOTS for path in (ROOT / root).rglob("__init__.py")]
    assert packages
    assert [relative(path) for path in packages if not gathers_only(path)] == []


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_public_names_are_pinned(module: str) -> None:
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module])


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_public_names_can_be_imported(module: str) -> None:
    loaded = importlib.import_module(module)
    assert [name for name in PUBLIC[module] if not hasattr(loaded, name)] == []


def test_importing_the_client_is_light() -> None:
    program = (
        f"import sys; import tidelog; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    )
    seen = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert seen.stdout.split() == []
