"""Records are printed char for char as Kafka's console consumer prints them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tidelog.cli.deserializers import deserializer_named
from tidelog.cli.formatting import column_formatter, formatter_named, json_line
from tidelog.errors import InvalidConfig, SerializationFailed
from tidelog.records.record import Origin, Record

ALL = {
    f"print.{column}": "true"
    for column in ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
}


def record(
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: tuple[tuple[str, bytes | None], ...] = (),
    *,
    timestamp: int = 1_700_000_000_000,
    timestamp_type: int = 0,
    epoch: int = 4,
) -> Record:
    """A record of orders-3 at offset 42."""
    return Record(Origin("orders", 3, epoch, timestamp_type), 42, timestamp, key, value, headers)


def test_only_the_value_unless_told_otherwise() -> None:
    assert column_formatter({})(record()) == b"v\n"


def test_every_column_in_its_place() -> None:
    headers = (("h", b"1"), ("g", None))
    assert column_formatter(ALL)(record(headers=headers)) == (
        b"CreateTime:1700000000000\tPartition:3\tOffset:42\tDelivery:NONE\tEpoch:4"
        b"\th:1,g:null\tk\tv\n"
    )


def test_what_is_missing_has_a_word() -> None:
    empty = record(None, None, timestamp=-1, epoch=-1)
    assert column_formatter(ALL)(empty) == (
        b"NO_TIMESTAMP\tPartition:3\tOffset:42\tDelivery:NONE\tEpoch:NONE\tNO_HEADERS\tnull\tnull\n"
    )


def test_the_brokers_time_is_told_apart() -> None:
    formatter = column_formatter({"print.timestamp": "true"})
    assert formatter(record(timestamp_type=1)) == b"LogAppendTime:1700000000000\tv\n"


def test_separators_can_be_chosen() -> None:
    formatter = column_formatter(
        {
            "print.key": "TRUE",
            "print.headers": "true",
            "key.separator": " | ",
            "line.separator": ";\n",
            "headers.separator": "&",
            "null.literal": "-",
        }
    )
    assert formatter(record(None, headers=(("h", b"1"), ("g", None)))) == b"h:1&g:- | - | v;\n"


def test_the_last_column_ends_the_line_whatever_it_is() -> None:
    formatter = column_formatter({"print.value": "false", "print.offset": "true"})
    assert formatter(record()) == b"Offset:42\n"
    assert column_formatter({"print.value": "false"})(record()) == b""


def test_bytes_go_out_as_they_are() -> None:
    assert column_formatter({})(record(value=b"\xff\x00")) == b"\xff\x00\n"


@pytest.mark.parametrize(
    ("name", "payload", "shown"),
    [
        ("org.apache.kafka.common.serialization.LongDeserializer", struct.pack(">q", -5), b"-5"),
        ("IntegerDeserializer", struct.pack(">i", 7), b"7"),
        ("short", struct.pack(">h", 7), b"7"),
        ("Double", struct.pack(">d", 1.5), b"1.5"),
        ("Float", struct.pack(">f", 0.5), b"0.5"),
        ("StringDeserializer", b"text", b"text"),
        ("ByteArrayDeserializer", b"\xff", b"\xff"),
        ("UUID", b"6c84fb90-12c4-11e1-840d-7b25c5ee775a", b"6c84fb90-12c4-11e1-840d-7b25c5ee775a"),
    ],
)
def test_kafkas_deserializers(name: str, payload: bytes, shown: bytes) -> None:
    formatter = column_formatter({"value.deserializer": name})
    assert formatter(record(value=payload)) == shown + b"\n"


def test_nothing_is_not_deserialized() -> None:
    assert column_formatter({"value.deserializer": "Long"})(record(value=None)) == b"null\n"


def test_a_deserializer_of_ones_own() -> None:
    assert deserializer_named("json:loads")(b"[1]") == b"[1]"
    assert deserializer_named("operator:length_hint")(b"abc") == b"3"


@pytest.mark.parametrize(
    ("name", "payload", "words"),
    [
        ("Long", b"123", "LongDeserializer needs 8 bytes, there are 3"),
        ("UUID", b"no", "b'no' is no UUID"),
        ("json:loads", b"{", "json:loads failed. Cause: JSONDecodeError"),
        ("json:loads", b'"\\ud800"', "json:loads failed. Cause: UnicodeEncodeError"),
    ],
)
def test_what_cannot_be_deserialized_says_so(name: str, payload: bytes, words: str) -> None:
    with pytest.raises(SerializationFailed) as error:
        deserializer_named(name)(payload)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"print.keys": "true"}, "Did you mean 'print.key'?"),
        ({"print.key": "1"}, "print.key=1 is neither true nor false"),
        ({"key.deserializer": "Lng"}, "Did you mean 'Long'?"),
        ({"key.deserializer": "nowhere:at_all"}, "The deserializer 'nowhere:at_all' can't be"),
        ({"key.deserializer": "json:lods"}, "has no attribute 'lods'"),
    ],
)
def test_what_is_unknown_has_the_nearest(properties: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig) as error:
        column_formatter(properties)
    assert words in str(error.value)


def test_formatters_by_name() -> None:
    kafkas = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
    assert formatter_named(kafkas, {"print.key": "true"})(record()) == b"k\tv\n"
    assert formatter_named("kafka.tools.NoOpMessageFormatter", {})(record()) == b""
    with pytest.raises(InvalidConfig, match="prints nothing"):
        formatter_named("noop", {"print.key": "true"})
    with pytest.raises(InvalidConfig, match="There is no formatter 'defult'"):
        formatter_named("defult", {})


def test_json_has_everything() -> None:
    line = json_line(record(headers=(("h", b"1"), ("g", None))))
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_000,
        "timestamp_type": "CreateTime",
        "leader_epoch": 4,
        "key": "k",
        "value": "v",
        "headers": [{"name": "h", "value": "1"}, {"name": "g", "value": None}],
    }


def test_json_keeps_bytes_that_are_no_text() -> None:
    shown = json.loads(json_line(record(key=None, value=b"\xff\x00")))
    assert shown["key"] is None
    assert "value" not in shown
    assert shown["value_base64"] == "/wA="


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (":loads", "ValueError: Empty module name"),
        ("..:loads", "TypeError"),
        ("module_that_fails:loads", "RuntimeError: at its import"),
        ("module_that_is_none:loads", "SyntaxError"),
    ],
)
def test_a_deserializer_that_can_not_be_loaded_says_why(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_that_fails.py").write_text('raise RuntimeError("at its import")')
    (tmp_path / "module_that_is_none.py").write_text("def loads(")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidConfig) as error:
        deserializer_named(name)
    assert "can't be loaded" in str(error.value)
    assert words in str(error.value)
