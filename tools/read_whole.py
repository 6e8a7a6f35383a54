"""Sends records of each compression and reads them in every way (`make read-whole`): all, whole.

By iteration and by columns, from threads and from asyncio; each record must come once, in order,
with its key, value, headers and timestamp.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from harness.processes import running_node  # noqa: E402 - the path has to be set first
from harness.wholeness import read_in_thread, read_on_loop, send_all  # noqa: E402 - likewise
from tidelog.cli.flags import whole_number  # noqa: E402 - likewise

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def main() -> int:
    """Runs as the flags say; fails with what was not as it was sent."""
    parser = argparse.ArgumentParser(description=__doc__)
    count = whole_number(least=1)
    parser.add_argument("--records", type=count, default=1_000_000, help="how many of each")
    parser.add_argument("--compression", choices=COMPRESSIONS, action="append", help="only these")
    options = parser.parse_args()
    for compression in options.compression or COMPRESSIONS:
        began = time.process_time()
        with (
            tempfile.TemporaryDirectory(prefix="tidelog-whole-") as folder,
            running_node(Path(folder) / "data") as node,
        ):
            send_all(node.bootstrap, compression, options.records, compression)
            read_in_thread(node.bootstrap, compression, options.records)
            read_on_loop(node.bootstrap, compression, options.records)
        spent = time.process_time() - began
        print(f"{compression}: {options.records:,} records whole in four ways, {spent:.1f} s CPU")
    return 0


if __name__ == "__main__":
    sys.exit(main())
