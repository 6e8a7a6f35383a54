"""The pytest plugin: `tidelog_cluster`, a real node in the process of the tests.

pytest loads this module in every run where Tidelog is installed, so it imports nothing that costs
until a test asks for the fixture. `-p no:tidelog` switches it off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tidelog_node.testing.cluster import InProcessCluster

MARKER: Final = "tidelog"


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(**config): broker configuration of this test's tidelog_cluster, by names in"
        " snake_case, such as num_partitions=3",
    )


@pytest.fixture
def tidelog_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InProcessCluster]:
    """A node of this test's own, on a free port, in a folder that goes with the test."""
    try:
        from tidelog_node.testing.cluster import (  # noqa: PLC0415 - costs what other tests must not
            InProcessCluster,
        )
    except ModuleNotFoundError as error:
        pytest.fail(
            f"tidelog_cluster needs the module {error.name!r}: pip install 'tidelog[server]'",
            pytrace=False,
        )
    config: dict[str, str | int] = {}
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        config |= marker.kwargs
    with InProcessCluster(tmp_path_factory.mktemp("tidelog"), **config) as cluster:
        yield cluster
