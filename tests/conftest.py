"""What holds for every test: it leaves nothing behind, and its randomness has a seed.

`--seed` changes the seeds of all tests at once; without it every run draws the same numbers.
Properties have no time limit: how fast a machine is says nothing about what holds on it.
"""

from __future__ import annotations

import hashlib
import random
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from support.leaks import leak_check

settings.register_profile(
    "tidelog", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tidelog")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the one flag that all seeded tests share."""
    parser.addoption("--seed", type=int, default=0, help="seeds every test that draws numbers")


def pytest_configure() -> None:
    """Lets Ctrl-C mean something to the processes that tests start, also behind `nohup ... &`.

    Shells have what runs in the background ignore it, and children inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _leaves_nothing_behind() -> Iterator[None]:
    with leak_check() as leaks:
        yield
    if leaks:
        pytest.fail("the test left something behind: " + "; ".join(leaks), pytrace=False)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed of this test's own, made from its name and --seed; shown when the test fails."""
    chosen: int = request.config.getoption("--seed")
    name = f"{chosen}:{request.node.nodeid}"
    derived = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    print(f"seed {derived}: replay with pytest '{request.node.nodeid}' --seed {chosen}")
    return derived


@pytest.fixture
def random_source(seed: int) -> random.Random:
    """A source of random numbers seeded for this test."""
    return random.Random(seed)
