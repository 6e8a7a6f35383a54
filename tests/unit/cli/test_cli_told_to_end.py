"""Signals that tell a verb to end: those that come together are one, each later one counts."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest

from tidelog.cli import told_to_end as module
from tidelog.cli.told_to_end import TOGETHER_S, exit_code, told_to_end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_signal_ends_a_verb_with_a_code_of_its_own(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt) as end, told_to_end():
        signal.raise_signal(number)
    assert exit_code(end.value) == 128 + number
    assert signal.getsignal(number) is before


def test_signals_that_come_together_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    with told_to_end():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        now += TOGETHER_S / 2
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        now += TOGETHER_S
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def test_an_ignored_signal_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with told_to_end():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
