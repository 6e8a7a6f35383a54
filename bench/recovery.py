"""How long a node takes to come back: after a clean stop, and after kill -9 under load.

`python -m bench.recovery --gigabytes 10` runs it at another size than `make bench` does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import tempfile
import time
from typing import Final

from bench.measuring import Row, row, show
from bench.rpc import BIG, Session, produce, request_of
from bench.servers import Server, broker

GIGABYTE: Final = 10**9
GIGABYTES_BY_DEFAULT: Final = 1.0
TOPIC: Final = "recovery"


async def fill(server: Server, wanted_bytes: int) -> None:
    """Writes a log of this size."""
    session = Session(server)
    try:
        await session.create(TOPIC, 1, retention_bytes=-1)
        await produce(session, wanted_bytes // len(BIG), 4, lambda _: request_of(TOPIC, 0, BIG))
    finally:
        await session.channel.close()


async def load_until_killed(server: Server, requests: int) -> None:
    """Keeps writing, and kills the broker in the middle of it."""
    session = Session(server)
    try:
        await produce(session, requests, 4, lambda _: request_of(TOPIC, 0, BIG))
        os.kill(server.pid, signal.SIGKILL)
    finally:
        await session.channel.close()


def ready_seconds(data_dir: str) -> float:
    """From starting the process to its word that it serves; stopped cleanly afterwards."""
    started = time.perf_counter()
    with broker(data_dir):
        return time.perf_counter() - started


def run(repeat: int, gigabytes: float = GIGABYTES_BY_DEFAULT) -> list[Row]:
    """The rows of this bench."""
    clean_s, killed_s = [], []
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as data_dir:
        with broker(data_dir) as server:
            asyncio.run(fill(server, int(gigabytes * GIGABYTE)))
        for _ in range(repeat):
            clean_s.append(ready_seconds(data_dir))
            with broker(data_dir) as server:
                asyncio.run(load_until_killed(server, 50))
            killed_s.append(ready_seconds(data_dir))
    log = f"a log of {gigabytes:g} GB"
    return [
        row(f"start after a clean stop, {log}", "s", clean_s),
        row(f"start after kill -9, {log}", "s", killed_s),
    ]


def main() -> None:
    """Runs it alone."""
    parser = argparse.ArgumentParser(prog="python -m bench.recovery", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=GIGABYTES_BY_DEFAULT)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(show(run(options.repeat, options.gigabytes)))


if __name__ == "__main__":
    main()
