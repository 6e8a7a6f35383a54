"""The group coordinator starts and stops like every other service."""

from __future__ import annotations

import asyncio

from tidelog_group_coordinator import GroupCoordinator


def test_it_starts_and_stops() -> None:
    async def main() -> None:
        coordinator = GroupCoordinator()
        await coordinator.stop()
        await coordinator.start()
        assert coordinator.is_running
        await coordinator.stop()
        assert not coordinator.is_running

    asyncio.run(main())
