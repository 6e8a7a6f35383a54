"""At full speed a client stays within its configured buffer and 60 MB, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from harness.processes import ProcessNode, running_node

MIB: Final = 1024 * 1024
ALLOWED_BYTES: Final = 60_000_000
#: Large enough that a buffer without a limit would show, and none of the allowance.
BUFFER_BYTES: Final = 32 * MIB

#: Says how much memory the client took beyond what the imports had taken, at most.
MEASURE: Final = """
import resource, sys
import tidelog, tidelog.producer.producer, tidelog.consumer.consumer, tidelog.channel_grpc

def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024

address = sys.argv[1]
before = peak()
{body}
print(peak() - before)
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

READ: Final = """
count = 0
with tidelog.Consumer(address, prefetch_bytes={buffer}) as consumer:
    consumer.assign("memory", start="earliest", until="end")
    for record in consumer:
        count += 1
assert count >= {rounds} * 1000, count
"""

READ_SLOWLY: Final = """
with tidelog.Consumer(address, prefetch_bytes={buffer}) as consumer:
    consumer.assign("memory", start="earliest", until="end")
    for number, record in enumerate(consumer):
        if number % 10_000 == 0:
            sum(range(1_000_000))
"""

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


@pytest.mark.parametrize(
    "way", [SEND, SEND_INTO_SILENCE, SEND_MANY], ids=["send", "send into silence", "send_many"]
)
def test_a_client_stays_within_its_buffer_and_sixty_megabytes(tmp_path: Path, way: str) -> None:
    with running_node(tmp_path / "data") as node:
        taken = {"produce": memory_of(node, way)}
        taken["read"] = memory_of(node, READ)
        taken["read slowly"] = memory_of(node, READ_SLOWLY)
    print({name: f"{size / MIB:.0f} MiB" for name, size in taken.items()})
    for name, size in taken.items():
        assert size < BUFFER_BYTES + ALLOWED_BYTES, name
