"""`tidelog up`: a one-node cluster in this terminal. Its flags are here, the rest in `foreground`.

`verbs` calls it. Nothing that takes time to import is needed to show what the verb takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.cli.flags import VerbParser, whole_number
from tidelog_runtime.polling import choose_older_poller

if TYPE_CHECKING:
    from tidelog_runtime.disk import Disk

DESCRIPTION: Final = """\
Runs a one-node cluster: one process, one data directory, nothing else to install.
Topics are created when they are first written to. Data stays when it stops.
"""


def main(arguments: Sequence[str], *, make_disk: Callable[[str], Disk] | None = None) -> int:
    """Runs the node until it is told to stop; 0 after an orderly stop.

    `make_disk` gives the data directory its disk; fault tests choose one that forgets.
    """
    options = _parser().parse(arguments)
    choose_older_poller()
    from tidelog_node.foreground import run  # noqa: PLC0415 - imports gRPC, and more than help needs

    return run(options, make_disk)


def _parser() -> VerbParser:
    parser = VerbParser("up", DESCRIPTION)
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--data-dir", metavar="DIR", help="where the data lies (default ./tidelog-data)"
    )
    place.add_argument(
        "--ephemeral", action="store_true", help="keep the data in a temporary place and forget it"
    )
    parser.add_argument("--host", help="the address to listen at (default 127.0.0.1)")
    parser.add_argument(
        "--port",
        type=whole_number(),
        help="the port clients connect to (default 9094; 0 for any free one)",
    )
    parser.add_argument(
        "--metrics-port",
        type=whole_number(),
        help="where Prometheus scrapes (default 9095; 0 for any free)",
    )
    parser.add_argument(
        "--internal-port",
        type=whole_number(),
        help="for the cluster's own services (default 9096; 0: any)",
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any key of the broker's configuration (repeatable)",
    )
    parser.add_argument(
        "--config-file", metavar="FILE", help="a file of such keys: key=value lines, or TOML"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one line of JSON when ready, for programs"
    )
    return parser
