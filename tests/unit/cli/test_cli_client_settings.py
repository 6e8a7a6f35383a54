"""Kafka's client properties become our settings, and none is ignored silently."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from tidelog.admin.settings import AdminSettings
from tidelog.cli.client_settings import WITHOUT_EFFECT, connection, settings_of
from tidelog.cli.get_offsets import read_time
from tidelog.consumer.settings import ConsumerSettings
from tidelog.errors import InvalidConfig
from tidelog.producer.producer_settings import ProducerSettings


@pytest.mark.parametrize(
    ("properties", "settings"),
    [
        ({"linger.ms": "5"}, {"linger_ms": 5}),
        ({"linger.ms": " +5 "}, {"linger_ms": 5}),
        ({"linger.ms": "0.5"}, {"linger_ms": 0.5}),
        ({"linger.ms": ".5"}, {"linger_ms": 0.5}),
        ({"acks": "all"}, {"acks": "all"}),
        ({"acks": "-1"}, {"acks": -1}),
        ({"compression.type": "zstd"}, {"compression": "zstd"}),
        ({"compression.zstd.level": "9"}, {"compression_level": 9}),
        ({"enable.idempotence": "False"}, {"enable_idempotence": False}),
        ({"max.in.flight.requests.per.connection": "1"}, {"max_in_flight": 1}),
        ({"buffer.memory": "64 MiB"}, {"buffer_memory": "64 MiB"}),
        ({"client.id": "7"}, {"client_id": "7"}),
        ({"security.protocol": "PLAINTEXT"}, {}),
    ],
)
def test_a_producers_properties(properties: dict[str, str], settings: dict[str, object]) -> None:
    assert settings_of(ProducerSettings, properties) == settings


def test_a_consumers_properties() -> None:
    properties = {"isolation.level": "read_committed", "check.crcs": "false"}
    assert settings_of(ConsumerSettings, properties) == {
        "isolation_level": "read_committed",
        "check_crcs": False,
    }


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"": "5"}, "There is no client property ''"),
        ({"linger.mss": "5"}, "Did you mean 'linger.ms'?"),
        ({"linger.ms": "soon"}, "linger_ms='soon' is no duration"),
        ({"acks": "2"}, "acks=2 is not possible"),
        ({"max.in.flight": "1001"}, "max_in_flight=1001 is not between 1 and 1000"),
        ({"linger.ms": "nan"}, "linger_ms='nan' is no duration"),
        ({"linger.ms": "1_0"}, "linger_ms='1_0' is no duration"),
        ({"linger.ms": "\u0663"}, "linger_ms='\u0663' is no duration"),
        ({"linger.ms": "9" * 5000}, f"linger_ms='{'9' * 79} is no duration"),
        ({"batch.size": "1_0"}, "batch_size='1_0' is no size"),
        ({"batch.size": "\u0663"}, "batch_size='\u0663' is no size"),
        ({"batch.size": "9" * 5000}, f"batch_size='{'9' * 79} is too large"),
        ({"max.in.flight": "1_0"}, "max_in_flight='1_0' is no whole number"),
        ({"linger.ms": "-5"}, "linger_ms=-5 is too small"),
        ({"client.id": "h\u00e9"}, "must be text that is not empty, of printable ASCII"),
        ({"transactional.id": "t"}, "this Tidelog has no transactions yet"),
        ({"security.protocol": "SASL_SSL"}, "this Tidelog has no encryption yet"),
        ({"sasl.mechanism": "PLAIN"}, "this Tidelog has no authentication yet"),
        ({"ssl.truststore.location": "x"}, "this Tidelog has no encryption yet"),
    ],
)
def test_what_cannot_be_is_refused(properties: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig) as error:
        settings_of(ProducerSettings, properties)
    assert words in str(error.value)


@pytest.mark.parametrize("kind", [ProducerSettings, ConsumerSettings])
def test_advice_names_only_what_is_taken(kind: type[Any]) -> None:
    with pytest.raises(InvalidConfig) as error:
        settings_of(kind, {"nothing of ours": "1"})
    names = str(error.value).partition("There are ")[2].rstrip(".").split(", ")
    assert ("compression.type" in names) == (kind is ProducerSettings)
    for name in names:
        try:
            settings_of(kind, {name: "none of its values"})
        except InvalidConfig as refusal:
            assert "no client property" not in str(refusal)  # noqa: PT017 - some take any text


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_what_has_no_effect_is_told(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert settings_of(AdminSettings, {name: "3"}) == {}
    assert capsys.readouterr().err == f"{name} has no effect here: {WITHOUT_EFFECT[name]}.\n"


def test_where_the_address_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nclient.id=mine\n")

    def bootstrap(server: str | None, config: str | None) -> str:
        options = argparse.Namespace(bootstrap_server=server, command_config=config)
        return connection(options, AdminSettings, client_id="try").bootstrap

    assert bootstrap(None, None) == "localhost:9094"
    assert bootstrap(None, str(file)) == "file:1"
    assert bootstrap("flag:2,other:3", str(file)) == "flag:2,other:3"
    with pytest.raises(InvalidConfig, match="'localhost' is no address"):
        bootstrap("localhost", None)


def test_an_empty_address_is_not_the_default_one() -> None:
    options = argparse.Namespace(bootstrap_server="", command_config=None)
    with pytest.raises(InvalidConfig, match="'' names no broker"):
        connection(options, AdminSettings, client_id="tests")


def test_later_lists_win(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("linger.ms=1\nacks=1\n")
    options = argparse.Namespace(bootstrap_server=None, command_config=str(file))
    where = connection(
        options, ProducerSettings, [("linger.ms", "2")], None, [("linger.ms", "3")], client_id="try"
    )
    assert where.settings == {"linger_ms": 3, "acks": 1, "client_id": "try"}


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("-1", "latest"),
        ("earliest", "earliest"),
        ("-3", "max_timestamp"),
        ("-4", "earliest"),
        ("0", 0),
        ("1500", 1500),
        ("253402300800000", 253_402_300_800_000),
        (str(2**63 - 1), 2**63 - 1),
    ],
)
def test_times_of_get_offsets(text: str, time: object) -> None:
    assert read_time(text) == time


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-5", "tiered"),
        ("-6", "is no time"),
        ("9" * 5000, "is no time"),
        (str(2**63), "9223372036854775808 is too late, the last time is 9223372036854775807"),
        ("lates", "Did you mean 'latest'"),
    ],
)
def test_a_time_that_is_none_is_refused(text: str, words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        read_time(text)
