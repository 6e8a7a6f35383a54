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
    "tidelog_broker": ["COMPILED"],
    "tidelog_runtime.adapters": ["COMPILED"],
    "tidelog_spark": ["TidelogDataSource", "register"],
    "tidelog_spark.streams": [
        "batch",
        "changelog",
        "decode",
        "encode",
        "join_within",
        "sessions",
        "stream",
        "table",
        "to_topic",
        "windowed",
    ],
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


#: What each client must do without: what others need, and what is optional.
LEFT_ALONE = {
    "Producer": ("tidelog.consumer", "tidelog.admin", "tidelog.cli"),
    "Consumer": ("tidelog.producer", "tidelog.admin", "tidelog.cli"),
    "Admin": ("tidelog.producer", "tidelog.consumer", "tidelog.cli"),
}
OPTIONAL = ("numpy", "pyarrow", "pandas", "prometheus_client", "tidelog_node", "tidelog_runtime")


def modules_after(program: str) -> set[str]:
    """What a fresh interpreter has imported then."""
    seen = subprocess.run(
        [sys.executable, "-c", f"{program}; import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(seen.stdout.split())


def test_importing_the_client_imports_no_module_of_it() -> None:
    imported = {name for name in modules_after("import tidelog") if name.startswith("tidelog")}
    assert imported == {"tidelog", "tidelog.version"}


@pytest.mark.parametrize("client", LEFT_ALONE)
def test_a_client_imports_only_what_it_uses(client: str) -> None:
    needless = (*LEFT_ALONE[client], *OPTIONAL)
    imported = modules_after(f"import tidelog; tidelog.{client}")
    assert {name for name in imported if name.startswith(needless)} == set()


def test_the_clients_take_little_memory() -> None:
    program = """
def resident_kb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

before = resident_kb()
import tidelog
bare = resident_kb()
tidelog.Producer, tidelog.Consumer, tidelog.Admin
print(bare - before, resident_kb() - before)
"""
    seen = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    import_kb, clients_kb = map(int, seen.stdout.split())
    assert import_kb < 10 * 1024
    assert clients_kb < 40 * 1024
