"""The journal of a data directory: recovery point, and evidence of what was durable.

After each group commit it takes the ends that are now durable; a truncation, a reset of a
follower's log, a move of the log start or a deletion is written here and synced before anything
is cut. Group commit appends to it from the event loop and syncs it beside the logs; recovery
reads it first. The invariant: an end in the journal never lies above what was durable when it
was written; it may lag, it never leads. The lag costs no acknowledged record: what was synced is
on the disk and recovery reads on past the journalled end. It costs evidence: a medium that spoils
bytes synced within the last ten milliseconds before an unclean stop passes for a torn tail.

A file begins with one STATE frame that replaces all before it, so an old file can go once the
new one is durable. What is unreadable between two frames is passed over: each frame is true by
itself. A power cut spoils only what was never synced, which nobody acted on, and SYNCED frames tell
how far that was, as the watermarks and the clean marker do: unreadable bytes behind the last such
place are torn and count for nothing, those before it are damage. Frames hold one byte of kind and
lines of `key, offset[, offset]`:

    key    16 bytes topic id, 4 bytes partition
    STATE  1 byte flush policy, and whether lines are lost, then lines of key, durable end (-1: not
           known), log start
    ENDS   key, durable end (also: a cut is done)
    STARTS key, log start
    CUT    key, new end          RESET  key, new start          DELETE key, 0
    SYNCED 8 bytes: when it was written the file was durable up to this position
"""

from __future__ import annotations

import contextlib
import logging
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.errors import UnsupportedVersion
from tidelog.model import PartitionId, TopicId
from tidelog_broker.storage import names
from tidelog_broker.storage.config import FlushPolicy
from tidelog_broker.storage.frames import (
    HEADER_SIZE,
    DamagedFile,
    check_header,
    frame,
    frames,
    header,
)
from tidelog_runtime.disk import Disk, File

logger = logging.getLogger(__name__)

_MAGIC: Final = b"TLjl"
_VERSION: Final = 1

STATE: Final = 1
ENDS: Final = 2
STARTS: Final = 3
CUT: Final = 4
RESET: Final = 5
DELETE: Final = 6
SYNCED: Final = 7

_STATE_LINE: Final = struct.Struct(">16sIqq")
_LINE: Final = struct.Struct(">16sIq")
_KEY: Final = struct.Struct(">16sI")
_OFFSET: Final = struct.Struct(">q")
#: The journal that knew how far the log was durable is lost, and the log is not recovered yet.
UNKNOWN_END: Final = -1
#: A policy's number in a STATE frame is its place here: the later, the less it proves.
_POLICIES: Final = (FlushPolicy.COMMIT, FlushPolicy.INTERVAL, FlushPolicy.OS)
#: Added to it: some of what came before was damaged, and not every log is proved since.
_LOST_LINES: Final = 0x80
#: How a frame behind unreadable bytes may begin: not three bytes long, and of a kind that is.
_FRAME_BEGINS: Final = re.compile(rb"(?=\x00[\x00-\xff]{7}[\x02-\x07])", re.DOTALL)


def key_of(partition_id: PartitionId) -> bytes:
    """How the journal names a partition; logs keep theirs, so that it is built once."""
    return _KEY.pack(partition_id.topic_id, partition_id.partition)


class JournalMark(NamedTuple):
    """How far the journal was durable at some time: which file, and where in it."""

    number: int
    position: int


@dataclass(slots=True)
class JournalState:
    """What the journal says of all partitions."""

    ends: dict[PartitionId, int] = field(default_factory=dict)
    starts: dict[PartitionId, int] = field(default_factory=dict)
    #: A cut that may not have happened yet: (CUT or RESET, offset). Redone by recovery.
    cuts: dict[PartitionId, tuple[int, int]] = field(default_factory=dict)
    deleted: set[PartitionId] = field(default_factory=set)
    #: The flush policy under which the ends were written.
    policy: FlushPolicy | None = None
    #: Some of it is damaged: what is missing here may stand in other files.
    has_lost_lines: bool = False

    def apply(self, kind: int, lines: memoryview) -> None:
        """Take one frame; a kind or length we do not know is damage."""
        if kind == STATE:
            policy = lines[0] & ~_LOST_LINES
            if (len(lines) - 1) % _STATE_LINE.size or policy >= len(_POLICIES):
                raise DamagedFile("A STATE frame of the journal is not one")
            self.policy = _POLICIES[policy]
            self.has_lost_lines = bool(lines[0] & _LOST_LINES)
            for known in (self.ends, self.starts, self.cuts):
                known.clear()
            self.deleted.clear()
            for topic_id, partition, end, start in _STATE_LINE.iter_unpack(lines[1:]):
                partition_id = PartitionId(TopicId(topic_id), partition)
                self.ends[partition_id] = end
                self.starts[partition_id] = start
            return
        if kind not in _APPLY or len(lines) % _LINE.size:
            raise DamagedFile(f"The journal holds a frame of kind {kind} it cannot hold")
        take = _APPLY[kind]
        for topic_id, partition, offset in _LINE.iter_unpack(lines):
            take(self, PartitionId(TopicId(topic_id), partition), offset)

    def take_end(self, partition_id: PartitionId, end: int) -> None:
        """Everything below `end` is durable, and so is any cut before it."""
        self.ends[partition_id] = end
        self.cuts.pop(partition_id, None)
        self.deleted.discard(partition_id)

    def take_start(self, partition_id: PartitionId, start: int) -> None:
        """The log starts here from now on."""
        self.starts[partition_id] = start

    def take_cut(self, partition_id: PartitionId, end: int) -> None:
        """The log is about to be cut."""
        self.ends[partition_id] = min(end, self.ends.get(partition_id, 0))
        self.cuts[partition_id] = (CUT, end)

    def take_reset(self, partition_id: PartitionId, start: int) -> None:
        """The log is about to be emptied and begun at another offset."""
        self.ends[partition_id] = self.starts[partition_id] = start
        self.cuts[partition_id] = (RESET, start)

    def take_delete(self, partition_id: PartitionId, _offset: int) -> None:
        """The partition is about to be deleted."""
        self.ends.pop(partition_id, None)
        self.starts.pop(partition_id, None)
        self.cuts.pop(partition_id, None)
        self.deleted.add(partition_id)


_APPLY: Final = {
    ENDS: JournalState.take_end,
    STARTS: JournalState.take_start,
    CUT: JournalState.take_cut,
    RESET: JournalState.take_reset,
    DELETE: JournalState.take_delete,
}


class Journal:
    """The journal of an open data directory: read when it is made, written from `begin` on."""

    def __init__(
        self, disk: Disk, policy: FlushPolicy, bytes_max: int, proved: Iterable[JournalMark] = ()
    ) -> None:
        """`proved`: how far other files say that it was durable."""
        self._disk = disk
        self._policy = policy
        self._bytes_max = bytes_max
        self.state = JournalState()
        #: False when the journal was missing or its beginning unreadable.
        self.intact = True
        #: Bytes that were durable can't be read any more.
        self.is_damaged = False
        #: The policy of the process before this one; None when nothing is known of it.
        self.previous_policy: FlushPolicy | None = None
        #: Whether every log was opened, and so recovered where that was due, or closed cleanly.
        self.is_proved = False
        self.dirty = False
        self._number = 0
        self._outdated: list[str] = []
        #: Its folder has to be synced with it.
        self.name_is_new = True
        self._file: File
        #: How the STATE of the file in use begins, and how large the file was with it.
        self._begun_with = self._begun_size = 0
        #: How far the file in use is durable, and how far it says so itself.
        self._synced = self._told_synced = 0
        #: How far it is, if no sync under way has failed.
        self._finished = 0
        #: Syncs that have begun, and of whose end nobody has heard yet.
        self._under_way = 0
        self._read(sorted(proved))

    def _read(self, proved: list[JournalMark]) -> None:
        """Read every journal file in order; the newest one with a whole beginning counts."""
        numbers = sorted(
            number
            for name in self._disk.list_directory("")
            if (number := names.journal_number(name)) is not None
        )
        durable = {number: position for number, position in proved if position > 0}
        whole = [self._read_file(number, durable.pop(number, 0)) for number in numbers]
        self.is_damaged |= any(number > numbers[-1] for number in durable if numbers)
        # A crash may have kept the newest file from being written; its predecessor then holds all.
        self.intact = any(whole)
        self.state.has_lost_lines |= self.is_damaged
        self.previous_policy = self.state.policy
        # A number that other files tell of is not used for another file.
        self._number = max([*numbers, *(mark.number for mark in proved)], default=0)
        self._outdated = [names.journal(number) for number in numbers]

    def begin(
        self,
        known: Iterable[PartitionId],
        vouched: Mapping[PartitionId, tuple[int, int]],
        *,
        is_proved: bool,
    ) -> None:
        """Begin this process's file, in a directory that holds these logs, or held them.

        It must not claim to know more of them than the files before it: another start may read it
        before they are recovered. Of those that were closed cleanly `vouched` tells end and start,
        which stand in where lines are lost.
        """
        self.is_proved = is_proved
        if self.state.has_lost_lines:
            # That a cut was done, or a partition made again, may be among what is lost.
            self.state.cuts.clear()
            self.state.deleted.clear()
        if not self.intact:
            self.state.ends.update(dict.fromkeys(known, UNKNOWN_END))
        if self.state.has_lost_lines or not self.intact:
            for partition_id, (end, start) in vouched.items():
                self.state.ends[partition_id] = end
                self.state.starts[partition_id] = start
        self._file = self._begin_file()

    @property
    def mark(self) -> JournalMark:
        """How far it is durable by now."""
        return JournalMark(self._number, self._synced)

    @property
    def _proved(self) -> int:
        """What a STATE begins with: the policy that everything it tells of was written under, or a
        stricter one, and whether it may lack something.
        """
        if self.is_proved:
            return _POLICIES.index(self._policy)
        before = self.previous_policy or FlushPolicy.OS
        policy = max(_POLICIES.index(self._policy), _POLICIES.index(before))
        return policy | (_LOST_LINES if self.state.has_lost_lines else 0)

    def _read_file(self, number: int, synced: int) -> bool:
        """Take what it says; False when its beginning can't be read, and so nothing is taken."""
        content = self._disk.read_bytes(names.journal(number))
        readable_end = 0
        for position, payload in _pieces(content, names.journal(number)):
            if not readable_end:
                if payload is None or payload[0] != STATE:
                    break
                readable_end = len(content)
            if payload is None:
                readable_end = min(readable_end, position)
            elif payload[0] == SYNCED:
                synced = max(synced, _synced_position(payload))
            else:
                self.state.apply(payload[0], payload[1:])
        is_damaged = readable_end < synced
        self.is_damaged = is_damaged or (self.is_damaged and not readable_end)
        return readable_end > 0

    def _begin_file(self) -> File:
        self._number += 1
        file = self._disk.open(names.journal(self._number), create=True)
        file.truncate(0)
        state = self.state
        kind = (STATE, self._proved)
        lines = [
            _STATE_LINE.pack(key.topic_id, key.partition, end, state.starts.get(key, 0))
            for key, end in state.ends.items()
        ]
        parts = [header(_MAGIC, _VERSION), frame(bytes(kind) + b"".join(lines))]
        parts += [
            frame(bytes([cut]) + key_of(key) + _OFFSET.pack(offset))
            for key, (cut, offset) in state.cuts.items()
        ]
        if state.deleted:
            gone = [key_of(key) + _OFFSET.pack(0) for key in sorted(state.deleted)]
            parts.append(frame(bytes([DELETE]) + b"".join(gone)))
        try:
            file.append(parts)
        except OSError:
            file.close()
            self._number -= 1
            raise
        self._begun_with, self._begun_size = kind[1], file.size
        self._synced = self._told_synced = self._finished = 0
        self.dirty = self.name_is_new = True
        return file

    def write(self, kind: int, entries: Iterable[tuple[PartitionId, bytes, int]]) -> None:
        """Append one frame of (partition, its key, offset); durable after `sync`."""
        entries = list(entries)
        if not entries:
            return
        lines = [bytes([kind])]
        for _, key, offset in entries:
            lines += (key, _OFFSET.pack(offset))
        self._append(frame(b"".join(lines)))
        self.dirty = True
        take = _APPLY[kind]
        for partition_id, _, offset in entries:
            take(self.state, partition_id, offset)

    def _append(self, *written: bytes) -> None:
        """Write frames, and before them how far the file is durable, unless it says so already."""
        synced = self._synced
        if synced > self._told_synced:
            written = (frame(bytes([SYNCED]) + _OFFSET.pack(synced)), *written)
        if written:
            self._file.append(written)
        self._told_synced = synced

    def tell_synced(self) -> None:
        """What was announced is durable: say so before anybody acts on it, as far as there is room.

        It need not be durable itself. It proves that an announcement which can't be read later is
        damage, and not the torn end of the journal.
        """
        with contextlib.suppress(OSError):
            self._append()

    def sync(self) -> None:
        """Make all of it durable, from the thread that also appends."""
        pending = self.begin_sync()
        pending.run()
        self.finish_sync(pending)

    def begin_sync(self) -> JournalSync:
        """What a thread has to do so that everything written up to now is durable."""
        self.dirty = False
        self._under_way += 1
        return JournalSync(self._disk, self._file, self._file.size, self.name_is_new)

    def finish_sync(self, done: JournalSync) -> None:
        """The sync succeeded: the files before this one have no more to tell."""
        self._under_way -= 1
        self._finished = max(self._finished, done.end)
        if self._under_way:
            # It may have met an error of which nobody has heard yet, and none is told twice.
            return
        self._synced = self._finished
        if done.name_is_new and self.name_is_new:
            self.name_is_new = False
            self._remove_outdated()

    @property
    def is_sync_under_way(self) -> bool:
        """Whether a sync has begun of whose end nobody has heard."""
        return self._under_way > 0

    def _remove_outdated(self) -> None:
        """A file that stays does no harm: this one replaces all it says, and the next start tries
        again.
        """
        outdated, self._outdated = self._outdated, []
        for path in outdated:
            try:
                self._disk.remove(path)
            except OSError as error:
                logger.error("%s has no more to tell, and can't be removed: %s", path, error)

    def take_back_sync(self) -> None:
        """The sync could not be tried: the next one has it all to do."""
        self._under_way -= 1
        self.dirty = True

    def begin_anew_if_due(self) -> None:
        """Keep the journal bounded, and its policy true once all logs are recovered.

        Only between a finished sync and the next one.
        """
        # What many partitions begin with may be larger than the limit by itself.
        bytes_max = max(self._bytes_max, 2 * self._begun_size)
        is_due = self._file.size > bytes_max or self._begun_with != self._proved
        if not is_due or self._outdated:
            return
        large, number, deleted = self._file, self._number, self.state.deleted
        # Every deletion is complete: its folder was renamed durably before the call returned.
        self.state.deleted = set()
        try:
            self._file = self._begin_file()
        except OSError:
            # A full disk has no room for the next file: this one goes on, and recovery passes
            # over whatever was begun.
            self._number, self.state.deleted = number, deleted
            return
        large.close()
        self._outdated = [names.journal(number)]

    def close(self) -> None:
        """Close the file; `sync` first."""
        self._file.close()


def _synced_position(payload: memoryview) -> int:
    if len(payload) != 1 + _OFFSET.size:
        raise DamagedFile("A SYNCED frame of the journal is not one")
    (position,) = _OFFSET.unpack_from(payload, 1)
    return int(position)


def _pieces(content: bytes, path: str) -> Iterator[tuple[int, memoryview | None]]:
    """Each frame's payload with the position behind it; None, and where, for what is no frame."""
    try:
        check_header(content, _MAGIC, _VERSION, path)
    except UnsupportedVersion:
        raise
    except DamagedFile:
        return
    position = HEADER_SIZE
    while position < len(content):
        for end, payload in frames(content, position):
            yield end, payload
            position = end
        if position < len(content):
            yield position, None
            position = _next_frame(content, position + 1)


def _next_frame(content: bytes, position: int) -> int:
    """Where the next whole frame begins; the end when there is none."""
    for found in _FRAME_BEGINS.finditer(content, position):
        if next(frames(content, found.start()), None) is not None:
            return found.start()
    return len(content)


class JournalSync:
    """One sync of the journal, made on the loop and run in a thread."""

    __slots__ = ("_disk", "_file", "end", "name_is_new")

    def __init__(self, disk: Disk, file: File, end: int, name_is_new: bool) -> None:
        self._disk = disk
        self._file = file
        #: Where the file ended when the sync began.
        self.end = end
        self.name_is_new = name_is_new

    @property
    def call(self) -> Callable[[], None]:
        """What to make of it in a round: a bare sync of a file may be quicker than a call."""
        return self.run if self.name_is_new else self._file.sync

    def run(self) -> None:
        """Sync; raises OSError."""
        self._file.sync()
        if self.name_is_new:
            self._disk.sync_directory("")
