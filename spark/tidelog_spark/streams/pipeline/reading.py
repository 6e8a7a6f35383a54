"""A pipeline's file becomes a `Pipeline`, or a list of everything that is wrong with it.

Every verb of `tidelog streams` begins here; Spark is not needed for it. Invariant: what is
returned names only views that stand above, columns and options aside, which only Spark knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from tidelog.errors import InvalidConfig
from tidelog.nearest import did_you_mean
from tidelog_spark.streams.pipeline.document import InvalidPipeline, Node, Problem, parse
from tidelog_spark.streams.pipeline.fields import Fields, duration_ms
from tidelog_spark.streams.pipeline.specification import (
    OutputMode,
    Pipeline,
    Restart,
    Sink,
    SinkKind,
    Source,
    View,
    Watermark,
)

DEFAULT_BOOTSTRAP: Final = "localhost:9094"

TOP: Final = (
    "name",
    "bootstrap",
    "checkpoints",
    "sources",
    "views",
    "sinks",
    "spark",
    "metrics_port",
    "restart",
)
SOURCE: Final = (
    "topic",
    "pattern",
    "table",
    "key",
    "value",
    "malformed",
    "start",
    "watermark",
    "options",
)
VIEW: Final = ("sql", "watermark")
SINK: Final = (
    "from",
    "topic",
    "parquet",
    "table",
    "console",
    "mode",
    "trigger",
    "key",
    "value",
    "delete_when",
    "options",
)
RESTART: Final = ("attempts", "first_pause", "longest_pause")
SINK_KINDS: Final[tuple[SinkKind, ...]] = ("topic", "parquet", "table", "console")
MODES: Final[tuple[OutputMode, ...]] = ("append", "update", "complete")
#: What Spark can write where.
MODES_OF: Final[dict[SinkKind, tuple[OutputMode, ...]]] = {
    "topic": ("append", "update"),
    "parquet": ("append",),
    "table": ("append", "complete"),
    "console": MODES,
}
#: Options of a sink that would say a second time, and otherwise, what the file says elsewhere.
SAID_BY_FIELDS: Final = {
    "checkpointlocation": "each sink has its own folder below 'checkpoints'",
    "path": "the field 'topic' or 'parquet' says where to write",
    "topic": "the field 'topic' says where to write",
}
VIEW_NAME: Final = re.compile(r"[A-Za-z_]\w*")
SINK_NAME: Final = re.compile(r"[A-Za-z][\w-]*")

Part = TypeVar("Part")


def read_pipeline(path: Path, *, bootstrap: str | None = None) -> Pipeline:
    """The pipeline of a file; raises `InvalidPipeline` with every problem found."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or error
        raise InvalidConfig(f"{path} cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise InvalidConfig(f"{path} is no text in UTF-8") from None
    return pipeline_of(text, str(path), bootstrap=bootstrap)


def pipeline_of(text: str, file: str, *, bootstrap: str | None = None) -> Pipeline:
    """The pipeline that a text describes; `bootstrap` goes before what the text says."""
    problems: list[Problem] = []
    top = Fields(parse(text, file), "a pipeline", TOP, problems)
    sources = _parts(top, "sources", VIEW_NAME, _source, problems)
    views = _parts(top, "views", VIEW_NAME, _view, problems)
    sinks = _parts(top, "sinks", SINK_NAME, _sink, problems)
    _check_names(sources, views, sinks, problems)
    pipeline = Pipeline(
        name=top.text("name"),
        file=file,
        bootstrap=bootstrap or top.text("bootstrap", DEFAULT_BOOTSTRAP),
        checkpoints=top.text("checkpoints"),
        sources=tuple(sources),
        views=tuple(views),
        sinks=tuple(sinks),
        spark=top.settings("spark"),
        metrics_port=top.number("metrics_port", None, least=0, most=65_535),
        restart=_restart(top, problems),
    )
    if problems:
        raise InvalidPipeline(file, problems)
    return pipeline


def _parts(
    top: Fields,
    name: str,
    pattern: re.Pattern[str],
    read: Callable[[str, int, Node, list[Problem]], Part],
    problems: list[Problem],
) -> list[Part]:
    node = top.child(name)
    if node is None:
        if name != "views":
            top.complain(f"lacks the field '{name}'")
        return []
    if not node.is_mapping or (not node.entries and name != "views"):
        top.complain(f"needs names with their {name} below '{name}'", top.line_of(name))
        return []
    for key, line in node.lines.items():
        if not pattern.fullmatch(key):
            message = f"'{key}' is no name for one of {name}: letters, digits and _ may stand in it"
            problems.append(Problem(line, message))
    return [read(key, node.lines[key], child, problems) for key, child in node.entries.items()]


def _watermark(fields: Fields, where: str, problems: list[Problem]) -> Watermark | None:
    node = fields.child("watermark")
    if node is None:
        return None
    inner = Fields(node, f"the watermark of {where}", ("column", "delay"), problems)
    if not node.is_mapping:
        return None
    return Watermark(inner.text("column"), inner.duration("delay"))


def _source(name: str, line: int, node: Node, problems: list[Problem]) -> Source:
    where = f"source '{name}'"
    fields = Fields(node, where, SOURCE, problems)
    given = [key for key in ("topic", "pattern", "table") if fields.has(key)]
    if node.is_mapping and len(given) != 1:
        fields.complain("needs exactly one of topic, pattern and table", line)
    is_table = "table" in given
    if is_table:
        for key in ("start", "watermark"):
            if fields.has(key):
                fields.complain(f"is a table, which has no {key}", fields.line_of(key))
    return Source(
        name,
        line,
        topic=",".join(fields.texts("table" if is_table else "topic")),
        pattern=fields.text("pattern", ""),
        is_table=is_table,
        key=fields.text("key", "binary"),
        value=fields.text("value", "binary"),
        malformed=fields.choice("malformed", ("keep", "fail"), "keep"),
        start=fields.choice("start", ("earliest", "latest"), "earliest"),
        watermark=_watermark(fields, where, problems),
        options=fields.settings("options"),
    )


def _view(name: str, line: int, node: Node, problems: list[Problem]) -> View:
    if node.is_scalar:
        return View(name, line, node.text.rstrip(), node.text_line)
    where = f"view '{name}'"
    fields = Fields(node, where, VIEW, problems)
    if not node.is_mapping:
        return View(name, line, "", line)
    sql = fields.text("sql").rstrip()
    child = fields.child("sql")
    return View(
        name, line, sql, child.text_line if child else line, _watermark(fields, where, problems)
    )


def _sink(name: str, line: int, node: Node, problems: list[Problem]) -> Sink:
    fields = Fields(node, f"sink '{name}'", SINK, problems)
    given = [kind for kind in SINK_KINDS if fields.has(kind)]
    if node.is_mapping and len(given) != 1:
        fields.complain(f"needs exactly one of {', '.join(SINK_KINDS)}", line)
    kind = given[0] if given else "console"
    if kind == "console" and fields.has("console") and not fields.switch("console"):
        fields.complain("says console: false, and nothing else to write to")
    mode = fields.choice("mode", MODES, "append")
    if node.is_mapping and mode not in MODES_OF[kind]:
        allowed = " or ".join(MODES_OF[kind])
        fields.complain(f"writes to a {kind} in {allowed} mode only", fields.line_of("mode"))
    sink = Sink(
        name,
        line,
        view=fields.text("from") if node.is_mapping else "",
        kind=kind,
        target="" if kind == "console" else fields.text(kind),
        mode=mode,
        trigger=fields.duration("trigger", ""),
        key=fields.texts("key"),
        value=fields.text("value", ""),
        delete_when=fields.text("delete_when", ""),
        options=fields.settings("options"),
    )
    _check_topic_fields(sink, fields)
    _check_options(sink, fields)
    return sink


def _check_options(sink: Sink, fields: Fields) -> None:
    for option in sink.options:
        said = SAID_BY_FIELDS.get(option.lower())
        if said is not None:
            fields.complain(f"cannot have the option '{option}': {said}", fields.line_of("options"))


def _check_topic_fields(sink: Sink, fields: Fields) -> None:
    for name in ("key", "value", "delete_when"):
        if fields.has(name) and sink.kind != "topic":
            fields.complain(f"writes to no topic and has no {name}", fields.line_of(name))
    needs_key = sink.mode == "update" or sink.delete_when
    if sink.kind == "topic" and needs_key and not sink.key:
        fields.complain("needs the field 'key': later rows of a key replace earlier ones")
    if sink.kind == "topic" and sink.delete_when and sink.mode != "update":
        fields.complain("deletes keys, which needs mode: update", fields.line_of("delete_when"))


def _restart(top: Fields, problems: list[Problem]) -> Restart:
    node = top.child("restart")
    if node is None:
        return Restart()
    fields = Fields(node, "restart", RESTART, problems)
    if not node.is_mapping:
        return Restart()
    usual = Restart()
    attempts = fields.number("attempts", usual.attempts, least=0, most=1_000_000)
    return Restart(
        attempts=usual.attempts if attempts is None else attempts,
        first_pause_ms=duration_ms(fields.duration("first_pause", "1 second")) or 0,
        longest_pause_ms=duration_ms(fields.duration("longest_pause", "1 minute")) or 0,
    )


def _check_names(
    sources: list[Source], views: list[View], sinks: list[Sink], problems: list[Problem]
) -> None:
    lines: dict[str, int] = {}
    parts: list[Source | View] = [*sources, *views]
    for part in parts:
        if part.name.lower() in lines:
            first = lines[part.name.lower()]
            problems.append(Problem(part.line, f"'{part.name}' is already named on line {first}"))
        lines.setdefault(part.name.lower(), part.line)
    for sink in sinks:
        if sink.view and sink.view.lower() not in lines:
            hint = did_you_mean(sink.view, [part.name for part in parts])
            about = f"sink '{sink.name}' writes '{sink.view}', which is no source and no view."
            problems.append(Problem(sink.line, f"{about} {hint}".strip()))
