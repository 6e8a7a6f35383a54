"""What the documents list by name is there: settings, errors, calls of ours and of others."""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest

import tidelog
from support.tree import ROOT
from tidelog.admin.settings import AdminSettings
from tidelog.consumer.settings import ConsumerSettings
from tidelog.producer.producer_settings import ProducerSettings
from tidelog.records.compression import Compression

DOCS: Final = ROOT / "docs"
SETTINGS: Final[dict[str, type[Any]]] = {
    "producing.md": ProducerSettings,
    "consuming.md": ConsumerSettings,
    "admin.md": AdminSettings,
}
MIB: Final = 1024 * 1024

#: The clients in the columns of the tables for those who come from Kafka, and where they live.
COLUMNS: Final = {
    "kafka-python": {
        "producer": ["kafka.KafkaProducer"],
        "consumer": ["kafka.KafkaConsumer"],
        "admin": ["kafka.KafkaAdminClient"],
    },
    "aiokafka": {
        "producer": ["aiokafka.AIOKafkaProducer"],
        "consumer": ["aiokafka.AIOKafkaConsumer"],
        "admin": ["aiokafka.admin.AIOKafkaAdminClient"],
    },
    "confluent-kafka": {
        "producer": ["confluent_kafka.Producer"],
        "consumer": ["confluent_kafka.Consumer"],
        "admin": ["confluent_kafka.admin.AdminClient"],
    },
    "Tidelog": {
        "producer": ["tidelog.Producer", "tidelog.AsyncProducer"],
        "consumer": ["tidelog.Consumer", "tidelog.AsyncConsumer"],
        "admin": ["tidelog.Admin", "tidelog.AsyncAdmin"],
    },
}
CALL: Final = re.compile(r"\b(producer|consumer|admin)\.(\w+)\(")


def tables(page: str) -> Iterator[list[list[str]]]:
    """The tables of a page: rows of cells, the heading first, the rule below it left out."""
    for table in re.findall(r"(?:^\|.*\|\n)+", (DOCS / page).read_text(), re.MULTILINE):
        rows = [[cell.strip() for cell in row[1:-1].split("|")] for row in table.splitlines()]
        yield [row for row in rows if "---" not in row[0]]


def settings_table(page: str) -> dict[str, str]:
    """Setting and default as a page lists them."""
    (rows,) = [table for table in tables(page) if table[0][0] == "setting"]
    return {row[0].strip("`"): row[1] for row in rows[1:]}


def written(default: object, name: str) -> str:
    """A default as the pages write it."""
    if isinstance(default, Compression):
        return f'`"{default.name.lower()}"`'
    if name == "isolation_level":
        return '`"read_uncommitted"`'
    if isinstance(default, bool) or default is None:
        return f"`{default}`"
    if isinstance(default, str):
        return f'`"{default}"`'
    assert isinstance(default, int)
    for unit, size in (("MiB", MIB), ("KiB", MIB // 1024)):
        if default >= size and default % size == 0:
            return f"{default // size} {unit}"
    return f"{default:,}"


@pytest.mark.parametrize("page", sorted(SETTINGS))
def test_a_page_lists_every_setting_with_its_default(page: str) -> None:
    fields = dataclasses.fields(SETTINGS[page])
    assert settings_table(page) == {
        field.name: written(field.default, field.name) for field in fields
    }


@pytest.mark.parametrize("column", sorted(COLUMNS))
def test_the_calls_for_those_who_come_from_kafka_exist(column: str) -> None:
    homes = COLUMNS[column]
    for home in {home.split(".", maxsplit=1)[0] for names in homes.values() for home in names}:
        pytest.importorskip(home, reason="another project's client, not needed for development")
    checked = 0
    for table in tables("coming-from-kafka.md"):
        if column not in table[0]:
            continue
        for row in table[1:]:
            for kind, name in CALL.findall(row[table[0].index(column)]):
                assert any(hasattr(found(home), name) for home in homes[kind]), (row[0], name)
                checked += 1
    assert checked > 20


def found(name: str) -> Any:
    """A class by its full name."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_the_settings_for_those_who_come_from_kafka_exist() -> None:
    (table,) = [table for table in tables("coming-from-kafka.md") if table[0][0] == "Kafka"]
    known = {field.name for kind in SETTINGS.values() for field in dataclasses.fields(kind)}
    named = {name for row in table[1:] for name in re.findall(r"^`(\w+)`$", row[1])}
    assert named - known == {"key", "value", "group"}  # arguments of their own


def test_the_page_of_errors_has_every_public_one() -> None:
    listed = {
        name for table in tables("errors.md") for row in table for name in [row[0].strip("`")]
    }
    errors = {name for name in tidelog.__all__ if is_error(getattr(tidelog, name))}
    assert errors <= listed


def is_error(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, tidelog.TidelogError)


def test_the_kinds_below_refused_are_below_it() -> None:
    _, kinds = [table for table in tables("errors.md") if table[0][0] == "error"]
    names = [row[0].strip("`") for row in kinds[1:]]
    assert names
    assert [name for name in names if not issubclass(getattr(tidelog, name), tidelog.Refused)] == []


def test_every_duration_may_be_a_timedelta() -> None:
    settings = {"linger_ms": timedelta(milliseconds=20), "batch_size": "64 KiB"}
    with tidelog.Producer("localhost:1", **settings) as producer:  # type: ignore[arg-type]
        assert producer._settings.linger_ms == 20
        assert producer._settings.batch_size == 65_536
