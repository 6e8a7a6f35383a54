"""A YAML document that still knows where each thing stands.

The first step of a pipeline's way: `reading.py` walks the nodes made here. Invariant: every node
has the line on which a reader of the file finds it; a document that is no YAML, or names a thing
twice, ends in a `Problem` with that line, never in a traceback.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import yaml

from tidelog.errors import InvalidConfig

#: How YAML's own tags are called in a message.
KINDS: Final = {
    "tag:yaml.org,2002:str": "text",
    "tag:yaml.org,2002:int": "a whole number",
    "tag:yaml.org,2002:float": "a number",
    "tag:yaml.org,2002:bool": "true or false",
    "tag:yaml.org,2002:null": "nothing",
    "tag:yaml.org,2002:timestamp": "a date",
}


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """What is wrong, and on which line."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Node:
    """One value of the document: a scalar, a list or a mapping, with its line."""

    line: int
    #: What it is, in words.
    kind: str
    text: str = ""
    #: The line of its first letter: a block after `|` begins below it.
    text_line: int = 0
    items: tuple[Node, ...] = ()
    entries: dict[str, Node] = field(default_factory=dict)
    #: The lines of the keys of a mapping.
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def is_mapping(self) -> bool:
        """Whether it has keys."""
        return self.kind == "a mapping"

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return self.kind == "a list"

    @property
    def is_scalar(self) -> bool:
        """Whether it is one value and not nothing."""
        return not self.is_mapping and not self.is_list and self.kind != "nothing"


class InvalidPipeline(InvalidConfig):
    """A pipeline's file says what cannot be done; every problem of it is told, with its line."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file = file
        self.problems = sorted(set(problems))
        lines = [f"{file}:{one.line}: {one.message}" for one in self.problems]
        super().__init__("\n".join(lines))

    def __str__(self) -> str:
        return self.message


def parse(text: str, file: str) -> Node:
    """The document as nodes; raises `InvalidPipeline`."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        about = f"this is no YAML: {error.problem or error.context}"
        raise InvalidPipeline(file, [Problem(line, about)]) from None
    except yaml.YAMLError as error:
        about = " ".join(str(error).split())
        raise InvalidPipeline(file, [Problem(1, f"this is no YAML: {about}")]) from None
    if root is None:
        raise InvalidPipeline(file, [Problem(1, "the file is empty")])
    try:
        problems = list(_repeated(root))
        document = _node(root)
    except RecursionError:
        raise InvalidPipeline(file, [Problem(1, "something in it contains itself")]) from None
    if problems:
        raise InvalidPipeline(file, problems)
    return document


def _node(raw: yaml.Node) -> Node:
    line = raw.start_mark.line + 1
    if isinstance(raw, yaml.MappingNode):
        keys = [(str(key.value), key.start_mark.line + 1, value) for key, value in raw.value]
        return Node(
            line,
            "a mapping",
            entries={name: _node(value) for name, _, value in keys},
            lines={name: at for name, at, _ in keys},
        )
    if isinstance(raw, yaml.SequenceNode):
        return Node(line, "a list", items=tuple(_node(item) for item in raw.value))
    is_block = isinstance(raw, yaml.ScalarNode) and raw.style in ("|", ">")
    kind = KINDS.get(raw.tag, raw.tag)
    return Node(line, kind, text=str(raw.value), text_line=line + is_block)


def _repeated(raw: yaml.Node) -> Iterator[Problem]:
    """YAML forbids a key twice; its parsers take the last one silently."""
    if isinstance(raw, yaml.SequenceNode):
        for item in raw.value:
            yield from _repeated(item)
    if not isinstance(raw, yaml.MappingNode):
        return
    seen: dict[str, int] = {}
    for key, value in raw.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            yield Problem(line, "a name must be plain text")
            continue
        if key.value in seen:
            yield Problem(line, f"'{key.value}' stands here again, first on line {seen[key.value]}")
        seen.setdefault(key.value, line)
        yield from _repeated(value)
