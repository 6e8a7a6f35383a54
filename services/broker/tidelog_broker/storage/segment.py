"""One segment: a file of plain record batches, and its index.

Logs append to the last one and read from all. The `.log` file holds RecordBatch v2 and nothing
else, so its bytes go over the wire as they lie. A segment knows positions and headers; which
offsets are committed, durable or damaged is the log's business.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidelog.errors import CorruptMessage, LogCorrupt
from tidelog.records.batch import HEADER_BYTES, BatchHeader, read_header
from tidelog_broker.storage import names
from tidelog_broker.storage.open_files import OpenFile
from tidelog_broker.storage.segment_index import Coverage, SegmentIndex, file_headers
from tidelog_broker.storage.volume import Volume
from tidelog_runtime.configs.topic import BATCH_BYTES_MAX
from tidelog_runtime.disk import Buffer, File

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"

#: Positions must fit the index's 32 bits, relative offsets too.
SEGMENT_BYTES_MAX: Final = (1 << 31) - 1
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1

_WALK_BYTES: Final = 64 << 10
_FIRST_WALK_BYTES: Final = 8 << 10


class DamagedBytes(NamedTuple):
    """Bytes of a segment that are no batches: walks jump over them."""

    position: int
    end_position: int


class Segment:
    """The batches from `base_offset` up to the next segment's."""

    __slots__ = (
        "_disk",
        "_files",
        "_index",
        "_index_error",
        "_indexes",
        "_open_file",
        "_size",
        "_stem",
        "base_offset",
        "covered",
        "damage",
        "first_append_ms",
        "indexed_position",
        "interval_bytes",
        "last_append_ms",
        "max_timestamp",
        "told_damage",
        "unsynced",
        "writable",
    )

    def __init__(self, volume: Volume, folder: str, base_offset: int, interval_bytes: int) -> None:
        self._disk = volume.disk
        self._files = volume.files
        self._indexes = volume.indexes
        self._stem = names.stem(folder, base_offset)
        self._open_file: OpenFile | None = None
        self._index: SegmentIndex | None = None
        #: What keeps the index from being whole; what it knows of before serves readers there.
        self._index_error: LogCorrupt | None = None
        self._size = -1
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        #: The log appends here; its index stays in memory.
        self.writable = False
        #: How far the index files reach; entries beyond are in memory alone.
        self.covered = Coverage(next_offset=base_offset)
        self.damage: list[DamagedBytes] = []
        #: Reads meet damage that nobody knew of, and the log says so.
        self.told_damage = False
        self.indexed_position = 0
        self.max_timestamp = -1
        self.first_append_ms = -1
        self.last_append_ms = -1
        self.unsynced = False

    @property
    def path(self) -> str:
        """The `.log` file."""
        return self._stem + LOG

    def slot(self) -> OpenFile:
        """The open file; opened again when it was closed for want of use."""
        slot = self._open_file
        if slot is None or slot.file is None:
            slot = self._open_file = self._files.open(self.path)
        slot.used = True
        return slot

    def file(self) -> File:
        """The open file of this moment; not to be kept."""
        file = self.slot().file
        assert file is not None
        return file

    def create(self) -> None:
        """Make an empty file; its name is not durable yet."""
        self._open_file = self._files.open(self.path, create=True)
        self.file().truncate(0)
        self._size = 0
        self._index = SegmentIndex()

    @property
    def size(self) -> int:
        """Bytes in the `.log` file."""
        if self._size < 0:
            self._size = self.file().size
        return self._size

    def append(self, parts: Sequence[Buffer], size: int) -> int:
        """Write one batch of `size` bytes; the position where it begins."""
        slot = self._open_file
        if slot is None or slot.file is None:
            slot = self.slot()
        slot.used = True
        file = slot.file
        assert file is not None
        position = file.append(parts)
        self._size = position + size
        return position

    def cut(self, position: int) -> None:
        """Cut the file and what the index says of the part that goes."""
        self.file().truncate(position)
        self._size = position
        self.damage = [bad for bad in self.damage if bad.end_position <= position]
        self.remove_index_files()
        self.restart_index(position)
        # Damage that lies before the cut is for who reads there.
        with contextlib.suppress(LogCorrupt):
            for _, header in self.walk(self.indexed_position):
                self.max_timestamp = max(self.max_timestamp, header.max_timestamp)

    def read(self, position: int, length: int) -> bytes:
        """Bytes as they lie."""
        return self.file().read(position, length)

    # --- walking -------------------------------------------------------------------------------

    def walk(
        self,
        position: int = 0,
        end: int | None = None,
        *,
        offset: int = -1,
        first_bytes: int = _WALK_BYTES,
    ) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from a position where one begins.

        Headers only: nothing behind them is read when batches are large, or checked, but that each
        batch begins at the offset where the one before it ends; `offset` is that of the first one,
        where it is known. Known damage is jumped over; unknown damage raises LogCorrupt.
        """
        stop = self.size if end is None else end
        window, window_position = b"", position
        length = first_bytes
        expected = offset if position else self.base_offset
        while position < stop:
            jump = self.end_of_damage(position)
            if jump is not None:
                position, expected = jump, -1
                continue
            if position + HEADER_BYTES > window_position + len(window):
                window, window_position = self.read(position, length), position
                length = _WALK_BYTES
            header = self.header_in(window, position - window_position, position)
            if expected >= 0 and header.base_offset != expected:
                raise LogCorrupt(
                    f"{self.path} is damaged at byte {position}: a batch of offset "
                    f"{header.base_offset} begins there, where that of offset {expected} was to be"
                )
            yield position, header
            position += 12 + header.batch_length
            expected = header.base_offset + header.last_offset_delta + 1

    def header_in(self, window: bytes, at: int, position: int) -> BatchHeader:
        """The header at `at` of bytes read here; `position` is where that is in the file."""
        try:
            header = read_header(window, at)
        except CorruptMessage as error:
            raise LogCorrupt(
                f"{self.path} is damaged at byte {position}", cause=str(error)
            ) from None
        size = 12 + header.batch_length
        if size > BATCH_BYTES_MAX or position + size > self.size:
            raise LogCorrupt(
                f"{self.path} is damaged at byte {position}: a batch of {size} bytes begins there, "
                f"the file has {self.size}"
            )
        last_relative = header.base_offset - self.base_offset + header.last_offset_delta
        if not header.last_offset_delta >= 0 <= last_relative <= RELATIVE_OFFSET_MAX:
            raise LogCorrupt(
                f"{self.path} is damaged at byte {position}: a batch of offsets "
                f"{header.base_offset} to {header.last_offset} begins there, the segment begins at "
                f"{self.base_offset}"
            )
        return header

    def end_of_damage(self, position: int) -> int | None:
        """Where the known damage ends that this position lies in; None outside of any."""
        for bad in self.damage:
            if bad.position <= position < bad.end_position:
                return bad.end_position
        return None

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The batch that holds this offset, or the first behind it; None past the last."""
        relative = min(offset - self.base_offset, RELATIVE_OFFSET_MAX)
        # Damage ends what can be indexed; what lies before it is found, and the walk meets it.
        with contextlib.suppress(LogCorrupt):
            self.index()
        known, begin = self.read_index().place_of_offset(max(relative, 0))
        known += self.base_offset
        for position, header in self.walk(begin, offset=known, first_bytes=_FIRST_WALK_BYTES):
            if header.base_offset + header.last_offset_delta >= offset:
                return position, header
        return None

    def locate_timestamp(self, timestamp: int, offset_min: int) -> BatchHeader | None:
        """The first batch with a record at or after this timestamp, and this offset."""
        index = self.index()
        if self.max_timestamp < timestamp:
            return None
        known, begin = index.place_of_timestamp(timestamp)
        for _, header in self.walk(begin, offset=self.base_offset + known):
            last_offset = header.base_offset + header.last_offset_delta
            if header.max_timestamp >= timestamp and last_offset >= offset_min:
                return header
        return None

    def max_timestamp_below(self, end: int) -> int:
        """The highest timestamp of the batches that end at or below this offset; -1 for none."""
        index = self.index()
        relative = min(end - self.base_offset, RELATIVE_OFFSET_MAX)
        known, position, highest = index.timestamp_before(relative)
        offset = self.base_offset + known
        for _, header in self.walk(position, offset=offset, first_bytes=_FIRST_WALK_BYTES):
            if header.next_offset > end:
                break
            highest = max(highest, header.max_timestamp)
        return highest

    # --- index ---------------------------------------------------------------------------------

    def read_index(self) -> SegmentIndex:
        """The index as far as it is known, which may end long before the log does."""
        if self._index is None:
            self.load_index()
        assert self._index is not None
        return self._index

    def index(self) -> SegmentIndex:
        """The index, read from its files and completed from the log when that is needed.

        Raises LogCorrupt where damage keeps it from being whole, each time.
        """
        if self._index_error is not None:
            raise self._index_error.with_traceback(None)
        if self._index is None:
            self.load_index()
            try:
                begin, offset = self.covered.position, self.covered.next_offset
                for position, header in self.walk(begin, offset=offset):
                    self.take(position, header)
            except LogCorrupt as error:
                self._index_error = error
                raise
            if not self.writable:
                self._indexes.keep(self)
        assert self._index is not None
        return self._index

    def load_index(self) -> None:
        """Read what the index files know, and no more."""
        contents = [b"", b""]
        for at, ending in enumerate((INDEX, TIME_INDEX)):
            with contextlib.suppress(FileNotFoundError):
                contents[at] = self._disk.read_bytes(self._stem + ending)
        index, covered = SegmentIndex.decode(contents[0], contents[1], self._stem)
        if covered.position > self.size or covered.next_offset < self.base_offset:
            index, covered = SegmentIndex(), Coverage()
        if not covered.position:
            covered.next_offset = self.base_offset
        self._index, self.covered = index, covered
        self._index_error = None
        self.indexed_position = index.last_position
        self.max_timestamp = covered.max_timestamp
        # A clean stop may have told of later appends than its index files.
        if covered.last_append_ms > self.last_append_ms:
            self.first_append_ms = covered.first_append_ms
            self.last_append_ms = covered.last_append_ms

    def restart_index(self, position: int) -> None:
        """Forget what the index knows of the log at and behind `position`."""
        index = self.read_index()
        index.cut(position)
        self._index_error = None
        self.indexed_position = index.last_position
        self.max_timestamp = index.last_timestamp
        self.covered = Coverage(next_offset=self.base_offset)

    def take(self, position: int, header: BatchHeader) -> None:
        """Account for a batch that lies in the file."""
        if position - self.indexed_position > self.interval_bytes:
            self.add_index_entry(header.base_offset, position)
        self.max_timestamp = max(self.max_timestamp, header.max_timestamp)

    def add_index_entry(self, base_offset: int, position: int) -> None:
        """Remember where this batch begins."""
        assert self._index is not None
        self._index.add(base_offset - self.base_offset, position, self.max_timestamp)
        self.indexed_position = position

    def drop_index(self) -> None:
        """Free the memory of an index whose files are complete; it is read again when needed."""
        if self.covered.position == self._size and not self.writable:
            self._index = None

    def write_index(self, next_offset: int) -> None:
        """Bring the index files up to the end of the log, which is `next_offset`."""
        index = self.index()
        covered = Coverage(
            self.size,
            next_offset,
            self.max_timestamp,
            self.first_append_ms,
            self.last_append_ms,
        )
        if covered == self.covered:
            return
        anew = not index.continues_files
        contents = zip(
            (INDEX, TIME_INDEX), file_headers(), index.pending_frames(covered), strict=True
        )
        for ending, file_header, frame in contents:
            file = self._disk.open(self._stem + ending, create=True)
            try:
                if anew:
                    file.truncate(0)
                    file.append([file_header, frame])
                else:
                    file.append([frame])
            finally:
                file.close()
        index.mark_written()
        self.covered = covered

    def remove_index_files(self) -> None:
        """Their content is wrong from now on."""
        for ending in (INDEX, TIME_INDEX):
            with contextlib.suppress(FileNotFoundError):
                self._disk.remove(self._stem + ending)

    # --- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file once no sync uses it."""
        if self._open_file is not None:
            self._files.discard(self._open_file)
            self._open_file = None

    def retire(self) -> str:
        """Rename the file so that it is no longer there; the path to purge later."""
        self.close()
        self.remove_index_files()
        # Somebody may have removed it already.
        with contextlib.suppress(FileNotFoundError):
            self._disk.rename(self.path, self.path + names.DELETED)
        return self.path + names.DELETED

    def set_aside(self) -> str:
        """Rename the file, so that it is no segment of the log any more; where it is kept."""
        self.close()
        self.remove_index_files()
        number = 1
        while self._disk.exists(aside := f"{self.path}.{number}{names.ASIDE}"):
            number += 1
        self._disk.rename(self.path, aside)
        return aside

    def remove(self) -> None:
        """Remove all files at once."""
        self.close()
        self.remove_index_files()
        self._disk.remove(self.path)
