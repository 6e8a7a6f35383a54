"""Syncs that the kernel makes: each told once, in its place; what it won't take goes to threads."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tidelog_runtime.adapters import kernel_queue
from tidelog_runtime.adapters.kernel_queue import KernelQueue
from tidelog_runtime.adapters.kernel_syncs import KernelSyncs
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.adapters.local_file import DescriptorSync, LocalFile

FILES = 8


@pytest.fixture
def queue() -> KernelQueue:
    found = KernelQueue.open(FILES)
    if found is None:
        pytest.skip("this system offers no queue of syncs (io_submit)")
    return found


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[LocalFile]]:
    disk = LocalDisk(tmp_path)
    opened = [disk.open(f"{number}", create=True) for number in range(FILES + 3)]
    for file in opened:
        file.append([b"not synced yet"])
    yield opened
    for file in opened:
        file.close()


def test_rounds_of_files_are_made_by_the_kernel_and_wake_no_thread(
    queue: KernelQueue, files: list[LocalFile]
) -> None:
    with closing(KernelSyncs(FILES, lambda _: queue)) as syncs:

        async def rounds() -> None:
            for count in (1, 3, FILES):
                for _ in range(100):
                    made = await syncs.run([file.sync for file in files[:count]])
                    assert made == [None] * count
            assert queue.under_way == 0

        asyncio.run(rounds())
        assert not syncs._threads


def test_rounds_that_overlap_and_exceed_the_queue_are_all_made(
    queue: KernelQueue, files: list[LocalFile]
) -> None:
    async def rounds(syncs: KernelSyncs) -> None:
        calls = [file.sync for file in files[:5]]
        made = await asyncio.gather(*[syncs.run(calls) for _ in range(20)])
        assert made == [[None] * 5] * 20
        await syncs.idle()

    with closing(KernelSyncs(FILES, lambda _: queue)) as syncs:
        asyncio.run(rounds(syncs))
        assert syncs._threads, "what the queue had no room for went to threads"


def test_a_round_of_too_many_files_is_one_for_threads(
    queue: KernelQueue, files: list[LocalFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "submit", None)  # nobody asks it
    with closing(KernelSyncs(FILES, lambda _: queue)) as syncs:
        calls = [file.sync for file in files]
        assert asyncio.run(syncs.run(calls)) == [None] * len(files)


def test_closing_tells_who_waits(queue: KernelQueue, files: list[LocalFile]) -> None:
    async def main(syncs: KernelSyncs) -> None:
        waiting = asyncio.create_task(syncs.run([file.sync for file in files[:4]]))
        await asyncio.sleep(0)
        syncs.close()
        assert await waiting == [None] * 4
        await syncs.idle()

    asyncio.run(main(KernelSyncs(FILES, lambda _: queue)))


def test_what_a_loop_that_is_gone_left_keeps_no_other_from_being_told(
    queue: KernelQueue, files: list[LocalFile]
) -> None:
    gone = threading.Event()

    def tell(_: object) -> None:
        # (What ends during the last turns of the first loop is told there.)
        assert not gone.is_set(), "nobody waits any more"

    async def give_up(syncs: KernelSyncs) -> None:
        syncs._begin([file.sync for file in files[:3]], tell)

    async def later(syncs: KernelSyncs) -> None:
        assert await syncs.run([files[4].sync]) == [None]

    with closing(KernelSyncs(FILES, lambda _: queue)) as syncs:
        asyncio.run(give_up(syncs))
        gone.set()
        asyncio.run(later(syncs))


def test_what_the_kernel_refuses_is_an_error_in_its_place(
    queue: KernelQueue, files: list[LocalFile]
) -> None:
    no_file, other_end = os.pipe()
    calls = [file.sync for file in files[:5]]
    calls[2] = DescriptorSync(no_file)

    async def round_of_five(syncs: KernelSyncs) -> None:
        made = await syncs.run(calls)
        codes = [error and error.errno for error in made]
        assert codes == [None, None, errno.EINVAL, None, None]

    with closing(KernelSyncs(FILES, lambda _: queue)) as syncs:
        asyncio.run(round_of_five(syncs))
    os.close(no_file)
    os.close(other_end)


def test_the_sync_of_a_closed_file_is_a_fault_that_is_raised(
    queue: KernelQueue, files: list[LocalFile]
) -> None:
    files[2].close()

    async def rounds(syncs: KernelSyncs) -> None:
        with pytest.raises(ValueError, match="negative"):
            await syncs.run([file.sync for file in files[:5]])
        assert await syncs.run([files[0].sync]) == [None]

    with closing(KernelSyncs(FILES, lambda _: queue)) as syncs:
        asyncio.run(rounds(syncs))


def test_who_waits_may_give_up_and_the_next_round_is_told_its_own(
    queue: KernelQueue, files: list[LocalFile]
) -> None:
    async def rounds(syncs: KernelSyncs) -> None:
        given_up = asyncio.create_task(syncs.run([files[0].sync]))
        await asyncio.sleep(0)
        given_up.cancel()
        assert await syncs.run([files[1].sync, files[2].sync]) == [None, None]
        await syncs.idle()
        assert given_up.cancelled()

    with closing(KernelSyncs(FILES, lambda _: queue)) as syncs:
        asyncio.run(rounds(syncs))


def test_closing_waits_for_the_kernel_and_gives_all_back(files: list[LocalFile]) -> None:
    def descriptors() -> set[str]:
        return set(os.listdir("/proc/self/fd"))

    before = descriptors()

    async def begin(syncs: KernelSyncs) -> None:
        waiting = asyncio.create_task(syncs.run([file.sync for file in files[:4]]))
        await asyncio.sleep(0)
        syncs.close()
        waiting.cancel()

    for _ in range(20):
        syncs = KernelSyncs(4)
        asyncio.run(begin(syncs))
        syncs.close()
        with pytest.raises(RuntimeError, match="the threads have ended"):
            asyncio.run(syncs.run([files[0].sync]))
    assert descriptors() == before


def test_one_object_serves_one_event_loop_after_another(
    queue: KernelQueue, files: list[LocalFile], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with closing(KernelSyncs(FILES, lambda _: queue)) as syncs:
        for _ in range(3):
            assert asyncio.run(syncs.run([files[0].sync])) == [None]
    assert caplog.messages == ["files are synced by the kernel's queue"]


@pytest.mark.parametrize(
    "refusal", [("setup", -1), ("submit", -1)], ids=["no such call", "no such request"]
)
def test_a_system_without_the_queue_has_threads(
    refusal: tuple[str, int],
    files: list[LocalFile],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    call, number = refusal
    for machine, calls in kernel_queue._CALLS.items():
        monkeypatch.setitem(kernel_queue._CALLS, machine, calls._replace(**{call: number}))
    before = set(os.listdir("/proc/self/fd"))
    with closing(KernelSyncs(2)) as syncs:
        assert asyncio.run(syncs.run([files[0].sync])) == [None]
        assert len(syncs._threads) == 1
    assert caplog.messages == ["files are synced by threads, for want of a queue"]
    assert set(os.listdir("/proc/self/fd")) == before


class _Failing(KernelQueue):
    """Says of every second sync that the disk failed, and takes no more than three at a time."""

    def __init__(self, inner: KernelQueue) -> None:
        self._inner = inner
        self.descriptor = inner.descriptor

    def submit(self, first: int, descriptors: Sequence[int]) -> int:
        return self._inner.submit(first, descriptors[:3])

    def ended(self) -> list[tuple[int, OSError | None]]:
        return [
            (number, OSError(errno.EIO, "spoilt") if number % 2 else error)
            for number, error in reversed(self._inner.ended())
        ]

    def wait_for_all(self) -> list[tuple[int, OSError | None]]:
        return self._inner.wait_for_all()

    def close(self) -> None:
        self._inner.close()


def test_what_the_disk_says_is_told_in_its_place(
    queue: KernelQueue, files: list[LocalFile]
) -> None:
    async def round_of_six(syncs: KernelSyncs) -> None:
        made = await syncs.run([file.sync for file in files[:6]])
        assert [error and error.errno for error in made] == [None, errno.EIO] + [None] * 4

    with closing(KernelSyncs(FILES, lambda _: _Failing(queue))) as syncs:
        asyncio.run(round_of_six(syncs))


def test_the_kernel_is_asked_for_a_data_sync_of_each_file(
    queue: KernelQueue, files: list[LocalFile]
) -> None:
    wanted = [file.sync.descriptor for file in files[:3]]
    assert queue.submit(40, wanted) == 3
    asked = [
        kernel_queue._REQUEST.unpack_from(queue._requests, at * kernel_queue._REQUEST.size)
        for at in range(3)
    ]
    fdatasync, tell_descriptor = 3, 1  # of <linux/aio_abi.h>: IOCB_CMD_FDSYNC, IOCB_FLAG_RESFD
    assert [(one[0], one[3], one[5], one[-2], one[-1]) for one in asked] == [
        (40 + at, fdatasync, descriptor, tell_descriptor, queue.descriptor)
        for at, descriptor in enumerate(wanted)
    ]
    told: list[tuple[int, OSError | None]] = []
    while len(told) < 3:
        told += queue.ended()
    assert sorted(number for number, _ in told) == [40, 41, 42]
    queue.close()
