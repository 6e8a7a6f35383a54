"""Names that people bring along from Kafka and that have no effect here yet.

Each is refused in words where somebody sets it: a setting that is accepted and does nothing would
be found out on the worst of days. A key moves from here to `topic` or `broker` when it is honoured.
"""

from __future__ import annotations

from typing import Final

_LATER: Final = "Known from Kafka, not supported yet: remove it"


def _later(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, _LATER)


def _instead(**replacements: str) -> dict[str, str]:
    return {
        name.replace("_", "."): f"Known from Kafka, not supported here: {words}"
        for name, words in replacements.items()
    }


TOPIC_NAMES_FOR_LATER: Final[dict[str, str]] = {
    **_later(
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "delete.retention.ms",
        "errors.deadletterqueue.topic.name",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "segment.index.bytes",
        "segment.jitter.ms",
        "unclean.leader.election.enable",
    ),
    **_instead(
        flush_messages="the whole cluster has one flush.policy, set on its brokers",
        flush_ms="the whole cluster has one flush.policy, set on its brokers",
    ),
}

BROKER_NAMES_FOR_LATER: Final[dict[str, str]] = {
    **_later(
        "authorizer.class.name",
        "auto.leader.rebalance.enable",
        "background.threads",
        "broker.heartbeat.interval.ms",
        "broker.rack",
        "broker.session.timeout.ms",
        "client.quota.callback.class",
        "connections.max.idle.ms",
        "connections.max.reauth.ms",
        "controlled.shutdown.enable",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.election.timeout.ms",
        "controller.quorum.fetch.timeout.ms",
        "controller.quorum.voters",
        "group.consumer.assignment.interval.ms",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.session.timeout.ms",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "group.share.delivery.count.limit",
        "group.share.record.lock.duration.ms",
        "inter.broker.listener.name",
        "leader.imbalance.check.interval.seconds",
        "leader.imbalance.per.broker.percentage",
        "listener.security.protocol.map",
        "log.cleaner.enable",
        "log.cleaner.threads",
        "log.message.timestamp.before.max.ms",
        "log.preallocate",
        "log.roll.jitter.ms",
        "max.connections",
        "max.connections.per.ip",
        "max.incremental.fetch.session.cache.slots",
        "metadata.log.dir",
        "metric.reporters",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "offset.metadata.max.bytes",
        "offsets.retention.minutes",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        "process.roles",
        "queued.max.requests",
        "quota.window.num",
        "quota.window.size.seconds",
        "remote.log.storage.system.enable",
        "replica.fetch.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.lag.time.max.ms",
        "replica.selector.class",
        "sasl.enabled.mechanisms",
        "security.inter.broker.protocol",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "ssl.keystore.location",
        "ssl.truststore.location",
        "transaction.max.timeout.ms",
        "transaction.state.log.min.isr",
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transactional.id.expiration.ms",
        "unclean.leader.election.enable",
        "zookeeper.connect",
    ),
    **_instead(
        advertised_host_name="set advertised.listeners",
        advertised_port="set advertised.listeners",
        host_name="set listeners",
        log_flush_interval_messages="set flush.policy",
        log_flush_interval_ms="set flush.policy=interval and flush.ms",
        log_flush_offset_checkpoint_interval_ms="every commit is journalled",
        log_flush_scheduler_interval_ms="set flush.policy=interval and flush.ms",
        log_retention_hours="set log.retention.ms, which also takes '168 h'",
        log_retention_minutes="set log.retention.ms, which also takes '90 m'",
        log_roll_hours="set log.roll.ms, which also takes '168 h'",
        port="set listeners",
    ),
}
