"""The table of a node's own keys; what its topics inherit is derived in `broker` from their keys.

Every key here is honoured by some service. Defaults make one node work with no configuration.
"""

from __future__ import annotations

from typing import Final

from tidelog_runtime.config import INT_MAX, ConfigKey, ConfigType

MIB: Final = 1 << 20
_PORT_MAX: Final = 65_535

IDENTITY_KEYS: Final = (
    ConfigKey(
        "node.id",
        ConfigType.INT,
        1,
        "The number of this node in its cluster; it stays with the data directory.",
        minimum=0,
        aliases=("broker.id",),
    ),
    ConfigKey(
        "data.dir",
        ConfigType.STRING,
        "tidelog-data",
        "The one directory that holds everything this node stores.",
        aliases=("log.dir", "log.dirs"),
    ),
    ConfigKey(
        "listeners",
        ConfigType.STRING,
        "127.0.0.1:9094",
        "Where clients connect: host:port. Port 0 takes a free one.",
    ),
    ConfigKey(
        "advertised.listeners",
        ConfigType.STRING,
        "",
        "The host:port that clients are told, where it differs from listeners.",
    ),
    ConfigKey(
        "internal.port",
        ConfigType.INT,
        9_096,
        "Where the other services of the cluster connect, on the listeners' host. 0: a free one.",
        minimum=0,
        maximum=_PORT_MAX,
    ),
    ConfigKey(
        "metrics.port",
        ConfigType.INT,
        9_095,
        "Where Prometheus scrapes, on the listeners' host. 0: a free one.",
        minimum=0,
        maximum=_PORT_MAX,
    ),
)

DURABILITY_KEYS: Final = (
    ConfigKey(
        "flush.policy",
        ConfigType.STRING,
        "commit",
        "When an acknowledged record is on the disk: at once (commit), every flush.ms (interval)"
        " or when the operating system likes (os). One policy for the whole cluster.",
        choices=("commit", "interval", "os"),
    ),
    ConfigKey(
        "flush.ms",
        ConfigType.DURATION,
        1_000,
        "How often flush.policy=interval flushes.",
        minimum=1,
    ),
    ConfigKey(
        "producer.id.expiration.ms",
        ConfigType.DURATION,
        86_400_000,
        "How long a silent producer is remembered, so that its repeats are recognised.",
        minimum=1,
    ),
    ConfigKey(
        "max.producer.ids.per.partition",
        ConfigType.INT,
        20_000,
        "So many producers are remembered a partition; past it those that were silent for longest"
        " are forgotten.",
        minimum=10,
    ),
    ConfigKey(
        "log.retention.check.interval.ms",
        ConfigType.DURATION,
        300_000,
        "How often old segments are looked for.",
        minimum=1,
    ),
    ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms",
        ConfigType.DURATION,
        5_000,
        "How often the high watermarks are written to the disk.",
        minimum=1,
    ),
    ConfigKey(
        "max.open.files",
        ConfigType.INT,
        10_000,
        "How many segment files are kept open; the least recently used are closed beyond that.",
        minimum=16,
    ),
)

TOPIC_KEYS: Final = (
    ConfigKey(
        "auto.create.topics.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether a produce to an unknown topic creates it.",
    ),
    ConfigKey(
        "delete.topic.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether topics may be deleted.",
    ),
    ConfigKey(
        "num.partitions",
        ConfigType.INT,
        1,
        "How many partitions a topic gets that does not ask for a number.",
        minimum=1,
    ),
    ConfigKey(
        "default.replication.factor",
        ConfigType.INT,
        1,
        "How many replicas a partition gets whose topic does not ask for a number.",
        minimum=1,
        maximum=32_767,
    ),
)

LIMIT_KEYS: Final = (
    ConfigKey(
        "socket.request.max.bytes",
        ConfigType.SIZE,
        100 * MIB,
        "The largest request that is read.",
        minimum=1,
        maximum=INT_MAX,
    ),
    ConfigKey(
        "fetch.max.bytes",
        ConfigType.SIZE,
        55 * MIB,
        "The most that one fetch is answered with.",
        minimum=1_024,
        maximum=INT_MAX,
    ),
    ConfigKey(
        "queued.max.request.bytes",
        ConfigType.SIZE,
        256 * MIB,
        "How much produced data may wait for its acknowledgement before producers are held up.",
        minimum=1,
    ),
    ConfigKey(
        "max.concurrent.rpcs",
        ConfigType.INT,
        10_000,
        "How many calls and streams a listener serves at once; more are refused until some end."
        " Checks of health have places of their own.",
        minimum=1,
    ),
    ConfigKey(
        "memory.tune",
        ConfigType.BOOLEAN,
        True,
        "Whether the memory allocator is tuned for large messages when the process starts.",
    ),
    ConfigKey(
        "log.level",
        ConfigType.STRING,
        "INFO",
        "The least severe messages that are logged. In a terminal WARNING, unless it is set.",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
    ),
    ConfigKey(
        "log.format",
        ConfigType.STRING,
        "text",
        "How messages are logged: for people (text) or for machines (json).",
        choices=("text", "json"),
    ),
)

NODE_KEYS: Final = (*IDENTITY_KEYS, *DURABILITY_KEYS, *TOPIC_KEYS, *LIMIT_KEYS)
