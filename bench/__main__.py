"""`python -m bench`: runs the benches, prints a table and writes bench/results/latest.json."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.measuring import Row, show
from tidelog.cli.flags import whole_number

#: In the order in which they are shown; each module's `run(repeat)` gives its rows.
BENCHES: Final = ("codec", "log", "rpc", "client", "node", "recovery")
RESULTS: Final = Path(__file__).parent / "results"


def main() -> int:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("benches", nargs="*", metavar="BENCH", help=", ".join(BENCHES))
    repeat = whole_number(least=1)
    parser.add_argument("--repeat", type=repeat, default=5, help="rounds of each (default 5)")
    parser.add_argument("--json", type=Path, default=RESULTS / "latest.json", metavar="FILE")
    options = parser.parse_args()
    unknown = [name for name in options.benches if name not in BENCHES]
    if unknown:
        parser.error(f"there is no bench {unknown[0]!r}: choose of {', '.join(BENCHES)}")
    rows: list[Row] = []
    for name in options.benches or BENCHES:
        print(f"\n{name}", file=sys.stderr, flush=True)
        run: Callable[[int], list[Row]] = importlib.import_module(f"bench.{name}").run
        found = run(options.repeat)
        print(show(found), flush=True)
        rows += [Row(**row, bench=name) for row in found]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    report = {"taken": time.strftime("%Y-%m-%dT%H:%M:%S"), **machine, "rows": rows}
    options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(f"\nwritten to {options.json}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
