"""The identity of a data directory: a uuid, written once, by which the cluster knows its disk.

The data directory reads it before anything else. The invariant: a directory that holds topics never
gets another one, since a disk that was swapped or emptied must not pass for the one it was.
"""

from __future__ import annotations

from typing import Final

from tidelog.errors import StorageError
from tidelog_broker.storage import checkpoints, names
from tidelog_broker.storage.frames import DamagedFile
from tidelog_runtime.disk import Disk

_WITHOUT_IDENTITY: Final = (
    "Restore the file from a copy: in an empty directory only what other brokers hold is made anew"
)


def read_or_make(disk: Disk, new_storage_uuid: bytes) -> bytes:
    """The directory's uuid; an empty directory takes this one. Raises StorageError."""
    if disk.exists(names.IDENTITY):
        try:
            return checkpoints.decode_identity(disk.read_bytes(names.IDENTITY), names.IDENTITY)
        except DamagedFile as damaged:
            raise StorageError(
                f"The file {names.IDENTITY!r} of the data directory is damaged",
                cause=str(damaged),
                hint=_WITHOUT_IDENTITY,
            ) from damaged
    if disk.exists(names.TOPICS) and disk.list_directory(names.TOPICS):
        raise StorageError(
            f"The data directory holds topics and has lost its file {names.IDENTITY!r}",
            hint=_WITHOUT_IDENTITY,
        )
    disk.replace(names.IDENTITY, checkpoints.encode_identity(new_storage_uuid))
    return new_storage_uuid
