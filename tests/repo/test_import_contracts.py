"""The import contracts bind what they are meant to bind: no core is left out of them.

What they say is checked by `make check`; a module that no contract names would pass it unseen.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from support.tree import ROOT, SOURCE_ROOTS, package_files, relative

#: Packages that are pure as a whole, besides every module and package called `core`.
PURE: Final = ("tidelog.consumer.fetching", "tidelog.records", "tidelog_broker.storage")


def contracts() -> list[dict[str, Any]]:
    """The contracts as pyproject.toml has them."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: list[dict[str, Any]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return found


def module_of(path: Path) -> str:
    """The dotted name under which a file of a source root is imported."""
    [root] = [ROOT / root for root in SOURCE_ROOTS if path.is_relative_to(ROOT / root)]
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_core_is_under_the_contract() -> None:
    modules = {module_of(path) for path in package_files()}
    pure = {name for name in modules if name.endswith(".core") or name in PURE}
    [contract] = [one for one in contracts() if one["name"].startswith("Cores")]
    assert set(contract["source_modules"]) == pure


def test_every_package_is_in_a_layer() -> None:
    packages = {module_of(path).partition(".")[0] for path in package_files()}
    [contract] = [one for one in contracts() if one["type"] == "layers"]
    layered = {name.strip() for layer in contract["layers"] for name in layer.split("|")}
    assert layered == packages


def test_no_package_hides_from_the_contracts() -> None:
    """Without an `__init__.py` the import linter does not see a folder, and nothing is said."""
    hidden = {relative(path.parent) for path in package_files() if not is_regular(path.parent)}
    assert hidden == set()


def is_regular(folder: Path) -> bool:
    """Whether a folder is a package with an `__init__.py` of its own."""
    return (folder / "__init__.py").exists()
