"""What can be known of a pipeline without asking it: its own notes, and Spark's checkpoints.

`running.py` notes after every batch; `tidelog streams status` reads, without starting Spark.
Invariant: a note is replaced in one step, so a reader never sees half of one.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tidelog.errors import InvalidConfig
from tidelog_spark.streams.pipeline.figures import Figures
from tidelog_spark.streams.pipeline.specification import STATUS_FOLDER, Pipeline, Sink

#: States of a sink in which a process is at work.
ALIVE: Final = ("starting", "running", "waiting")
COLUMNS: Final = ("sink", "state", "batch", "rows", "rows/s", "behind", "updated", "error")


def local_folder(checkpoints: str) -> Path | None:
    """The checkpoints as a folder of this machine; None when they lie elsewhere."""
    parts = urlsplit(checkpoints)
    if parts.scheme == "file":
        return Path(parts.path)
    return None if parts.scheme else Path(checkpoints)


def note(pipeline: Pipeline, figures: Figures) -> None:
    """Writes down how a sink is doing; nothing where the checkpoints are not on this machine."""
    folder = local_folder(pipeline.checkpoints)
    if folder is None:
        return
    path = folder / STATUS_FOLDER / f"{figures.sink}.json"
    draft = path.with_suffix(".draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(figures.as_json(), indent=2) + "\n")
        draft.replace(path)
    except OSError as error:
        raise InvalidConfig(
            f"nothing can be written below the checkpoints, {folder}: {error.strerror or error}"
        ) from None


def status(pipeline: Pipeline) -> list[dict[str, Any]]:
    """Each sink: its last note, and how far its checkpoint is."""
    folder = local_folder(pipeline.checkpoints)
    if folder is None:
        raise InvalidConfig(
            f"the checkpoints are at {pipeline.checkpoints}, and status reads local folders only",
            hint="The metrics page of the running pipeline tells the same (metrics_port)",
        )
    return [_status_of(folder, sink) for sink in pipeline.sinks]


def table(rows: list[dict[str, Any]]) -> str:
    """The status as people read it."""
    cells = [list(COLUMNS)]
    for row in rows:
        figures = [row["batch"], row["rows"], row["rows_a_second"], row["behind"]]
        shown = ["-" if figure is None else f"{figure:,}" for figure in figures]
        error = str(row["error"] or "").splitlines()
        cells.append(
            [row["sink"], row["state"], *shown, row["updated"] or "-", error[0] if error else ""]
        )
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    return "\n".join(lines)


def _status_of(folder: Path, sink: Sink) -> dict[str, Any]:
    figures = Figures("", sink.name).as_json() | _noted(folder, sink)
    planned = _newest(folder / sink.name / "offsets")
    committed = _newest(folder / sink.name / "commits")
    if not figures["updated"]:
        figures |= {"state": "never run" if planned is None else "unknown", "rows": None}
        figures["rows_a_second"] = None
    elif figures["state"] in ALIVE and not _is_alive(figures):
        figures["state"] = "gone"
        figures["error"] = figures["error"] or "its process ended without a word"
    if figures["batch"] is None:
        figures["batch"] = committed
    return figures | {"planned_batch": planned, "committed_batch": committed}


def _noted(folder: Path, sink: Sink) -> dict[str, Any]:
    path = folder / STATUS_FOLDER / f"{sink.name}.json"
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise InvalidConfig(f"{path} is no status of a pipeline: remove it") from None
    return dict(found)


def _newest(folder: Path) -> int | None:
    """The highest batch in a log of Spark's."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=None)


def _is_alive(figures: dict[str, Any]) -> bool:
    """Whether the process still runs; of another machine's nothing is known, so it is believed."""
    if figures["host"] != socket.gethostname():
        return True
    try:
        os.kill(int(figures["process_id"]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
