"""Files, environment and flags: precedence, places in messages, and nothing ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.errors import InvalidConfig
from tidelog_runtime.configs.broker import BROKER_CONFIG
from tidelog_runtime.configs.sources import (
    resolve_configuration,
    settings_from_flags,
    variable_name,
)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_flags_beat_environment_beats_file_beats_defaults(tmp_path: Path) -> None:
    file = write(
        tmp_path / "x.properties",
        "# a comment\n\nnode.id = 1\nnum.partitions=2\n log.roll.ms = 3 h \n",
    )
    values = resolve_configuration(
        BROKER_CONFIG,
        flags=settings_from_flags({"node.id": "10"}),
        environment={"TIDELOG_NUM_PARTITIONS": "20", "TIDELOG_NODE_ID": "5", "PATH": "/bin"},
        file=file,
    )
    assert (values["node.id"], values["num.partitions"]) == (10, 20)
    assert values["log.roll.ms"] == 10_800_000
    assert values.source("node.id").where == "in flag --node-id"
    assert values.source("num.partitions").where.endswith("TIDELOG_NUM_PARTITIONS")
    assert values.source("log.roll.ms").where == f"in file {file} line 5"
    assert values["data.dir"] == "tidelog-data"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("node.id=1\nnode.idd=2", r"'node\.idd' in file .*x\.properties line 2.*'node\.id'"),
        ("node.id=x", r"Invalid value 'x' for 'node\.id' in file .* line 1"),
        ("node.id=1\nbroker.id=1", r"set twice: as 'node\.id' .* line 1 and .* line 2"),
        ("just words", r"Cannot read 'just words' in file .* line 1"),
        ("data.dir=a\\\nb", "line 1"),
    ],
)
def test_refusals_of_a_file_name_the_line(tmp_path: Path, text: str, words: str) -> None:
    file = write(tmp_path / "x.properties", text)
    with pytest.raises(InvalidConfig, match=words):
        resolve_configuration(BROKER_CONFIG, environment={}, file=file)


def test_toml_tables_and_dotted_keys(tmp_path: Path) -> None:
    file = write(
        tmp_path / "x.toml",
        'node.id = 4\n[log]\nlevel = "DEBUG"\ncleanup.policy = ["delete"]\n'
        "[delete.topic]\nenable = false\n",
    )
    values = resolve_configuration(BROKER_CONFIG, environment={}, file=file)
    assert values["node.id"] == 4
    assert values["log.level"] == "DEBUG"
    assert values["log.cleanup.policy"] == ("delete",)
    assert values["delete.topic.enable"] is False


@pytest.mark.parametrize("text", ["node.id = 1.5", "node.id = ", "[log]\nlevel = [1]"])
def test_refusals_of_toml_name_the_file(tmp_path: Path, text: str) -> None:
    file = write(tmp_path / "x.toml", text)
    with pytest.raises(InvalidConfig, match=r"x\.toml"):
        resolve_configuration(BROKER_CONFIG, environment={}, file=file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="Cannot read the configuration file"):
        resolve_configuration(BROKER_CONFIG, environment={}, file=tmp_path / "none")


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("TIDELOG_DATA_DIRR", "Did you mean 'TIDELOG_DATA_DIR'"),
        ("TIDELOG_NUM_IO_THREADS", "Known from Kafka"),
        ("TIDELOG_WHATEVER", "keys are: node.id"),
    ],
)
def test_an_unknown_variable_is_refused(variable: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words) as refusal:
        resolve_configuration(BROKER_CONFIG, environment={variable: "1"})
    assert variable in refusal.value.message


def test_what_others_set_is_left_alone() -> None:
    environment = {
        "TIDELOG_PURE": "1",
        "TIDELOG_BOOTSTRAP_SERVER": "x:1",
        "TIDELOG_SERVICE_HOST": "10.0.0.1",
        "TIDELOG_SERVICE_PORT_CLIENTS": "9094",
        "TIDELOG_PORT": "tcp://10.0.0.1:9094",
        "TIDELOG_PORT_9094_TCP_ADDR": "10.0.0.1",
        "TIDELOG_METRICS_PORT": "tcp://10.0.0.2:9095",
    }
    values = resolve_configuration(BROKER_CONFIG, environment=environment)
    assert values.set_texts() == {}


def test_a_key_that_looks_like_a_service_address_still_counts() -> None:
    environment = {"TIDELOG_METRICS_PORT": "1"}
    values = resolve_configuration(BROKER_CONFIG, environment=environment)
    assert values["metrics.port"] == 1


def test_every_key_has_a_variable_of_its_own() -> None:
    variables = [variable_name(key.name) for key in BROKER_CONFIG.keys]
    assert len(set(variables)) == len(variables)
