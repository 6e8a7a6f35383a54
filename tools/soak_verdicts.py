"""Sends a million records over kills, restarts and cuts (`make soak-verdicts`), and checks.

Ends with a summary line, and with an exit code that says whether every record had exactly one
verdict and the log agrees with it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from faults.verdict_loop import VerdictLoop  # noqa: E402 - the path has to be set first
from tidelog.cli.flags import whole_number  # noqa: E402 - likewise


def main() -> int:
    """Runs as the flags say; 0 when every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    sends = whole_number(least=1)
    parser.add_argument("--sends", type=sends, default=1_000_000, help="how many (default 1000000)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="draws the faults")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidelog-verdicts-") as folder:
        loop = VerdictLoop(options.sends, Path(folder) / "data", options.seed, print)
        loop.run()
    for words in [*loop.broken[:20], *loop.complaints[:20]]:
        print(words)
    print(f"seed {options.seed}: {loop.summary()}")
    return 0 if not loop.broken and not loop.complaints else 1


if __name__ == "__main__":
    sys.exit(main())
