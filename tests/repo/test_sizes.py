"""Files and functions stay small enough to be read in one go; what is larger may only shrink."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from support.tree import python_files, relative

FILE_LINES_MAX: Final = 500
FUNCTION_LINES_MAX: Final = 60

#: Files above the limit with the size they have now. Entries go down or go away, never up.
LARGE_FILES: Final[dict[str, int]] = {}

#: Functions above the limit, as `file::name`, with the size they have now. The same holds.
LARGE_FUNCTIONS: Final[dict[str, int]] = {}


def functions_of(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Every function below `tree` by its dotted name, with its number of lines."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if not isinstance(node, ast.ClassDef) and node.end_lineno is not None:
                yield name, node.end_lineno - node.lineno + 1
            yield from functions_of(node, f"{name}.")
        else:
            yield from functions_of(node, prefix)


def check_ratchet(sizes: dict[str, int], known: dict[str, int], limit: int) -> list[str]:
    """What breaks the limit or the ratchet, each in words."""
    wrong = []
    for name, lines in sorted(sizes.items()):
        allowed = known.get(name, limit)
        if lines > allowed:
            wrong.append(f"{name} has {lines} lines, {allowed} are allowed: split it")
        elif name in known and lines < known[name]:
            wrong.append(f"{name} shrank to {lines} lines: lower or remove its entry")
    wrong += [f"{name} is listed and does not exist" for name in known.keys() - sizes.keys()]
    return wrong


def test_files_are_small() -> None:
    sizes = {relative(path): len(path.read_text().splitlines()) for path in python_files()}
    assert check_ratchet(sizes, LARGE_FILES, FILE_LINES_MAX) == []


def test_functions_are_small() -> None:
    sizes = {
        f"{relative(path)}::{name}": lines
        for path in python_files()
        for name, lines in functions_of(ast.parse(path.read_text()))
    }
    assert check_ratchet(sizes, LARGE_FUNCTIONS, FUNCTION_LINES_MAX) == []


def test_the_ratchet_only_goes_down() -> None:
    known = {"long.py": 700, "shrunk.py": 600, "gone.py": 800}
    sizes = {"long.py": 701, "shrunk.py": 590, "new.py": 501, "fine.py": 500}
    assert check_ratchet(sizes, known, 500) == [
        "long.py has 701 lines, 700 are allowed: split it",
        "new.py has 501 lines, 500 are allowed: split it",
        "shrunk.py shrank to 590 lines: lower or remove its entry",
        "gone.py is listed and does not exist",
    ]
