"""The container image is built from everything that the wheel in it is made of."""

from __future__ import annotations

import tomllib
from typing import Any, Final

from support.tree import ROOT

IMAGE: Final = ROOT / "deploy" / "docker"


def folders_of_the_wheel() -> set[str]:
    """The top folders that hold the wheel's packages."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return {package.split("/")[0] for package in packages}


def test_the_image_holds_every_package_of_the_wheel() -> None:
    """What is not copied is not in the wheel, and hatchling says nothing of it."""
    steps = (IMAGE / "Dockerfile").read_text().splitlines()
    let_in = (IMAGE / "Dockerfile.dockerignore").read_text().splitlines()
    for folder in folders_of_the_wheel():
        assert f"COPY {folder} {folder}" in steps
        assert f"!{folder}" in let_in
