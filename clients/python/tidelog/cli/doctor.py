"""`tidelog doctor ADDRESS`: why a cluster can't be reached, in words, step after step.

Goes the way every client goes (address, name, connection, handshake, metadata), then on to each
broker at the address it gives to clients, and stops at what fails. It only reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from tidelog.cli.flags import DEFAULT_BOOTSTRAP, VerbParser, whole_number
from tidelog.settings import LONGEST_MS

EXAMPLES: Final = """\
  tidelog doctor
  tidelog doctor broker-1.example.com:9094
"""
DEFAULT_TIMEOUT_MS: Final = 5_000


def _parser() -> VerbParser:
    parser = VerbParser(
        "doctor", "Finds out which step of reaching a cluster fails, and what to do.", EXAMPLES
    )
    parser.add_argument(
        "address",
        nargs="?",
        metavar="ADDRESS",
        help=f"host:port of any broker (default {DEFAULT_BOOTSTRAP})",
    )
    parser.add_argument(
        "--bootstrap-server", metavar="HOST:PORT", help="the same, as other verbs call it"
    )
    parser.add_argument(
        "--timeout-ms",
        type=whole_number(least=1, most=LONGEST_MS),
        default=DEFAULT_TIMEOUT_MS,
        metavar="MS",
        help=f"how long each step may take (default {DEFAULT_TIMEOUT_MS})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for each step")
    return parser


def main(arguments: Sequence[str]) -> int:
    """0 when every step succeeded, 1 otherwise."""
    parser = _parser()
    options = parser.parse(arguments)
    parser.refuse_together(options, "address", "--bootstrap-server")
    given = (options.address, options.bootstrap_server, DEFAULT_BOOTSTRAP)
    address = next(address for address in given if address is not None)

    import asyncio  # noqa: PLC0415 - slow to import, as grpc is

    return asyncio.run(_examine(address, options.timeout_ms / 1000, as_json=options.json))


async def _examine(address: str, timeout_s: float, *, as_json: bool) -> int:
    from tidelog.cli.examination import Examination  # noqa: PLC0415 - as above

    examination = Examination(address, timeout_s)
    failed = False
    async for finding in examination.findings():
        failed |= not finding.is_well
        if as_json:
            print(json.dumps(finding.as_json()), flush=True)
        else:
            print(finding.line(), flush=True)
    if not as_json and not failed:
        print(f"All is well with {address}.")
    return 1 if failed else 0
