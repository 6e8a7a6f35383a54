"""Tidelog for Python: produce to, consume from and administer a Tidelog cluster."""

from tidelog.version import __version__

__all__ = ["__version__"]
