"""Removing parts of a log: its end, its beginning, or all of it.

`Log` calls these after the journal has announced the cut durably. What a cut removes must not come
back after a crash, so the caches that know of it go first, and files and names are synced before
the cut counts as done. Retired segments are renamed; their space is given back later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

from tidelog.errors import LogCorrupt
from tidelog_broker.storage import damage
from tidelog_broker.storage.config import LogConfig
from tidelog_broker.storage.log_body import LogBody
from tidelog_broker.storage.open_files import NO_DESCRIPTOR
from tidelog_runtime.disk import relieved

logger = logging.getLogger(__name__)


def end_for(body: LogBody, offset: int) -> int:
    """Where the log ends when nothing at or above `offset` is kept: a batch goes as a whole."""
    at = body.find(offset)
    found = body.segments[at].locate(offset)
    return offset if found is None else min(found[1].base_offset, offset)


def cut_end(
    body: LogBody, new_end: int, config: LogConfig, *, durable_end: int, now_ms: int
) -> None:
    """Remove everything at and above `new_end`, durably."""
    disk, folder = body.volume.disk, body.folder
    body.forget_caches_above(new_end)
    at = body.find(new_end)
    for segment in body.segments[at + 1 :]:
        segment.remove()
    del body.segments[at + 1 :]
    last = body.segments[at]
    last.writable = True
    found = last.locate(new_end)
    if found is not None:
        last.cut(found[0])
    body.epochs.cut_end(new_end)
    body.damaged_ranges = [
        damaged._replace(end_offset=min(damaged.end_offset, new_end))
        for damaged in body.damaged_ranges
        if damaged.start_offset < new_end
    ]
    damage.write(body.volume.vital, folder, body.damaged_ranges)
    body.refresh()
    for at, segment in enumerate(body.segments):
        if segment is last or body.end_offset_of(at, new_end) > durable_end:
            segment.file().sync()
    disk.sync_directory(folder)
    body.load_producers(new_end, now_ms)
    if body.damaged_ranges and body.damaged_ranges[-1].end_offset == new_end:
        # Batches follow one another without a gap in a segment, and here one would.
        body.roll(new_end, config).file().sync()
        disk.sync_directory(folder)


def cut_everything(body: LogBody, new_start: int, config: LogConfig, now_ms: int) -> None:
    """Remove all there is and begin anew at `new_start`, durably."""
    disk, folder = body.volume.disk, body.folder
    body.forget_caches_above(-1)
    for segment in body.segments:
        segment.remove()
    body.segments.clear()
    body.epochs.cut_end(-1)
    body.damaged_ranges = []
    damage.write(body.volume.vital, folder, [])
    body.refresh()
    body.roll(new_start, config).file().sync()
    disk.sync_directory(folder)
    body.load_producers(new_start, now_ms)


def secure_producers(body: LogBody, new_start: int, now_ms: int) -> bool:
    """Make durable what only the segments that lie wholly below `new_start` tell of producers.

    False when those have to stay for now. Without room for a snapshot they go all the same. Raises
    OSError when the folder's sync failed, after which nobody knows which names are on the disk.
    """
    base = body.segments[body.find(new_start)].base_offset
    if base == body.segments[0].base_offset or body.secured_offset >= base:
        return True
    if body.producers is not None and not len(body.producers):
        return True
    try:
        relieved(body.volume.vital, partial(body.sync_snapshot, base, now_ms))
    except OSError as error:
        logger.error("a snapshot of producers in %s can't be kept: %s", body.folder, error)
        return body.volume.space.note(error, 0)
    except LogCorrupt as error:
        # Nobody will read that again: what it might have told of producers is lost already.
        logger.error("what %s tells of producers is damaged: %s", body.folder, error)
        return True
    try:
        body.volume.disk.sync_directory(body.folder)
    except OSError as error:
        if error.errno in NO_DESCRIPTOR:
            return False
        raise
    body.secured_offset = base
    return True


def drop_below(body: LogBody, new_start: int, *, log_end: int, due_ms: int) -> Iterator[int]:
    """Retire the segments that lie wholly below `new_start`; the bytes of each, as it goes.

    One that can't be retired is still a segment of the log, and so are all behind it.
    """
    while len(body.segments) > 1 and body.end_offset_of(0, log_end) <= new_start:
        segment = body.segments[0]
        retired_bytes = segment.size
        body.volume.trash.add(segment.retire(), due_ms)
        del body.segments[0]
        body.refresh()
        yield retired_bytes
    body.epochs.cut_start(new_start)
    # Who reads a segment again has to know where its damaged bytes end, wherever the log starts.
    bases = {segment.base_offset for segment in body.segments}
    kept = [
        damaged
        for damaged in body.damaged_ranges
        if damaged.end_offset > new_start or damaged.segment_base in bases
    ]
    if len(kept) != len(body.damaged_ranges):
        try:
            damage.write(body.volume.vital, body.folder, kept)
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
            return  # a note of what nobody can ask for any more: the next removal renews it
        body.damaged_ranges = kept
