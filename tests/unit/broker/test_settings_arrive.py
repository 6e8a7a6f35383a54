"""What an operator sets arrives where it is used; each key has another number here."""

from __future__ import annotations

from tidelog_broker.broker import storage_config
from tidelog_broker.partition.assignments import Settings
from tidelog_broker.storage import LogConfig, StorageConfig
from tidelog_broker.storage.config import FlushPolicy
from tidelog_runtime.configs.broker import default_broker_config


def test_the_settings_of_a_broker_reach_its_data_directory() -> None:
    config = default_broker_config(
        flush_policy="interval",
        flush_ms="7",
        max_open_files="77",
        producer_id_expiration_ms="777",
        max_producer_ids_per_partition="7777",
    )
    assert storage_config(config) == StorageConfig(
        flush_policy=FlushPolicy.INTERVAL,
        flush_ms=7,
        max_open_files=77,
        producer_id_expiration_ms=777,
        producer_ids_max=7777,
    )


def test_the_settings_of_a_topic_reach_its_logs_and_what_leaders_check() -> None:
    settings = Settings(
        default_broker_config().topic_config(
            {
                "segment.bytes": "2000001",
                "segment.ms": "2",
                "index.interval.bytes": "3",
                "retention.ms": "4",
                "retention.bytes": "5",
                "file.delete.delay.ms": "6",
                "max.message.bytes": "7",
                "message.timestamp.type": "LogAppendTime",
                "message.timestamp.after.max.ms": "8",
                "min.insync.replicas": "9",
            }
        )
    )
    assert settings.log == LogConfig(
        segment_bytes=2_000_001,
        segment_ms=2,
        index_interval_bytes=3,
        retention_ms=4,
        retention_bytes=5,
        file_delete_delay_ms=6,
        max_message_bytes=7,
    )
    limits = settings.limits
    assert (limits.max_message_bytes, limits.timestamp_after_max_ms) == (7, 8)
    assert limits.log_append_time
    assert settings.min_in_sync == 9
