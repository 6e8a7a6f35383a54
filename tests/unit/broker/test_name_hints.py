"""Hints on misspelt topic names: a few a turn of the loop, so that nobody waits for the rest."""

from __future__ import annotations

import asyncio

from tidelog_broker.name_hints import HINTS_A_TURN_MAX, NameHints


def test_a_request_full_of_unknown_names_gets_a_few_hints() -> None:
    async def main() -> None:
        hints = NameHints()
        given = [hints.hint("ordres", ["orders"]) for _ in range(HINTS_A_TURN_MAX + 5)]
        assert given == ["Did you mean 'orders'?"] * HINTS_A_TURN_MAX + [""] * 5
        await asyncio.sleep(0)
        assert hints.hint("ordres", ["orders"]) == "Did you mean 'orders'?"

    asyncio.run(main())
