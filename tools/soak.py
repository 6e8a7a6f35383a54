"""Kills a node under load, again and again (`make soak`), and checks every promise after each.

Each kill is a power cut: the node's unsynced bytes live in its own memory. Ends with a summary
line, and with an exit code that says whether every promise was kept.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from faults.kill_loop import KillLoop, Outcome, Plan  # noqa: E402 - the path has to be set first
from tidelog.cli.flags import whole_number  # noqa: E402 - likewise


async def soak(plan: Plan, data_dir: Path) -> Outcome:
    """One run, told line by line."""
    return await KillLoop(plan, data_dir, lambda line: print(line, flush=True)).run()


def main() -> int:
    """Runs as the flags say; 0 when every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    kills = whole_number(least=1)
    parser.add_argument("--kills", type=kills, default=100, help="how often (default 100)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="replays a run")
    parser.add_argument(
        "--flush-policy",
        choices=("commit", "interval", "os"),
        default="commit",
        help="anything but commit loses records in a power cut, and the checker must find that",
    )
    options = parser.parse_args()
    plan = Plan(kills=options.kills, seed=options.seed, flush_policy=options.flush_policy)
    with tempfile.TemporaryDirectory(prefix="tidelog-soak-") as folder:
        outcome = asyncio.run(soak(plan, Path(folder) / "data"))
    for words in [*outcome.findings.words[:20], *outcome.complaints[:20]]:
        print(words)
    print(f"seed {options.seed}: {outcome.summary()}")
    return 0 if outcome.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
