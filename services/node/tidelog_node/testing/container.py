"""A node in a container, for tests that already live with testcontainers.

`InProcessCluster` starts a hundred times faster and needs no engine; this one is for suites that
run everything beside them in containers. Needs `pip install testcontainers` and an image built
from `deploy/docker/Dockerfile`. Clients are told the address they dialled, so the port that the
engine chose just works.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

DEFAULT_IMAGE: Final = "tidelog"
PORT: Final = 9094
#: What `tidelog up` prints when it serves.
READY: Final = r"ready in \d"


def node_command(config: Mapping[str, str | int]) -> list[str]:
    """What runs in the container; configuration by names in snake_case."""
    command = ["up", "--ephemeral", "--host", "0.0.0.0"]  # inside, every address is its own
    for name, value in config.items():
        command += ["--config", f"{name.replace('_', '.')}={value}"]
    return command


class TidelogContainer(DockerContainer):
    """One node; `with TidelogContainer() as tidelog: tidelog.address`.

    Broker configuration by snake_case names: `TidelogContainer(num_partitions=3)`.
    """

    def __init__(self, image: str = DEFAULT_IMAGE, **config: str | int) -> None:
        super().__init__(image, ports=[PORT])
        self.with_command(node_command(config))
        self.waiting_for(LogMessageWaitStrategy(READY))

    @property
    def address(self) -> str:
        """What to give to clients."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(PORT)}"
