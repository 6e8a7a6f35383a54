"""A node for one run of a program, in a process of its own, on free ports: nothing of it stays.

`make demo` and the examples use it, which must not share their process with a broker. Invariant:
the node is gone when the block ends, however it ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

COMMAND: Final = (
    *("-m", "tidelog_node", "--ephemeral", "--json"),
    *("--port", "0", "--metrics-port", "0", "--internal-port", "0"),
)


@contextmanager
def throw_away_node() -> Iterator[str]:
    """Yields the address at which it serves; ends the program where it doesn't come to that."""
    node = subprocess.Popen([sys.executable, *COMMAND], stdout=subprocess.PIPE, text=True)
    assert node.stdout is not None
    try:
        ready = node.stdout.readline()
        if not ready:
            raise SystemExit("the node ended before it served: see its words above")
        yield str(json.loads(ready)["bootstrap"])
    finally:
        node.terminate()
        node.communicate()
