"""What the documents point at exists: every link, every path, every `make` target."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from support.tree import ROOT, relative, written_files

#: A Markdown link to a place in this repository.
LINK: Final = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(?:#[^)\s]*)?\)")

#: Something in backticks that names a file or a folder: it has a slash, or ends like a file.
NAMED: Final = re.compile(
    r"`([\w.-]+(?:/[\w.*{},-]+)+/?|[A-Za-z_][\w-]*\.(?:py|md|toml|proto|sh))`"
)

#: Names in backticks that look like paths and are what a user or a build makes, or their own.
NOT_IN_THE_TREE: Final = frozenset({".venv/bin", "dist/"})

FILE_NAMES: Final = frozenset(path.name for path in written_files())

DOCUMENTS: Final = sorted(relative(path) for path in written_files() if path.suffix == ".md")


def missing_paths(document: Path, text: str) -> list[str]:
    """Links and names in the text of a document that lead nowhere."""
    missing = [
        link for link in LINK.findall(text) if not (document.parent / link).resolve().exists()
    ]
    return missing + [name for name in NAMED.findall(text) if not is_in_the_tree(name)]


def is_in_the_tree(name: str) -> bool:
    """Whether a path from the root leads somewhere, or a bare file name is that of some file.

    A path whose first folder is not ours is the reader's own, or part of an example.
    """
    if "/" not in name:
        return name in FILE_NAMES
    ours = (ROOT / name.split("/", maxsplit=1)[0]).is_dir() and name not in NOT_IN_THE_TREE
    return not ours or any(ROOT.glob(name.rstrip("/")))


def unknown_targets(text: str) -> list[str]:
    """`make` targets that a text names and the Makefile does not have."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    return sorted(set(re.findall(r"`make ([a-z-]+)", text)) - targets)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_names_exists(document: str) -> None:
    text = (ROOT / document).read_text()
    assert missing_paths(ROOT / document, text) == []
    assert unknown_targets(text) == []


def test_what_leads_nowhere_is_found() -> None:
    text = "[core](services/gone.py) `tools/gone.py` `gone.py` `make gone` [web](https://a.b)"
    assert missing_paths(ROOT / "README.md", text) == [
        "services/gone.py",
        "tools/gone.py",
        "gone.py",
    ]
    assert unknown_targets(text) == ["gone"]


def test_the_documents_people_look_for_are_there() -> None:
    wanted = {"README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SECURITY"}
    assert {f"{name}.md" for name in wanted} <= set(DOCUMENTS)


def test_the_newest_changes_have_a_place() -> None:
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()
