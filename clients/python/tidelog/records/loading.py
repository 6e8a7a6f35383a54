"""Which twin of the codec this process uses: the compiled modules or their pure Python sources.

Imported before every other module of this package. Both twins are the same source, so the choice
changes the speed and nothing else. `TIDELOG_PURE=1` asks for the sources even where the compiled
modules lie beside them: that is how the tests run both, and how a doubt about the compiler is
settled.
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


#: The packages that hold compiled modules.
HOT_PACKAGES: Final = ("tidelog.producer", "tidelog.records")


class PureFinder:
    """Finds the sources of these packages' modules before the import system finds their twins."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The source of a module of these packages; None leaves every other module alone."""
        package, _, name = fullname.rpartition(".")
        if package not in HOT_PACKAGES:
            return None
        source = Path(__file__).parent.parent / package.rpartition(".")[2] / f"{name}.py"
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
