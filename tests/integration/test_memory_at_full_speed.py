"""At full speed a client stays within its configured buffer and 60 MB, in a process of its own.

What is counted is what a client takes beyond its imports: NumPy and pyarrow alone take 35 MB.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final, Literal

import pytest

import tidelog
from harness.processes import ProcessNode, running_node

MIB: Final = 1024 * 1024
ALLOWED_BYTES: Final = 60_000_000
#: Large enough that a buffer without a limit would show, and none of the allowance.
BUFFER_BYTES: Final = 32 * MIB

#: Says how much memory the client took beyond what the imports had taken, at most.
MEASURE: Final = """
import asyncio, sys
import tidelog, tidelog.producer.producer, tidelog.consumer.consumer, tidelog.channel_grpc
import tidelog.consumer.async_consumer
import tidelog.records.column_decoder, tidelog.records.column_encoder
import pyarrow as pa
pa.array([b""], pa.binary())  # imports pandas where that is installed

def memory(name):
    for line in open("/proc/self/status"):
        if line.startswith(name):
            return int(line.split()[1]) * 1024

address = sys.argv[1]
before = memory("VmRSS")
{body}
print(memory("VmHWM") - before)
"""

#: Each value is an object of its own: a batch may hold on to what it was given.
SEND: Final = """
with tidelog.Producer(address, buffer_memory={buffer}) as producer:
    for number in range({rounds} * 1000):
        producer.send("memory", b"%08d" % number + b"." * 992)
"""

#: The node is frozen until the buffer is full: what is beyond it has to wait outside.
SEND_INTO_SILENCE: Final = """
import os, signal, threading
node = int(sys.argv[2])
with tidelog.Producer(address, buffer_memory={buffer}) as producer:
    producer.send("memory", b"first").result()
    os.kill(node, signal.SIGSTOP)
    threading.Timer(2.0, os.kill, (node, signal.SIGCONT)).start()
    for number in range({rounds} * 1000):
        producer.send("memory", b"%08d" % number + b"." * 992)
"""

SEND_MANY: Final = """
with tidelog.Producer(address, buffer_memory={buffer}) as producer:
    for _ in range({rounds}):
        producer.send_many("memory", [b"%08d" % number + b"." * 992 for number in range(1000)])
"""

#: Each column is an object of its own, as in `SEND`.
SEND_COLUMNS: Final = """
with tidelog.Producer(address, buffer_memory={buffer}) as producer:
    for _ in range({rounds}):
        values = [b"%08d" % number + b"." * 992 for number in range(1000)]
        producer.send_columns("memory", value=pa.array(values, pa.binary()))
"""

READ: Final = """
count = 0
with tidelog.Consumer(address, prefetch_bytes={buffer}) as consumer:
    consumer.assign("memory", start="earliest", until="end")
    for record in consumer:
        count += 1
assert count == {rounds} * 1000, count
"""

#: Turns of work fill the buffer; between them the reader takes what there is, and all at once.
READ_IN_BURSTS: Final = """
with tidelog.Consumer(address, prefetch_bytes={buffer}) as consumer:
    consumer.assign("memory", start="earliest", until="end")
    for number, record in enumerate(consumer):
        if number % 10_000 == 0:
            sum(range(3_000_000))
"""

READ_COLUMNS: Final = """
count = 0
with tidelog.Consumer(address, prefetch_bytes={buffer}) as consumer:
    consumer.assign("memory", start="earliest", until="end")
    while (table := consumer.read_arrow()).num_rows:
        count += table.num_rows
assert count == {rounds} * 1000, count
"""

READ_COLUMNS_IN_BURSTS: Final = """
tables = 0
with tidelog.Consumer(address, prefetch_bytes={buffer}) as consumer:
    consumer.assign("memory", start="earliest", until="end")
    while (table := consumer.read_arrow()).num_rows:
        tables += 1
        if tables % 8 == 0:
            sum(range(10_000_000))
"""

READ_COLUMNS_ASYNC: Final = """
async def read():
    count = 0
    async with tidelog.AsyncConsumer(address, prefetch_bytes={buffer}) as consumer:
        await consumer.assign("memory", start="earliest", until="end")
        while (table := await consumer.read_arrow()).num_rows:
            count += table.num_rows
    assert count == {rounds} * 1000, count
asyncio.run(read())
"""

READERS: Final = {
    "read": READ,
    "read in bursts": READ_IN_BURSTS,
    "read columns": READ_COLUMNS,
    "read columns in bursts": READ_COLUMNS_IN_BURSTS,
    "read columns, asyncio": READ_COLUMNS_ASYNC,
}

#: What is sent: several times what may be held.
ROUNDS: Final = 150


def memory_of(node: ProcessNode, body: str) -> int:
    """The bytes that a client's work took at its peak."""
    script = MEASURE.replace("{body}", body.format(buffer=BUFFER_BYTES, rounds=ROUNDS))
    ran = subprocess.run(
        [sys.executable, "-c", script, node.bootstrap, str(node.pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


def check(taken: dict[str, int]) -> None:
    """Each way stays within what is allowed."""
    print({name: f"{size / MIB:.0f} MiB" for name, size in taken.items()})
    for name, size in taken.items():
        assert size < BUFFER_BYTES + ALLOWED_BYTES, name


@pytest.mark.parametrize(
    "way",
    [SEND, SEND_INTO_SILENCE, SEND_MANY, SEND_COLUMNS],
    ids=["send", "send into silence", "send_many", "send_columns"],
)
def test_a_producer_stays_within_its_buffer_and_sixty_megabytes(tmp_path: Path, way: str) -> None:
    with running_node(tmp_path / "data") as node:
        check({"produce": memory_of(node, way)})


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_consumer_stays_within_its_buffer_and_sixty_megabytes(
    tmp_path: Path, compression: Literal["none", "zstd"]
) -> None:
    with running_node(tmp_path / "data") as node:
        with tidelog.Producer(node.bootstrap, compression=compression) as producer:
            for _ in range(ROUNDS):
                values = [b"%08d" % number + b"." * 992 for number in range(1000)]
                producer.send_many("memory", values)
        check({name: memory_of(node, way) for name, way in READERS.items()})
