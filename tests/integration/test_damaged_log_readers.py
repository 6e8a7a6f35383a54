"""What a broker found damaged on its own disk: readers are told, and can go on behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.processes import running_node
from tidelog import AsyncConsumer, Consumer, Producer
from tidelog.cli.command import main
from tidelog.errors import InvalidRequest, LogCorrupt

BATCHES = 5
DAMAGED = 2


@contextmanager
def broker_with_damage(tmp_path: Path) -> Iterator[str]:
    """A broker whose third batch of five was spoilt below what the journal knows to be durable."""
    data_dir = tmp_path / "data"
    with running_node(data_dir) as node:
        with Producer(node.bootstrap) as producer:
            for number in range(BATCHES):
                producer.send("orders", value=b"value %d" % number).result()
        node.terminate()
        assert node.exit_code() == 0
    with running_node(data_dir) as node:
        node.kill()
    (segment,) = data_dir.glob("topics/*/0/*.log")
    content = bytearray(segment.read_bytes())
    content[content.index(b"value %d" % DAMAGED)] ^= 1
    segment.write_bytes(content)
    with running_node(data_dir) as node:
        yield node.bootstrap


def test_a_reader_skips_the_damaged_range(tmp_path: Path) -> None:
    with broker_with_damage(tmp_path) as bootstrap, Consumer(bootstrap) as consumer:
        consumer.assign("orders", start="earliest", until="end")
        seen: list[int] = []
        with pytest.raises(LogCorrupt, match="Offsets 2 to 2 of orders-0") as told:
            seen.extend(record.offset for record in consumer)
        assert (told.value.topic, told.value.partition, told.value.next_offset) == ("orders", 0, 3)
        consumer.skip(told.value)
        assert seen == [0, 1]
        assert [record.offset for record in consumer] == [3, 4]


def test_an_asyncio_reader_does_so_too(tmp_path: Path) -> None:
    async def read(bootstrap: str) -> list[int]:
        async with AsyncConsumer(bootstrap) as consumer:
            await consumer.assign("orders", start="earliest", until="end")
            before = [(await anext(consumer.records())).offset for _ in range(DAMAGED)]
            with pytest.raises(LogCorrupt) as told:
                await anext(consumer.records())
            await consumer.skip(told.value)
            return before + [record.offset async for record in consumer]

    with broker_with_damage(tmp_path) as bootstrap:
        assert asyncio.run(read(bootstrap)) == [0, 1, 3, 4]


def test_the_console_consumer_skips_it_when_told_to(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["console-consumer", "--topic", "orders", "--from-beginning", "--max-messages", "4"]
    with broker_with_damage(tmp_path) as bootstrap:
        refused = main([*command, "--bootstrap-server", bootstrap])
        assert refused != 0
        assert "Offsets 2 to 2 of orders-0 are damaged" in capfd.readouterr().err
        skipped = main([*command, "--bootstrap-server", bootstrap, "--skip-message-on-error"])
        assert skipped == 0
    said = capfd.readouterr()
    assert said.out.splitlines() == ["value 0", "value 1", "value 3", "value 4"]
    assert "skipped: Offsets 2 to 2 of orders-0 are damaged" in said.err


def test_where_nobody_knows_how_to_go_on_that_is_said(tmp_path: Path) -> None:
    refused = pytest.raises(InvalidRequest, match="names no batch that could be skipped")
    with running_node(tmp_path / "data") as node, Consumer(node.bootstrap) as consumer, refused:
        consumer.skip(LogCorrupt("a header is damaged"))
