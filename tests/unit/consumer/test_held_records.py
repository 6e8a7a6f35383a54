"""What a reader holds on to of an answer: the message for most of it, a copy for a small part."""

from __future__ import annotations

from tidelog.consumer.fetched import held_records
from tidelog.wire.envelopes import FETCHED
from tidelog.wire.v1 import fetch_pb2


def answer(*payloads: bytes) -> bytes:
    """A pushed answer with these records."""
    message = fetch_pb2.FetchStreamResponse()
    for session, payload in enumerate(payloads):
        message.partitions.add(session=session, records=payload)
    return message.SerializeToString()


def test_most_of_a_message_is_held_as_the_message() -> None:
    content = answer(b"a" * 100_000, b"b" * 20_000)
    response = FETCHED.split(content)
    held, (begin, end) = held_records(response, 0)
    assert held is content
    assert held[begin:end] == b"a" * 100_000


def test_a_small_part_does_not_keep_the_message() -> None:
    response = FETCHED.split(answer(b"a" * 100_000, b"b" * 20_000))
    held, span = held_records(response, 1)
    assert (held, span) == (b"b" * 20_000, (0, 20_000))


def test_small_messages_are_read_by_generated_code() -> None:
    response = FETCHED.split(answer(b"a" * 100, b"b" * 20))
    assert held_records(response, 1) == (b"b" * 20, (0, 20))
