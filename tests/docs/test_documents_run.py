"""Every example of README.md and docs/ does what the page says, against a real node."""

from __future__ import annotations

from codeop import compile_command
from pathlib import Path
from typing import Final

import pytest

from docs.blocks import Block, Page, blocks_of, commands_of
from support.tree import ROOT, relative
from tidelog_node.testing import InProcessCluster

RUNNABLE: Final = ("python", "console")
PAGES: Final = [
    relative(path)
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if any(block.language in RUNNABLE for block in blocks_of(path.read_text()))
]


@pytest.mark.parametrize("document", PAGES)
def test_a_page_does_what_it_says(
    document: str, tidelog_cluster: InProcessCluster, tmp_path: Path
) -> None:
    with Page(document, tidelog_cluster.address, tmp_path) as page:
        for block in blocks_of((ROOT / document).read_text()):
            if block.language in RUNNABLE:
                page.run(block)


def untypable(text: str) -> str:
    """The first line that Python's prompt refuses when a block is typed in, or nothing.

    The prompt ends a statement at an empty line, also where a file would go on.
    """
    statement: list[str] = []
    for line in [*text.splitlines(), ""]:
        statement.append(line)
        try:
            is_complete = compile_command("\n".join(statement)) is not None
        except SyntaxError:
            return line
        if is_complete:
            statement = []
    return ""


def test_the_readme_can_be_typed_in_at_the_prompt() -> None:
    assert untypable("if 1:\n    a()\n\n    b()\n") == "    b()"
    blocks = [each for each in blocks_of((ROOT / "README.md").read_text()) if each.prints]
    assert [untypable(each.text) for each in blocks] == [""] * len(blocks)
    assert blocks


def test_the_pages_that_must_have_examples_have_some() -> None:
    wanted = {"README.md"} | {
        f"docs/{name}.md"
        for name in ("producing", "consuming", "asyncio", "admin", "errors", "testing")
    }
    assert wanted <= set(PAGES)


PLANTED: Final = """\
```python
print("one")
```

```text
o...
```

words

```text
no output
```

```console
$ echo a \\
    b
a b
$ echo c
c
```
"""


def test_blocks_are_found_with_what_they_print() -> None:
    python, text, console = blocks_of(PLANTED)
    assert python == Block("python", 2, 'print("one")\n', "o...\n")
    assert (text.language, text.prints) == ("text", None)
    assert list(commands_of(console)) == [(16, "echo a \\\n    b", "a b\n"), (19, "echo c", "c\n")]


@pytest.mark.parametrize(
    "block",
    [
        Block("python", 1, "print('two')\n", "one\n"),
        Block("python", 1, "def test_it(tidelog_cluster): assert not tidelog_cluster.address\n"),
        Block("console", 1, "$ echo two\none\n"),
        Block("console", 1, "$ exit 3\n"),
    ],
)
def test_a_page_that_lies_is_found(block: Block, tmp_path: Path) -> None:
    with pytest.raises(AssertionError), Page("planted.md", "127.0.0.1:1", tmp_path) as page:
        page.run(block)


def test_an_error_names_the_line_of_the_document(tmp_path: Path) -> None:
    where = r'"planted.md", line 8(?s:.)*ZeroDivisionError'
    with (
        pytest.raises(AssertionError, match=where),
        Page("planted.md", "127.0.0.1:1", tmp_path) as page,
    ):
        page.run(Block("python", 7, "\n1 / 0\n"))


def test_what_an_example_logs_is_found(tmp_path: Path) -> None:
    logs = "import logging\nlogging.error('something is wrong')\n"
    with (
        pytest.raises(AssertionError, match="something is wrong"),
        Page("planted.md", "127.0.0.1:1", tmp_path) as page,
    ):
        page.run(Block("python", 1, logs))
