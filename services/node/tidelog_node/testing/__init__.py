"""For the tests of people who use Tidelog: the real node in the process, a fixture, a container."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog_node.testing.cluster import InProcessCluster as InProcessCluster

__all__ = ["InProcessCluster"]


# Type checkers must not see it: to them every misspelt name would be there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Imported when it is asked for: pytest loads this package in every run, used or not."""
        if name != "InProcessCluster":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tidelog_node.testing.cluster import InProcessCluster  # noqa: PLC0415 - see above

        return InProcessCluster
