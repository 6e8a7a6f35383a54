"""Which twins this process uses: the compiled modules or their pure Python sources.

Imported before every module that may be compiled, also those of the broker. Both twins are the same
source, so the choice changes the speed and nothing else. `TIDELOG_PURE=1` asks for the sources even
where the compiled modules lie beside them: that is how the tests run both, and how a doubt about
the compiler is settled.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

PURE_VARIABLE: Final = "TIDELOG_PURE"


class PureFinder:
    """Finds the sources of our modules before the import system finds their compiled twins."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The source of a module of ours; None leaves packages and every other module alone."""
        if not fullname.startswith("tidelog") or not path:
            return None
        source = Path(path[0], f"{fullname.rpartition('.')[2]}.py")
        if not source.exists():
            return None
        loader = SourceFileLoader(fullname, str(source))
        return spec_from_file_location(fullname, source, loader=loader)


def _is_compiled() -> bool:
    if os.environ.get(PURE_VARIABLE, "") not in {"", "0"}:
        sys.meta_path.insert(0, PureFinder)
        return False
    spec = PathFinder.find_spec(f"{__package__}.decoder", [str(Path(__file__).parent)])
    return spec is not None and not isinstance(spec.loader, SourceFileLoader)


#: Whether the compiled modules are in use.
COMPILED: Final = _is_compiled()
