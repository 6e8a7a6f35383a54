"""What an operator may set about storage: per topic (`LogConfig`) and per broker (`StorageConfig`).

Names are Kafka's in snake_case. Everything here is read by the code of this package; a topic
config that storage does not act on has no place in it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class FlushPolicy(enum.Enum):
    """When a write may be acknowledged; one for the whole cluster."""

    #: After a group commit made it durable: survives power loss.
    COMMIT = "commit"
    #: At once; a background sync follows every `flush_ms`.
    INTERVAL = "interval"
    #: At once; the operating system writes when it likes. Replication is the durability.
    OS = "os"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one topic that its logs obey; may be replaced while a log is open."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    #: -1 keeps records for ever.
    retention_ms: int = 7 * 24 * 3600 * 1000
    #: -1 sets no limit.
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    max_message_bytes: int = 1_048_588


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """The settings of one data directory."""

    flush_policy: FlushPolicy = FlushPolicy.COMMIT
    #: How often `FlushPolicy.INTERVAL` syncs.
    flush_ms: int = 1000
    #: Log files kept open at most; half of the process's descriptor limit is a good value.
    max_open_files: int = 10_000
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    #: Producers remembered a partition: an id costs a client nothing, and half a kilobyte here.
    producer_ids_max: int = 20_000
    #: Producer state is written after so many bytes: the most that recovery has to replay.
    snapshot_interval_bytes: int = 16 << 20
    #: The journal is begun anew past this size.
    journal_bytes: int = 8 << 20
    #: Appends are refused below this much free space (or 5 % of a small volume).
    free_bytes_min: int = 256 << 20
    #: With more dirty files than this, a volume of our own is synced as a whole.
    whole_volume_sync_files: int = 8
