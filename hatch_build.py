"""Puts the compiled modules into wheels, where the machine that builds them has a compiler.

Hatchling calls this at every build. Invariant: a build never fails for want of a compiler; the
wheel then holds pure Python alone, and says so. Editable installations are left alone, since
`make setup` compiles beside the sources.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledModulesHook(BuildHookInterface[Any]):
    """Compiles the hot paths for a wheel and marks the wheel as one of this platform."""

    scratch: str = ""

    def dependencies(self) -> list[str]:
        """What compiling needs; nothing where it cannot be done anyway."""
        if self.target_name != "wheel" or self._tool().missing_for_compiling() is not None:
            return []
        return ["mypy>=2.4", "setuptools>=65"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled modules to what goes into the wheel."""
        if self.target_name != "wheel" or version == "editable":
            return
        tool = self._tool()
        missing = tool.missing_for_compiling()
        if missing is not None:
            self.app.display_warning(f"{missing}: the wheel holds pure Python (slower)")
            return
        self.scratch = tempfile.mkdtemp(prefix="tidelog-wheel-")
        places = {package: Path(self.scratch, package) for package in tool.PACKAGES}
        try:
            made = tool.compile_hot_paths(places)
        except (ImportError, SystemExit) as failure:
            self.app.display_warning(
                f"the hot paths did not compile ({failure}): the wheel holds pure Python"
            )
            return
        build_data["force_include"].update(
            {str(path): str(path.relative_to(self.scratch)) for path in made}
        )
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled, now that the wheel holds it."""
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def _tool(self) -> ModuleType:
        path = Path(self.root, "tools", "compile_hot_paths.py")
        spec = importlib.util.spec_from_file_location("compile_hot_paths", path)
        if spec is None or spec.loader is None:
            raise FileNotFoundError(path)
        tool = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = tool
        spec.loader.exec_module(tool)
        return tool
