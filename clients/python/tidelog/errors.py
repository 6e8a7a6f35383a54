"""The one table of errors: wire code, class, and what a caller may do about it.

Every failure that crosses a wire has a code (Kafka's numbers and names where the concept is the
same), every code has one class here, and a test proves that table, classes and `common.proto`
agree. A class says three things beside its message: may the same call be repeated
(`retriable`), should the caller first refresh what it knows of the cluster
(`refresh_metadata`), and may the write have happened although it failed (`outcome_unknown`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from tidelog.producer.delivery import Deliveries


class TidelogError(Exception):
    """The root of every error that Tidelog raises.

    `message` says what happened and with which value, `cause` what lay below it, `hint` what to
    do about it.
    """

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    refresh_metadata: ClassVar[bool] = False
    outcome_unknown: ClassVar[bool] = False
    #: When a call of many records failed on its way: the handle of those that it had taken.
    taken: Deliveries | None = None

    def __init__(self, message: str = "", *, cause: str = "", hint: str = "") -> None:
        super().__init__(message or type(self).default_message())
        self.message = message or type(self).default_message()
        self.cause = cause
        self.hint = hint

    @classmethod
    def default_message(cls) -> str:
        """The first line of the class's docstring: better than nothing to say."""
        return (cls.__doc__ or cls.__name__).strip().split("\n", 1)[0]

    def __str__(self) -> str:
        parts = [self.message]
        if self.cause:
            parts.append(f"Cause: {self.cause}")
        if self.hint:
            parts.append(self.hint)
        return " ".join(part if part.endswith((".", "?", "!")) else part + "." for part in parts)


class Refused(TidelogError):
    """The call was refused; a record it carried was certainly not written."""


class RetriableError(TidelogError):
    """The call failed for a passing reason and may be repeated as it is."""

    retriable = True


class StaleMetadataError(RetriableError):
    """The caller's view of the cluster is out of date: refresh it, then repeat."""

    refresh_metadata = True


class UnknownServerError(TidelogError):
    """The server failed in a way it did not expect; its log has the story."""

    code = -1
    outcome_unknown = True


class OffsetOutOfRange(Refused):
    """The offset lies outside the log: below its start or above its end."""

    code = 1


class CorruptMessage(Refused):
    """The bytes are not the record batch they claim to be."""

    code = 2


class UnknownTopic(Refused):
    """The topic or partition does not exist."""

    code = 3
    refresh_metadata = True


class LeaderNotAvailable(StaleMetadataError):
    """The partition has no leader at this moment."""

    code = 5


class NotLeader(StaleMetadataError):
    """This broker does not lead the partition."""

    code = 6


class RequestTimedOut(RetriableError):
    """The time limit passed before the outcome was known."""

    code = 7
    outcome_unknown = True


class MessageTooLarge(Refused):
    """The batch is larger than max.message.bytes of its topic."""

    code = 10


class CoordinatorNotAvailable(RetriableError):
    """No coordinator serves this group or transaction at this moment."""

    code = 15


class InvalidTopic(Refused):
    """The topic name is not allowed, or the topic is closed to clients."""

    code = 17


class RecordListTooLarge(Refused):
    """The request is larger than socket.request.max.bytes allows."""

    code = 18


class NotEnoughReplicas(RetriableError):
    """Fewer replicas are in sync than min.insync.replicas asks for; nothing was written."""

    code = 19


class NotEnoughReplicasAfterAppend(RetriableError):
    """The batch was written, but too few replicas are in sync to promise that it stays."""

    code = 20
    outcome_unknown = True


class InvalidRequiredAcks(Refused):
    """acks is neither 0, 1 nor all."""

    code = 21


class TopicAuthorizationFailed(Refused):
    """The caller may not do this to this topic."""

    code = 29


class ClusterAuthorizationFailed(Refused):
    """The caller may not do this to the cluster."""

    code = 31


class InvalidTimestamp(Refused):
    """The timestamp of a record lies outside what the topic accepts."""

    code = 32


class UnsupportedVersion(Refused):
    """The two sides speak no common version of the protocol."""

    code = 35


class TopicAlreadyExists(Refused):
    """A topic of this name exists already."""

    code = 36


class InvalidPartitions(Refused):
    """The number of partitions is not possible."""

    code = 37


class InvalidReplicationFactor(Refused):
    """The replication factor is not possible with the brokers that live."""

    code = 38


class InvalidReplicaAssignment(Refused):
    """The assignment of replicas to brokers is not possible."""

    code = 39


class InvalidConfig(Refused):
    """A configuration key or value is not valid."""

    code = 40


class NotController(StaleMetadataError):
    """This controller is not the active one."""

    code = 41


class InvalidRequest(Refused):
    """The request contradicts itself or lacks what it needs."""

    code = 42


class OutOfOrderSequence(Refused):
    """A producer's batch does not follow its previous one: a batch between them is missing."""

    code = 45


class InvalidProducerEpoch(Refused):
    """A newer session of this producer exists; this one is fenced."""

    code = 47


class InvalidTransactionState(Refused):
    """The transaction is not in a state that allows this."""

    code = 48


class StorageError(RetriableError):
    """The broker could not read or write the log on its disk."""

    code = 56
    refresh_metadata = True


class UnknownProducerId(Refused):
    """The broker no longer knows this producer."""

    code = 59


class TopicDeletionDisabled(Refused):
    """delete.topic.enable is false on this cluster."""

    code = 73


class FencedLeaderEpoch(StaleMetadataError):
    """The caller knows an older leader of the partition than the present one."""

    code = 74


class UnknownLeaderEpoch(RetriableError):
    """The caller knows a newer leader than this broker has heard of yet."""

    code = 75


class UnsupportedCompression(Refused):
    """The compression is not one of none, gzip, snappy, lz4 and zstd."""

    code = 76


class OffsetNotAvailable(RetriableError):
    """The new leader does not yet know how far the log is committed."""

    code = 78


class InvalidRecord(Refused):
    """A record breaks a rule of its topic."""

    code = 87


class ThrottlingQuotaExceeded(RetriableError):
    """The caller uses more than its share; wait and repeat."""

    code = 89


class TooManyCalls(ThrottlingQuotaExceeded):
    """The broker serves as many calls as max.concurrent.rpcs allows; this one did not begin."""


class UnknownTopicId(StaleMetadataError):
    """No topic has this id: it was deleted, or created anew under the same name."""

    code = 100


class ShuttingDown(StaleMetadataError):
    """The broker is shutting down and takes no new work."""

    code = 1000


class DiskFull(RetriableError):
    """The broker's disk is full: it serves reads and takes writes again once there is space."""

    code = 1001


class LogCorrupt(StorageError):
    """A range of the log is damaged on this broker's disk and is not served from it."""

    code = 1002
    retriable = False
    #: Where reading can go on: `consumer.skip(error)` does so. None where nobody knows.
    next_offset: int | None = None
    #: The partition that a consumer was reading.
    topic: str = ""
    partition: int = -1


class BrokerUnreachable(RetriableError):
    """No connection to a broker could be had."""

    refresh_metadata = True


class OutcomeUnknown(TidelogError):
    """The record may have been written or not: nobody could say in time."""

    outcome_unknown = True


class DeliveryExpired(Refused):
    """The record's deadline passed before it was ever sent."""


class BufferFull(Refused):
    """The producer holds as many unsent records as buffer_memory allows."""


class ClientClosed(Refused):
    """The client was closed; make a new one."""


class ForkedClient(Refused):
    """The parent of this process had made clients when it forked: none can work here."""


class SerializationFailed(Refused):
    """A key or value could not be turned into bytes, or back."""


def _all_below(root: type[TidelogError]) -> list[type[TidelogError]]:
    found = []
    for below in root.__subclasses__():
        found += [below, *_all_below(below)]
    return found


#: Wire code to class. Families (`Refused`, `RetriableError`, ...) set no code and do not appear.
BY_CODE: dict[int, type[TidelogError]] = {
    cls.code: cls for cls in _all_below(TidelogError) if "code" in vars(cls)
}


def error_from_wire(code: int, message: str, *, cause: str = "", hint: str = "") -> TidelogError:
    """The exception for an error that came over the wire; unknown codes stay readable."""
    cls = BY_CODE.get(code)
    if cls is None:
        return TidelogError(
            message or f"The server answered with error code {code}",
            cause=cause,
            hint=hint or f"This client does not know code {code}; a newer one may",
        )
    return cls(message, cause=cause, hint=hint)
