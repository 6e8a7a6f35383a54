"""The names of files and folders in a data directory; nobody else builds or parses a path.

    lock  identity  clean  watermarks  journal-<number>
    topics/<topic id>/name
    topics/<topic id>/<partition>/<base offset>.{log,index,timeindex}
    topics/<topic id>/<partition>/<base offset>.log.<number>.aside
    topics/<topic id>/<partition>/<offset>.snapshot  leader-epochs  damaged

Paths are built from ids and numbers alone, never from a name a client chose.
"""

from __future__ import annotations

from typing import Final

from tidelog.model import PartitionId, TopicId

LOCK: Final = "lock"
IDENTITY: Final = "identity"
CLEAN_MARKER: Final = "clean"
WATERMARKS: Final = "watermarks"
TOPICS: Final = "topics"
TOPIC_NAME: Final = "name"
LEADER_EPOCHS: Final = "leader-epochs"
DAMAGED: Final = "damaged"

#: What can't be read is renamed to end so, and left to whoever wants to look at it.
UNREADABLE: Final = ".unreadable"
#: What nothing proves, and nothing disproves, is renamed to end so and left to who looks after it.
ASIDE: Final = ".aside"
#: What is renamed to end so is no longer there; the space is given back later.
DELETED: Final = ".deleted"
TEMPORARY: Final = ".tmp"

_JOURNAL: Final = "journal-"
_OFFSET_DIGITS: Final = 20


def journal(number: int) -> str:
    """The journal file of this number; each new one replaces its predecessor."""
    return f"{_JOURNAL}{number:010d}"


def journal_number(name: str) -> int | None:
    """The number in a journal's name; None for another file."""
    digits = name.removeprefix(_JOURNAL)
    return int(digits) if name != digits and digits.isdecimal() else None


def topic_folder(topic_id: TopicId) -> str:
    """Where the partitions of a topic are."""
    return f"{TOPICS}/{topic_id.hex()}"


def partition_folder(partition_id: PartitionId) -> str:
    """Where one partition is."""
    return f"{TOPICS}/{partition_id.topic_id.hex()}/{partition_id.partition}"


def topic_id_of(name: str) -> TopicId | None:
    """The topic id a folder is named after; None for another folder."""
    if len(name) != 32:
        return None
    try:
        topic_id = bytes.fromhex(name)
    except ValueError:
        return None
    return TopicId(topic_id) if topic_id.hex() == name else None


def partition_of(name: str) -> int | None:
    """The partition a folder is named after; None for another file or folder."""
    return int(name) if name.isdecimal() and name.isascii() and str(int(name)) == name else None


def stem(folder: str, offset: int) -> str:
    """The path of a segment without its ending."""
    return f"{folder}/{offset:0{_OFFSET_DIGITS}d}"


def offset_of(name: str, ending: str) -> int | None:
    """The offset in the name of a segment or snapshot file; None for another file."""
    digits = name.removesuffix(ending)
    if name == digits or len(digits) != _OFFSET_DIGITS or not digits.isdecimal():
        return None
    return int(digits)
