"""`tidelog streams` as a user runs it: a process, its words, its exit code, and SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidelog
from spark_kit.session import SETTINGS, spark_environment
from spark_kit.standalone import children_of
from spark_kit.topics import Topics
from support.eventually import eventually
from tidelog.cli import main
from tidelog.errors import InvalidConfig
from tidelog_spark.streams.pipeline.figures import Figures
from tidelog_spark.streams.pipeline.reading import read_pipeline
from tidelog_spark.streams.pipeline.status import note, status

RECORDS = 2_000
TIDELOG = "import sys; from tidelog.cli import main; sys.exit(main())"
SMALL = """\
name: copies
checkpoints: state
sources:
  lines: {topic: lines, value: string}
sinks:
  out: {from: lines, topic: out, value: value}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A small pipeline in a folder of its own, which is where the test is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(SMALL)
    return "p.yaml"


def test_help_names_actions_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "--help"]) == 0
    assert main(["streams", "run", "--help"]) == 0
    shown = capsys.readouterr().out
    for word in ("validate", "explain", "status", "--available-now", "--print-python"):
        assert word in shown
    assert main(["streams"]) == 2


def test_listing_the_verbs_needs_no_spark() -> None:
    program = "import sys; import tidelog_spark.verbs; print('pyspark' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ran.stdout.strip() == b"False"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["statu", "p.yaml"], 2, "there is no action 'statu'. Did you mean 'status'?"),
        (["run", "p.yaml", "--availble-now"], 2, "Did you mean '--available-now'?"),
        (["run"], 2, "the following arguments are required: FILE"),
        (["run", "missing.yaml"], 1, "missing.yaml cannot be read: No such file or directory"),
        (["validate", "wrong.yaml"], 1, "wrong.yaml:4: source 'lines' has no field 'topics'"),
    ],
)
def test_mistakes_are_told_in_words(
    file: str,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    Path("wrong.yaml").write_text(SMALL.replace("topic: lines", "topics: lines"))
    assert main(["streams", *arguments]) == code
    assert words in capsys.readouterr().err


def test_the_program_is_printed_without_spark(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["streams", "run", file, "--print-python", "--bootstrap-server", "other:1"]) == 0
    text = capsys.readouterr().out
    compile(text, "printed.py", "exec")
    assert "BOOTSTRAP = 'other:1'" in text
    assert "streams.to_topic(" in text


def test_status_tells_of_runs_and_of_none(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    def shown() -> dict[str, object]:
        assert main(["streams", "status", file, "--json"]) == 0
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    pipeline = read_pipeline(Path(file))
    assert shown()["state"] == "never run"
    for log, batches in (("offsets", 3), ("commits", 2)):
        folder = Path("state/out") / log
        folder.mkdir(parents=True)
        for batch in range(batches):
            (folder / str(batch)).write_text("v1")
    found = shown()
    assert (found["state"], found["planned_batch"], found["committed_batch"]) == ("unknown", 2, 1)

    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    host = os.uname().nodename
    figures = Figures("copies", "out", state="running", process_id=int(ended.stdout), host=host)
    figures.updated = "2026-01-01T00:00:00Z"
    note(pipeline, figures)
    assert (shown()["state"], shown()["error"]) == ("gone", "its process ended without a word")
    figures.process_id = os.getpid()
    note(pipeline, figures)
    assert shown()["state"] == "running"
    assert main(["streams", "status", file]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["out", "running"]


def test_status_of_checkpoints_elsewhere_is_refused(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text(SMALL.replace("checkpoints: state", "checkpoints: s3a://b/state"))
    assert main(["streams", "status", file]) == 1
    assert "status reads local folders only" in capsys.readouterr().err


def test_checkpoints_where_nothing_can_be_written(file: str) -> None:
    Path("state").touch()
    with pytest.raises(InvalidConfig, match="below the checkpoints, state: Not a directory"):
        note(read_pipeline(Path(file)), Figures("copies", "out"))


def test_a_java_that_is_too_old_is_named(file: str, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    ran = subprocess.run(
        [sys.executable, "-c", TIDELOG, "streams", "validate", file],
        env=os.environ | {"JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert f"It needs Java 17 or newer, and took that of JAVA_HOME={tmp_path}" in ran.stderr
    assert "Traceback" not in ran.stderr


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The verb as a process; killed if the test forgets it."""
    process = subprocess.Popen(
        [sys.executable, "-c", TIDELOG, "streams", *arguments],
        cwd=folder,
        env=os.environ | spark_environment(folder / "temporary"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_sigterm_lets_the_batch_end(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    lines, out = topics.create(partitions=2), topics.create(partitions=1)
    with tidelog.Producer(topics.bootstrap) as producer:
        producer.send_many(lines, [str(number).encode() for number in range(RECORDS)])
    text = SMALL.replace("checkpoints: state", f"checkpoints: {tmp_path / 'state'}")
    text = text.replace("topic: lines", f"topic: {lines}").replace("topic: out", f"topic: {out}")
    text += f"spark: {json.dumps(dict(SETTINGS))}\n"  # a small JVM, which is soon there
    limits = "options: {maxOffsetsPerTrigger: 50}"
    (tmp_path / "p.yaml").write_text(text.replace("value: string", f"value: string, {limits}"))
    arguments = ("run", "p.yaml", "--bootstrap-server", topics.bootstrap)
    with running(tmp_path, *arguments) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert "out: batch 0  50 rows" in first, first + process.communicate()[1]
        process.send_signal(signal.SIGTERM)
        said, errors = process.communicate()
        assert process.returncode == 0, errors
    assert "told to end: waiting for the batches that are under way" in said
    [row] = status(read_pipeline(tmp_path / "p.yaml"))
    assert row["state"] == "stopped"
    written = topics.values(out)
    assert len(written) == len(set(written)) == 50 * (row["committed_batch"] + 1) < RECORDS


@pytest.mark.parametrize("asked", [False, True])
def test_the_stacks_of_a_failed_query_are_shown_to_who_asks(
    spark: SparkSession, topics: Topics, tmp_path: Path, asked: bool
) -> None:
    lines, out = topics.create(partitions=1), topics.create(partitions=1)
    with tidelog.Producer(topics.bootstrap) as producer:
        producer.send(lines, b"a")
    settings = dict(SETTINGS) | {"spark.log.level": "ERROR"}
    if not asked:
        del settings["spark.log.level"]
    text = f"""\
name: failing
checkpoints: {tmp_path / "state"}
restart: {{attempts: 1, first_pause: 1 millisecond}}
sources: {{lines: {{topic: {lines}, value: string}}}}
views: {{bad: "SELECT CAST(raise_error('no luck') AS STRING) AS value FROM lines"}}
sinks: {{out: {{from: bad, topic: {out}, value: value}}}}
spark: {json.dumps(settings)}
"""
    (tmp_path / "p.yaml").write_text(text)
    arguments = ("run", "p.yaml", "--available-now", "--bootstrap-server", topics.bootstrap)
    with running(tmp_path, *arguments) as process:
        said, errors = process.communicate()
    assert process.returncode == 1, errors
    assert [line.partition(" ")[2] for line in said.splitlines()] == [
        "out: try 1 of 2 failed: no luck; starts again in 0.001 s",
        "out: try 2 of 2 failed: no luck; gave up",
    ]
    assert ("MicroBatchExecution" in errors) == asked
    assert ("\tat org.apache.spark" in errors) == asked


def test_a_java_process_that_dies_is_told_in_words(topics: Topics, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(SMALL.replace("topic: lines", f"topic: {topics.create()}"))
    arguments = ("run", "p.yaml", "--bootstrap-server", topics.bootstrap)
    with running(tmp_path, *arguments) as process:
        begun = tmp_path / "state" / "out" / "metadata"
        eventually(begun.exists, 120, waiting_for="the start of the query")
        for child in children_of(process.pid):
            os.kill(child, signal.SIGKILL)
        _, errors = process.communicate()
    assert process.returncode == 1
    # Within the output, not at the start of a line: a thread of PySpark's tells of its lost
    # connection at the same moment, and our exit cuts it off in the middle of a line.
    assert errors.count("tidelog streams: ") == 1, errors
    assert "tidelog streams: Spark's Java process has ended, and all queries with it" in errors
