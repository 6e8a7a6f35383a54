"""Recovery of one log after an unclean stop.

The journal says how far the log was durable. From the newest snapshot at or below that point every
batch is checked. At or above the journalled end a bad batch is a torn tail: it is dropped, whatever
follows. Below it a bad or missing batch is corruption: the bytes stay, the range is refused, the
rest is served. Where the journal is lost, the high watermark tells how far that goes. Indexes,
leader epochs and producer state are rebuilt on the way. The invariant: no acknowledged batch is
ever cut off, and offsets that were handed out are never handed out again.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field
from typing import Final

from tidelog.errors import LogCorrupt, UnsupportedVersion
from tidelog.records.batch import BatchHeader
from tidelog_broker.storage import damage, names, snapshots
from tidelog_broker.storage.batch_reader import BatchReader
from tidelog_broker.storage.damage import DamagedRange, Place
from tidelog_broker.storage.frames import DamagedFile
from tidelog_broker.storage.journal import CUT, RESET
from tidelog_broker.storage.leader_epochs import LeaderEpochs
from tidelog_broker.storage.producer_state import ProducerStates
from tidelog_broker.storage.segment import (
    INDEX,
    LOG,
    TIME_INDEX,
    DamagedBytes,
    Segment,
)
from tidelog_broker.storage.volume import Volume

_NO_LIMIT: Final = 1 << 63

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Expectation:
    """What is known of the log before it is read."""

    #: Everything below was durable; None when the journal is lost and nothing is known.
    journalled_end: int | None = None
    log_start: int = 0
    #: A cut that was announced and may not have happened: (CUT or RESET, offset).
    cut: tuple[int, int] | None = None
    #: Some of the journal is damaged: the log may end further on, and start there.
    may_lag: bool = False
    #: Where the journal can't say it: everything below was acknowledged, so that nothing is cut.
    acknowledged_end: int = 0


@dataclass(slots=True)
class LoadedLog:
    """What recovery found, or made."""

    producers: ProducerStates
    segments: list[Segment] = field(default_factory=list)
    log_start: int = 0
    log_end: int = 0
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    damaged_ranges: list[DamagedRange] = field(default_factory=list)
    #: The last segment ends in damage: nothing may be appended to it.
    needs_roll: bool = False
    #: Nobody knows whether what was found belongs to the log.
    is_set_aside: bool = False
    bytes_scanned: int = 0
    #: The snapshot the producer state began with; -1 when the caches on disk are not to be kept.
    snapshot_offset: int = -1


class Recovery:
    """One run over one log."""

    def __init__(
        self,
        volume: Volume,
        place: Place,
        expected: Expectation,
        *,
        now_ms: int,
        interval_bytes: int,
    ) -> None:
        self._volume = volume
        self._disk = volume.disk
        self._place = place
        self._folder = place.folder
        self._expected = expected
        self._durable = expected.journalled_end or 0
        #: What is bad or missing below is damage; caches are trusted below `_durable` alone.
        self._kept = max(self._durable, expected.acknowledged_end)
        #: A cut that recovery has to redo: nothing at or above this offset is kept.
        self._limit = _NO_LIMIT
        if expected.cut is not None and expected.cut[0] == CUT:
            self._limit = expected.cut[1]
        self._now_ms = now_ms
        self._interval_bytes = interval_bytes
        producers = ProducerStates(volume.config.producer_ids_max)
        self._log = LoadedLog(producers, log_start=expected.log_start)
        self._next_offset = 0
        self._scan_from = 0
        self._snapshot_offset = 0
        #: The segment being read is indexed up to this position.
        self._indexed_up_to = 0
        #: Damage that nobody knew of.
        self._found: list[DamagedRange] = []
        #: What was known to be damaged is known no more: no cache may pass over it.
        self._has_lost_note = False
        #: Names were removed or bytes cut: that must be durable before the log is used.
        self._changed = False

    def run(self) -> LoadedLog:
        """Recover; raises OSError, LogCorrupt when not even segment names make sense."""
        file_names = self._remove_leftovers()
        self._list_segments(file_names)
        if self._expected.cut is not None and self._expected.cut[0] == RESET:
            self._remove_from(0)
            self._log.damaged_ranges.clear()
        log = self._log
        if log.segments:
            self._scan_from = self._load_caches(file_names)
            self._check_beginning()
            self._scan()
        else:
            self._next_offset = log.log_start
        self._finish()
        return log

    # --- what is there -------------------------------------------------------------------------

    def _remove_leftovers(self) -> list[str]:
        kept = []
        for name in self._disk.list_directory(self._folder):
            if name.endswith(names.TEMPORARY):
                self._disk.remove(f"{self._folder}/{name}")
            else:
                kept.append(name)
        return kept

    def _list_segments(self, file_names: list[str]) -> None:
        log = self._log
        log.damaged_ranges = self._known_damage()
        for name in file_names:
            base = names.offset_of(name, LOG)
            if base is None:
                continue
            segment = Segment(self._volume, self._folder, base, self._interval_bytes)
            for damaged in log.damaged_ranges:
                if damaged.segment_base == base:
                    damage.mark(segment, damaged)
            log.segments.append(segment)
        bases = {segment.base_offset for segment in log.segments}
        for name in file_names:
            for ending in (INDEX, TIME_INDEX):
                base = names.offset_of(name, ending)
                if base is not None and base not in bases:
                    self._disk.remove(f"{self._folder}/{name}")

    def _known_damage(self) -> list[DamagedRange]:
        """What was noted as damaged; where the note is spoilt itself, it is found anew."""
        try:
            return damage.read(self._disk, self._folder)
        except DamagedFile as error:
            if self._expected.journalled_end is None or self._expected.may_lag:
                # What was noted would pass for the torn end, and what follows it be cut off.
                raise LogCorrupt(
                    f"{error.message}, and the journal has lost how far the log was durable",
                    cause=error.cause,
                    hint="Copy the partition's folder and remove that file: the log is read without"
                    " it then, and may end where the first damage is",
                ) from error
            damage.keep_unreadable(self._disk, self._place, error)
        self._has_lost_note = self._changed = True
        return []

    def _load_caches(self, file_names: list[str]) -> int:
        """Producer state and leader epochs as of some offset; where to read on from."""
        log = self._log
        first = log.segments[0].base_offset
        # What lies below the log's start can't turn out torn: nobody reads it again. Retention may
        # be ahead of the journalled end, and no segment tells then what the snapshot does.
        trusted = max(self._durable, log.log_start)
        if self._starts_with_first:
            trusted = max(trusted, first)
        self._changed |= snapshots.remove_above(self._disk, self._folder, trusted)
        limit = self._volume.config.producer_ids_max
        found = snapshots.newest(
            self._disk, self._folder, file_names=file_names, up_to=trusted, limit=limit
        )
        self._snapshot_offset = first
        if found is not None and found[0] >= first:
            self._snapshot_offset, log.producers = found
        covered = first
        path = f"{self._folder}/{names.LEADER_EPOCHS}"
        if self._disk.exists(path):
            # It is a cache: whatever is wrong with it, the log itself tells the same.
            with contextlib.suppress(DamagedFile, UnsupportedVersion):
                if not self._has_lost_note:
                    log.epochs, covered = LeaderEpochs.decode(self._disk.read_bytes(path), path)
            if covered > self._durable or covered == first:
                # It may know of epochs that are not to be; written anew it must not come back.
                self._remove_cache(path)
            elif covered == self._snapshot_offset:
                log.snapshot_offset = covered
        return max(first, min(self._snapshot_offset, covered, self._durable))

    @property
    def _starts_with_first(self) -> bool:
        """Whether the log starts where its first segment does, for want of better knowledge."""
        expected, first = self._expected, self._log.segments[0].base_offset
        if expected.journalled_end is None:
            return True
        return expected.may_lag and first > max(self._durable, expected.log_start)

    def _check_beginning(self) -> None:
        """The log start is known: segments missing there are missing data."""
        log = self._log
        self._next_offset = first = log.segments[0].base_offset
        if first <= log.log_start:
            return
        if self._starts_with_first:
            log.log_start = first
            return
        self._next_offset = log.log_start
        if log.log_start < self._durable:
            self._add_damage(min(first, self._durable), None, 0, 0)
            self._next_offset = min(first, self._durable)

    # --- reading -------------------------------------------------------------------------------

    def _scan(self) -> None:
        segments = self._log.segments
        for at, segment in enumerate(segments):
            following = segments[at + 1].base_offset if at + 1 < len(segments) else None
            if not self._joins(segment):
                if at == 0:
                    self._set_aside()
                self._remove_from(at)
                return
            if not self._scan_segment(segment, following):
                self._remove_from(at + 1)
                return

    def _joins(self, segment: Segment) -> bool:
        """Whether the segment begins where the log has got to; a gap below is damage."""
        base = segment.base_offset
        if base == self._next_offset:
            return True
        if base < self._next_offset:
            if self._next_offset >= self._kept:
                return False
            raise LogCorrupt(
                f"{segment.path} begins at offset {base}, inside the segment before it",
                hint="Move the partition's folder away and let it be replicated anew",
            )
        if base <= self._log.log_start:
            # Of the segments that were being dropped a power cut has kept some.
            self._next_offset = base
            return True
        # Where the journal can't say where the log ends, a gap is no reason to end it.
        is_known_to_end = self._expected.journalled_end is not None and not self._expected.may_lag
        if is_known_to_end and (self._next_offset >= self._kept or base > self._kept):
            return False
        self._add_damage(base, None, 0, 0)
        self._next_offset = base
        return True

    def _scan_segment(self, segment: Segment, following: int | None) -> bool:
        """Check what must be checked of one segment; False when the log ends in it."""
        segment.load_index()
        if following is not None and following <= self._scan_from:
            covered = segment.covered
            if covered.position == segment.size and covered.next_offset == following:
                self._next_offset = following
                segment.drop_index()
                return True
            # Its index does not vouch for it, so it is read, and all that follows it.
            self._scan_from = segment.base_offset
        relative, position = segment.read_index().place_of_offset(
            max(self._scan_from - segment.base_offset, 0)
        )
        self._indexed_up_to = segment.covered.position
        if segment.covered.next_offset > self._scan_from or not self._indexed_up_to:
            # As with the epochs: what the files say of the log from here on may not come true.
            segment.remove_index_files()
            segment.restart_index(position + 1 if position else 0)
            segment.first_append_ms = segment.last_append_ms = self._now_ms
            self._indexed_up_to = 0
            self._changed = True
        self._next_offset = segment.base_offset + relative
        self._log.epochs.cut_end(self._next_offset)
        return self._scan_batches(segment, position, following)

    def _scan_batches(self, segment: Segment, position: int, following: int | None) -> bool:
        behind = (one for one in self._log.segments if one.base_offset == following)
        reader = BatchReader(segment, next(behind, None))
        while position < segment.size:
            known = segment.end_of_damage(position)
            if known is not None:
                position = known
                self._next_offset = self._offset_after_damage(segment, position)
                continue
            header = reader.batch_at(position)
            if (
                header is None
                or not self._follows(header)
                or reader.is_belied(position, header, self._log.epochs.latest)
            ):
                # Only what was durable can be damaged; anything else is the torn end of the log.
                if self._next_offset >= self._kept:
                    segment.cut(position)
                    self._changed = True
                    return False
                resumed = self._pass_damage(segment, reader, position, following)
                if resumed is None:
                    return False
                position = resumed
                continue
            if header.base_offset >= self._durable and not reader.reads_medium:
                # Nothing proves that it is on the disk: seen in the page cache, it need not be.
                reader.turn_to_medium(position)
                continue
            self._take(segment, position, header)
            position += 12 + header.batch_length
        return True

    def _follows(self, header: BatchHeader) -> bool:
        return (
            header.base_offset == self._next_offset
            and header.leader_epoch >= self._log.epochs.latest
            and header.base_offset < self._limit
        )

    def _take(self, segment: Segment, position: int, header: BatchHeader) -> None:
        log = self._log
        if position >= self._indexed_up_to:
            segment.take(position, header)
            segment.last_append_ms = self._now_ms
        log.bytes_scanned += 12 + header.batch_length
        if header.leader_epoch > log.epochs.latest:
            log.epochs.begin(header.leader_epoch, header.base_offset)
        if header.base_offset >= self._snapshot_offset and header.base_sequence >= 0:
            log.producers.replay(header, self._now_ms)
        self._next_offset = header.base_offset + header.last_offset_delta + 1

    # --- damage --------------------------------------------------------------------------------

    def _pass_damage(
        self, segment: Segment, reader: BatchReader, position: int, following: int | None
    ) -> int | None:
        """Note a damaged range; where to read on, or None when the log ends with it."""
        # No byte of a segment goes missing: what begins here at another offset is spoilt, too.
        resumed = reader.next_batch(position + 1, self._next_offset, self._kept)
        if resumed is not None:
            resume_position, header = resumed
            self._add_damage(header.base_offset, segment, position, resume_position)
            self._next_offset = header.base_offset
            segment.add_index_entry(header.base_offset, resume_position)
            return resume_position
        if following == self._next_offset:
            # Nothing is missing: an append that failed for want of space was cut back, and the cut
            # was never synced, because the next batch went to the next segment.
            segment.cut(position)
            segment.file().sync()
            self._changed = True
            return position
        end = self._kept if following is None else min(following, self._kept)
        self._add_damage(end, segment, position, segment.size)
        self._next_offset = end
        if following is not None and following == end:
            return segment.size
        self._log.needs_roll = True
        return None

    def _add_damage(
        self, end_offset: int, segment: Segment | None, position: int, end_position: int
    ) -> None:
        start_offset = max(self._next_offset, self._log.log_start)
        base = -1 if segment is None else segment.base_offset
        if segment is not None and end_position > position:
            segment.damage.append(DamagedBytes(position, end_position))
        if end_offset <= start_offset and end_position > position:
            # Nobody may ask for it, and yet who reads the segment has to know where it ends.
            start_offset = self._next_offset
        if end_offset > start_offset:
            damaged = DamagedRange(start_offset, end_offset, base, position, end_position)
            if damaged not in self._log.damaged_ranges:
                self._log.damaged_ranges.append(damaged)
                self._found.append(damaged)

    def _offset_after_damage(self, segment: Segment, position: int) -> int:
        for damaged in self._log.damaged_ranges:
            if damaged.segment_base == segment.base_offset and damaged.end_position == position:
                return damaged.end_offset
        return self._next_offset

    # --- cutting -------------------------------------------------------------------------------

    def _set_aside(self) -> None:
        """The whole log begins above all that is known of it: it can't be served, nor removed.

        A power cut leaves that of a log whose first names were never synced, so that nobody was
        promised any of it; a medium that spoils the end of the journal of any log that was cut at
        its beginning. Nothing tells which it was.
        """
        log = self._log
        first = log.segments[0]
        for segment in log.segments:
            segment.set_aside()
        logger.error(
            "%s begins at offset %d on this disk, and the journal knows of nothing above %d: either"
            " a power cut has lost its first segments, before anything was acknowledged, or the"
            " disk has lost the end of the journal. Its segments are kept as %s/*%s, and the log"
            " goes on at %d",
            self._place,
            first.base_offset,
            self._next_offset,
            self._folder,
            names.ASIDE,
            self._next_offset,
            extra=self._place.fields(first_offset=first.base_offset),
        )
        log.segments.clear()
        log.is_set_aside = self._changed = True

    def _remove_from(self, at: int) -> None:
        segments = self._log.segments
        for segment in segments[at:]:
            segment.remove()
            self._changed = True
        del segments[at:]

    def _finish(self) -> None:
        """Make what was found durable before anybody builds on it."""
        log = self._log
        reset_to = None
        if self._expected.cut is not None and self._expected.cut[0] == RESET:
            reset_to = self._expected.cut[1]
            log.log_start = self._next_offset = reset_to
        elif self._next_offset < self._kept:
            self._add_damage(self._kept, None, 0, 0)
            self._next_offset = self._kept
            log.needs_roll = True
        log.log_end = max(self._next_offset, log.log_start)
        if log.log_end > self._next_offset or (not log.segments and log.log_end > log.log_start):
            log.needs_roll = True
        log.epochs.cut_end(log.log_end)
        if log.segments and log.segments[-1].end_of_damage(log.segments[-1].size - 1) is not None:
            log.needs_roll = True
        kept_up_to = log.log_end if reset_to is None else -1
        self._changed |= snapshots.remove_above(self._disk, self._folder, kept_up_to)
        if self._found or self._has_lost_note or reset_to is not None:
            damage.write(self._volume.vital, self._folder, log.damaged_ranges)
        damage.say(
            self._place, [found for found in self._found if found.end_offset > log.log_start]
        )
        if log.log_end > self._durable or self._changed:
            self._sync()

    def _sync(self) -> None:
        """Sync whatever may not have been durable."""
        segments = self._log.segments
        for at, segment in enumerate(segments):
            if at + 1 == len(segments) or segments[at + 1].base_offset > self._durable:
                segment.file().sync()
        self._disk.sync_directory(self._folder)

    def _remove_cache(self, path: str) -> None:
        self._disk.remove(path)
        self._changed = True
