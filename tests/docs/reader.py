"""A reader of the documents, as a process of its own: runs the blocks it is told, one by one.

`blocks.Page` starts it and talks to it by lines of JSON. The cluster lives in the tests' process,
apart from it, as for a reader's program; what it logs goes to its standard error.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback
from types import ModuleType


def main() -> int:
    """Runs each block that comes in, in one namespace, until there are no more."""
    # The page is the program: its classes are looked up in the module of this name.
    page = sys.modules["__main__"] = ModuleType("__main__")
    for line in sys.stdin:
        block = json.loads(line)
        printed, error = io.StringIO(), ""
        source = "\n" * (block["line"] - 1) + block["text"]
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(source, block["document"], "exec"), vars(page))
            except Exception:  # noqa: BLE001 - whatever it is, the test shows it
                error = traceback.format_exc()
        print(json.dumps({"printed": printed.getvalue(), "error": error}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
