"""The `tidelog` command line."""

from tidelog.cli.command import main

__all__ = ["main"]
