"""The embedded store's one file: appended to, replaced by a snapshot when it has grown, recovered.

Only the embedded store calls it, from its one writer. The invariant: whatever was synced before is
there after any crash, or `recover` says that it is damaged; what was not may be there or not.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidelog_runtime.disk import Disk, File, relieved
from tidelog_runtime.metadata_store.errors import StoreCorrupt
from tidelog_runtime.metadata_store.frames import (
    CHANGES,
    FILE_HEADER,
    FRAME_MAGIC,
    MARK,
    SNAPSHOT,
    Frame,
    decode_changes,
    decode_snapshot,
    encode_changes,
    encode_frame,
    encode_snapshot,
    read_frame,
)
from tidelog_runtime.metadata_store.interface import EventBatch
from tidelog_runtime.metadata_store.state import KeyValueState

_WHAT_TO_DO: Final = (
    "Nothing was changed on the disk. Restore the file from a backup; topics whose partitions are"
    " still in the data directory can be read again after that"
)


@dataclass(frozen=True, slots=True)
class Growth:
    """When the file is replaced: beyond `floor_bytes` and `factor` times its snapshot's size."""

    floor_bytes: int = 1 << 20
    factor: int = 4


class StoreLog:
    """The open file. Appends are cheap and volatile; `sync` makes them stay."""

    def __init__(self, disk: Disk, path: str, growth: Growth) -> None:
        self._disk = disk
        self._path = path
        self._growth = growth
        self._file: File | None = None
        self._durable_position = 0
        self._snapshot_bytes = 0
        self._postponed_to_bytes = 0

    @property
    def is_overgrown(self) -> bool:
        """Whether a snapshot would be much smaller than what stands there."""
        limit = max(self._growth.floor_bytes, self._growth.factor * self._snapshot_bytes)
        return self._opened.size > max(limit, self._postponed_to_bytes)

    @property
    def _opened(self) -> File:
        assert self._file is not None, "the log is not open"
        return self._file

    def recover(self) -> KeyValueState:
        """Open the file and read it, without a torn tail. Raises StoreCorrupt for damage."""
        if not self._disk.exists(self._path):
            folder = self._path.rpartition("/")[0]
            if folder:
                self._disk.make_directory(folder)
                self._disk.sync_directory(folder.rpartition("/")[0])
            self.replace(self.snapshot(KeyValueState()))
            return KeyValueState()
        content = memoryview(self._disk.read_bytes(self._path))
        state, end = self._read(content)
        self._reopen()
        if self._snapshot_bytes < len(content):
            self._make_read_durable(state, end)
        return state

    def append(self, batches: Sequence[EventBatch]) -> None:
        """Write batches at the end, as one frame: after a crash all of them are there or none."""
        body = encode_changes(batches)
        frame = encode_frame(CHANGES, body, self._durable_position)
        relieved(self._disk, partial(self._opened.append, [frame]))

    def sync(self) -> None:
        """Make what was appended durable. May run in a thread; nothing is appended meanwhile."""
        self._opened.sync()

    def synced(self) -> None:
        """Note what the last sync covered, where recovery finds it: evidence, not yet synced."""
        self._durable_position = self._opened.size
        # A full disk must not fail what is durable already: the mark is evidence and nothing more.
        with contextlib.suppress(OSError):
            self._opened.append([encode_frame(MARK, b"", self._durable_position)])

    def snapshot(self, state: KeyValueState) -> bytes:
        """The content of a new file that holds this state and nothing else."""
        body = encode_snapshot(state.revision, state.with_prefix(""))
        return FILE_HEADER + encode_frame(SNAPSHOT, body, 0)

    def replace(self, content: bytes) -> None:
        """Put a snapshot in the file's place, at once and durably. Slow: run it in a thread."""
        self._disk.replace(self._path, content)
        self._reopen()
        self._snapshot_bytes = self._durable_position = len(content)
        self._postponed_to_bytes = 0

    def postpone_replacing(self) -> None:
        """Go on with the old file after `replace` failed, and try again when it has grown more.

        Raises OSError where the old file is no longer in its place: then its appends would be lost.
        """
        with contextlib.suppress(OSError):
            self._disk.remove(self._path + ".tmp")
        size = self._opened.size
        self._reopen()
        if self._opened.size != size:
            raise OSError(f"{self._path} was replaced, and it is not certain that this stays")
        self._postponed_to_bytes = size + self._growth.floor_bytes

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _make_read_durable(self, state: KeyValueState, end: int) -> None:
        """See to it that what was read, perhaps from the page cache alone, stays.

        After a sync that failed in an earlier process the kernel may hold pages for clean that are
        not on the disk, and no further sync would write them: a new file does.
        """
        try:
            self.replace(self.snapshot(state))
        except OSError:
            self.postpone_replacing()
            if end < self._opened.size:
                self._opened.truncate(end)
            self._opened.sync()
            self._durable_position = end

    def _reopen(self) -> None:
        self.close()
        self._file = self._disk.open(self._path)

    def _read(self, content: memoryview) -> tuple[KeyValueState, int]:
        if bytes(content[: len(FILE_HEADER)]) != FILE_HEADER:
            raise self._corrupt(0, "it does not begin like a metadata store of this version")
        first = read_frame(content, len(FILE_HEADER))
        if first is None or first.kind != SNAPSHOT:
            raise self._corrupt(len(FILE_HEADER), "its snapshot is damaged")
        self._snapshot_bytes = self._durable_position = end = first.end
        state = self._decoded_snapshot(first)
        while (frame := read_frame(content, end)) is not None:
            self._replay(frame, state)
            end = frame.end
        promised = _durable_position_behind(content, end)
        if promised > end:
            raise self._corrupt(end, f"everything up to byte {promised} had been synced")
        return state, end

    def _decoded_snapshot(self, frame: Frame) -> KeyValueState:
        try:
            return KeyValueState(*decode_snapshot(frame.body))
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise self._corrupt(frame.position, str(error)) from error

    def _replay(self, frame: Frame, state: KeyValueState) -> None:
        if frame.kind == MARK:
            return
        try:
            if frame.kind != CHANGES:
                raise IndexError(f"a frame of the unknown kind {frame.kind}")
            state.publish(decode_changes(frame.body))
        except (struct.error, LookupError, UnicodeDecodeError, AssertionError) as error:
            raise self._corrupt(frame.position, str(error)) from error

    def _corrupt(self, position: int, cause: str) -> StoreCorrupt:
        return StoreCorrupt(
            f"The metadata store {self._path} is damaged at byte {position}",
            cause=cause,
            hint=_WHAT_TO_DO,
        )


def _durable_position_behind(content: memoryview, position: int) -> int:
    """The furthest durable position that any undamaged frame behind `position` vouches for."""
    furthest = 0
    behind = bytes(content[position:])
    found = behind.find(FRAME_MAGIC)
    while found >= 0:
        frame = read_frame(content, position + found)
        if frame is not None:
            furthest = max(furthest, frame.durable_position)
        found = behind.find(FRAME_MAGIC, found + 1)
    return furthest
