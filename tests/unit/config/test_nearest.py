"""The nearest name: near enough to help, never far-fetched, and cheap whatever is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidelog import nearest as nearest_module
from tidelog.nearest import did_you_mean, nearest

TOPICS = ["orders", "invoices", "payments", "orders-eu"]


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("ordres", "orders"),
        ("order", "orders"),
        ("ORDERS", "orders"),
        ("inovices", "invoices"),
        ("paymnet", "payments"),
        ("customers", None),
        ("o", None),
        ("", None),
        ("x" * 10_000, None),
    ],
)
def test_nearest(word: str, found: str | None) -> None:
    assert nearest(word, TOPICS) == found


def test_ties_go_to_the_alphabet_whatever_the_order() -> None:
    assert nearest("cab", ["cat", "car"]) == nearest("cab", ["car", "cat"]) == "car"


def test_of_a_single_letter_no_other_is_near() -> None:
    assert nearest("7", ["0", "1", "all"]) is None


def test_the_hint() -> None:
    assert did_you_mean("ordres", TOPICS) == "Did you mean 'orders'?"
    assert did_you_mean("zebra", TOPICS) == ""


def test_no_name_is_the_nearest_to_itself() -> None:
    assert nearest("orders", ["orders"]) is None


def test_the_work_is_bounded() -> None:
    looked_at = 0

    def many() -> Iterator[str]:
        nonlocal looked_at
        while True:
            looked_at += 1
            yield f"topic-{looked_at}"

    assert nearest("an-unheard-of-name", many()) is None
    assert looked_at <= 5_001


def test_long_names_that_are_much_alike_are_not_all_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker answers nobody else meanwhile: a thousand of them took a minute."""
    compared: list[str] = []
    slips = nearest_module._slips

    def counted(word: str, other: str, limit: int) -> int:
        compared.append(other)
        return slips(word, other, limit)

    monkeypatch.setattr(nearest_module, "_slips", counted)
    candidates = ["a" * 230 + f"{number:018d}" for number in range(1_000)]
    assert nearest("a" * 230 + "9" * 18, candidates) is None
    assert len(compared) < 10


def test_what_shares_few_letters_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_module, "_slips", None)
    assert nearest("customers", ["abcdefghi"]) is None
