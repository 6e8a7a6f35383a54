"""`python -m tidelog_node`: the same as `tidelog up`."""

from __future__ import annotations

import sys

from tidelog.cli import main

if __name__ == "__main__":
    sys.exit(main(["up", *sys.argv[1:]]))
