"""Kills Spark and the broker under a stream, again and again (`make soak-spark`), and compares.

A stream copies a topic on a standalone cluster while Python workers, executors, the driver and the
node die by SIGKILL in turn. Ends with a summary line, and with an exit code that says whether every
record arrived and each one that arrived twice was written by an attempt that was repeated.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from spark_kit.kill_run import KINDS, kill_run  # noqa: E402 - the path has to be set first
from spark_kit.session import JavaMissing  # noqa: E402
from spark_kit.standalone import standalone_cluster  # noqa: E402
from tidelog.cli.flags import whole_number  # noqa: E402


def say(line: str) -> None:
    """One line, with the time."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def main() -> int:
    """Runs as the flags say; 0 when nothing is missing and nothing unexplained."""
    parser = argparse.ArgumentParser(description=__doc__)
    kills = whole_number(least=1)
    parser.add_argument("--kills", type=kills, default=20, help="how often (default 20)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    kinds = list(itertools.islice(itertools.cycle(options.kinds), options.kills))
    with tempfile.TemporaryDirectory(prefix="tidelog-soak-spark-") as folder:
        try:
            with (
                standalone_cluster(Path(folder) / "cluster") as cluster,
                kill_run(Path(folder), cluster, say) as run,
            ):
                outcome = run.run(kinds)
        except JavaMissing as missing:
            print(f"{missing}.", file=sys.stderr)
            return 1
    for words in outcome.copies.unexplained[:20]:
        print(words)
    print(outcome.summary())
    return 0 if outcome.copies.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
