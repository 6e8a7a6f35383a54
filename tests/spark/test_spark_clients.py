"""Clients live as long as their process, and none is used by two at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from unittest import mock

import pytest

from tidelog_spark.clients import borrowed, client_for, close_clients


class Counted:
    """A client that knows whether it was closed."""

    def __init__(self, bootstrap: str, **settings: object) -> None:
        self.bootstrap = bootstrap
        self.settings = settings
        self.is_closed = False

    def close(self) -> None:
        """Closes it."""
        self.is_closed = True


@pytest.fixture(autouse=True)
def _no_client_left() -> Iterator[None]:
    yield
    close_clients()


def test_the_same_client_for_the_same_cluster_and_settings() -> None:
    one = client_for(Counted, "a:1", client_id="x")
    assert client_for(Counted, "a:1", client_id="x") is one
    assert client_for(Counted, "a:1", client_id="y") is not one
    assert client_for(Counted, "b:1", client_id="x") is not one


def test_planning_imports_no_consumer() -> None:
    # Spark starts a process for each stream, whose imports the first micro-batch waits for.
    program = (
        "import sys; import tidelog_spark.stream;"
        "print([name for name in sys.modules if name.startswith('tidelog.consumer.')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "['tidelog.consumer.settings']"


def test_another_process_has_another_client() -> None:
    one = client_for(Counted, "a:1")
    with mock.patch.object(os, "getpid", return_value=-1):
        assert client_for(Counted, "a:1") is not one


def test_a_borrowed_client_is_nobody_elses_until_it_is_given_back() -> None:
    with borrowed(Counted, "a:1") as one, borrowed(Counted, "a:1") as other:
        assert one is not other
    with borrowed(Counted, "a:1") as again:
        assert again in (one, other)
        assert not again.is_closed


def test_a_client_whose_use_failed_is_not_used_again() -> None:
    with pytest.raises(ValueError, match="no"), borrowed(Counted, "a:1") as one:
        raise ValueError("no")
    assert one.is_closed
    with borrowed(Counted, "a:1") as other:
        assert other is not one


def test_all_are_closed_together() -> None:
    shared = client_for(Counted, "a:1")
    with borrowed(Counted, "a:1") as lent:
        pass
    close_clients()
    assert shared.is_closed
    assert lent.is_closed
