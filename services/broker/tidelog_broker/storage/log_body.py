"""The parts of a log that are read from its folder: segments, leader epochs, producer state.

A `Log` loads its body when it first needs it, so that after a clean stop ten thousand logs open
nothing. Reading and cutting (`log_reader`, `log_cutting`) work on the body; what the offsets mean
(durable, committed, faulty) is the log's business. Invariant: segments are in order, the last one
is the only one written to, and each ends where the next begins, but for known damage.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable

from tidelog_broker.storage import damage, names, snapshots
from tidelog_broker.storage.config import LogConfig
from tidelog_broker.storage.damage import DamagedRange
from tidelog_broker.storage.leader_epochs import LeaderEpochs
from tidelog_broker.storage.producer_state import ProducerStates
from tidelog_broker.storage.recovery import LoadedLog
from tidelog_broker.storage.segment import LOG, Segment
from tidelog_broker.storage.volume import Volume

logger = logging.getLogger(__name__)

#: Positions remembered a log, so that sequential readers need no search.
_HINTS_MAX = 64


class LogBody:
    """What one partition's folder holds."""

    __slots__ = (
        "_bases",
        "_caches_failed",
        "_written_epochs",
        "active",
        "damaged_ranges",
        "epochs",
        "folder",
        "hints",
        "producers",
        "secured_offset",
        "segments",
        "snapshot_offset",
        "volume",
    )

    def __init__(self, volume: Volume, folder: str) -> None:
        self.volume = volume
        self.folder = folder
        self.segments: list[Segment] = []
        self._bases: list[int] = []
        self.active: Segment | None = None
        self.epochs = LeaderEpochs()
        self._written_epochs: list[tuple[int, int]] | None = None
        #: None until the first append or check that needs it.
        self.producers: ProducerStates | None = None
        self.damaged_ranges: list[DamagedRange] = []
        self.snapshot_offset = -1
        self._caches_failed = False
        #: A durable snapshot knows the producers as of this offset, or a later one; -1 if none.
        self.secured_offset = -1
        #: Offset to (segment, position) of batches that begin there.
        self.hints: dict[int, tuple[Segment, int]] = {}

    @classmethod
    def after_clean_stop(
        cls,
        volume: Volume,
        folder: str,
        interval_bytes: int,
        epochs: Iterable[tuple[int, int]],
    ) -> LogBody:
        """List the folder and trust it; the log compares the outcome with its clean marker."""
        body = cls(volume, folder)
        body.damaged_ranges = damage.read(volume.disk, folder)
        for name in volume.disk.list_directory(folder):
            base = names.offset_of(name, LOG)
            if base is None:
                if name.endswith(names.TEMPORARY):
                    volume.disk.remove(f"{folder}/{name}")
                continue
            segment = Segment(volume, folder, base, interval_bytes)
            for damaged in body.damaged_ranges:
                if damaged.segment_base == base:
                    damage.mark(segment, damaged)
            body.segments.append(segment)
        for epoch, start in epochs:
            body.epochs.begin(epoch, start)
        body.refresh()
        return body

    @classmethod
    def after_recovery(cls, volume: Volume, folder: str, loaded: LoadedLog) -> LogBody:
        """Take over what recovery found."""
        body = cls(volume, folder)
        body.segments = loaded.segments
        body.epochs = loaded.epochs
        body.producers = loaded.producers
        body.damaged_ranges = loaded.damaged_ranges
        body.snapshot_offset = loaded.snapshot_offset
        if loaded.snapshot_offset >= 0:
            body._written_epochs = loaded.epochs.lines()
        body.refresh()
        for at, segment in enumerate(body.segments[:-1]):
            segment.write_index(body.segments[at + 1].base_offset)
            segment.drop_index()
        if body.active is not None:
            # Recovery may have let go of the index of a segment that is the last one now.
            body.active.index()
        return body

    def refresh(self) -> None:
        """The list of segments has changed."""
        self._bases = [segment.base_offset for segment in self.segments]
        self.active = self.segments[-1] if self.segments else None
        if self.active is not None:
            self.active.writable = True
        self.hints.clear()

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments; opens each that was not opened yet."""
        return sum(segment.size for segment in self.segments)

    def find(self, offset: int) -> int:
        """Which segment holds this offset, by its place in `segments`."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def end_offset_of(self, at: int, log_end: int) -> int:
        """Where the segment at this place ends."""
        return self._bases[at + 1] if at + 1 < len(self._bases) else log_end

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """A batch begins at `offset`, or the next one will."""
        hints = self.hints
        if len(hints) >= _HINTS_MAX:
            hints.clear()
        hints[offset] = (segment, position)

    def roll(self, next_offset: int, config: LogConfig) -> Segment:
        """Close the active segment and begin the next; its name is not durable yet."""
        old = self.active
        if old is not None and old.base_offset == next_offset and not old.size:
            return old
        if old is not None:
            try:
                self.write_caches(next_offset)
            except OSError as error:
                # Recovery reads more; the batches stand, and the next ones have their place.
                self.say_caches_failed(error)
        segment = Segment(self.volume, self.folder, next_offset, config.index_interval_bytes)
        segment.create()
        if old is not None:
            old.writable = False
            self.volume.indexes.keep(old)
        self.segments.append(segment)
        self._bases.append(next_offset)
        segment.writable = True
        self.active = segment
        return segment

    def write_caches(self, log_end: int) -> None:
        """Index, producer state and leader epochs as of now, so that recovery has little to read.

        Only caches: when the disk is full they are left out, and recovery reads more.
        """
        try:
            self._write_caches(log_end)
        except OSError as error:
            if not self.volume.space.note(error, 0):
                raise
        else:
            self._caches_failed = False

    def say_caches_failed(self, error: OSError) -> None:
        """One line until they are written again, however many appends come to it meanwhile."""
        if not self._caches_failed:
            logger.error("the caches of %s can't be written: %s", self.folder, error)
        self._caches_failed = True

    def _write_caches(self, log_end: int) -> None:
        if self.producers is None:
            # Nothing was appended since the log was loaded.
            return
        disk = self.volume.disk
        if self.active is not None and self.active.size:
            self.active.write_index(log_end)
        lines = self.epochs.lines()
        if self.snapshot_offset == log_end and self._written_epochs == lines:
            return
        path = f"{self.folder}/{names.LEADER_EPOCHS}"
        snapshots.write_unsynced(disk, path, self.epochs.encode(log_end))
        self._written_epochs = lines
        snapshots.write(disk, self.folder, log_end, self.producers)
        snapshots.remove_superfluous(disk, self.folder, self._bases)
        self.snapshot_offset = log_end

    def sync_snapshot(self, base: int, now_ms: int) -> None:
        """Make durable what only the segments below `base` tell of producers; raises OSError.

        The snapshot belongs to `base` itself, where a segment begins: of a later one the log may
        turn out not to reach so far. Its name isn't durable yet.
        """
        disk, folder = self.volume.disk, self.folder
        offset, producers = self._producers_up_to(base)
        if offset < base:
            # It could not be written when the segment began, or has not outlasted a power cut.
            self._replay(producers, offset, base, now_ms)
            snapshots.write(disk, folder, base, producers)
        snapshots.sync(disk, folder, base)

    def _producers_up_to(self, offset: int) -> tuple[int, ProducerStates]:
        """What is known without reading the log, and as of which offset."""
        disk, folder = self.volume.disk, self.folder
        file_names = disk.list_directory(folder)
        limit = self.volume.config.producer_ids_max
        found = snapshots.newest(disk, folder, file_names=file_names, up_to=offset, limit=limit)
        first = self._bases[0] if self._bases else offset
        if found is not None and found[0] >= first:
            return found
        return first, ProducerStates(limit)

    def forget_caches_above(self, log_end: int) -> None:
        """The log is about to be cut: what caches know of later offsets must never be believed."""
        disk, folder = self.volume.disk, self.folder
        snapshots.remove_above(disk, folder, log_end)
        self.snapshot_offset = self.secured_offset = -1
        path = f"{folder}/{names.LEADER_EPOCHS}"
        if disk.exists(path):
            disk.remove(path)
        self._written_epochs = None

    def load_producers(self, log_end: int, now_ms: int) -> ProducerStates:
        """Producer state as of the log's end: newest snapshot, then the log behind it."""
        offset, producers = self._producers_up_to(log_end)
        self.snapshot_offset = offset
        if offset < log_end:
            self._replay(producers, offset, log_end, now_ms)
        if self.active is not None:
            # Appends follow, and where the last index entry points is in the index.
            self.active.index()
        self.producers = producers
        return producers

    def _replay(self, producers: ProducerStates, offset: int, end: int, now_ms: int) -> None:
        """What the log tells from `offset` to `end`, which is its own or where a segment begins."""
        for at in range(self.find(offset), len(self.segments)):
            segment = self.segments[at]
            if segment.base_offset >= end:
                return
            begin = 0
            if segment.base_offset < offset:
                place = segment.locate(offset)
                if place is None:
                    continue
                begin = place[0]
            for _, header in segment.walk(begin):
                if header.base_sequence >= 0:
                    producers.replay(header, now_ms)

    def close(self) -> None:
        """Close the files."""
        for segment in self.segments:
            segment.close()
