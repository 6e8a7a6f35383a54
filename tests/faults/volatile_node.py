"""`tidelog up` on a disk that forgets: for this process SIGKILL is a power cut.

Run as `python -m faults.volatile_node` with the flags of `tidelog up`. Everything else is what
runs in the real world, the metadata store included.
"""

from __future__ import annotations

import sys

from faults.volatile_disk import VolatileDisk
from tidelog.errors import TidelogError
from tidelog_node.up import main

if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:], make_disk=VolatileDisk))
    except TidelogError as error:
        sys.exit(f"tidelog up: {error}")
