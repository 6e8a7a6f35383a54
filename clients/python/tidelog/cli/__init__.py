"""The `tidelog` command line."""

from tidelog.cli.starting import main

__all__ = ["main"]
