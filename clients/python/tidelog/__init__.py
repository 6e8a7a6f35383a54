"""Tidelog for Python: produce to, consume from and administer a Tidelog cluster.

Every name below is loaded when it is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidelog.version import __version__

if TYPE_CHECKING:
    from tidelog.admin.admin import Admin
    from tidelog.admin.async_admin import AsyncAdmin
    from tidelog.admin.descriptions import NewTopic
    from tidelog.consumer.async_consumer import AsyncConsumer
    from tidelog.consumer.batch import FetchedBatch
    from tidelog.consumer.consumer import Consumer
    from tidelog.consumer.decoding import UnreadableBatch
    from tidelog.consumer.record_types import ConsumerRecord
    from tidelog.engine.offsets import OffsetAndTimestamp
    from tidelog.errors import (
        BrokerUnreachable,
        BufferFull,
        ClientClosed,
        DeliveryExpired,
        ForkedClient,
        InvalidConfig,
        InvalidRequest,
        MessageTooLarge,
        OffsetOutOfRange,
        OutcomeUnknown,
        Refused,
        RequestTimedOut,
        RetriableError,
        SerializationFailed,
        TidelogError,
        TopicAlreadyExists,
        UnknownTopic,
        UnknownTopicId,
    )
    from tidelog.model import TopicPartition
    from tidelog.producer.async_producer import AsyncProducer
    from tidelog.producer.delivery import Deliveries, Delivery, Receipt
    from tidelog.producer.producer import Producer
    from tidelog.records.record import Record
    from tidelog.serializers import Serializer, json, none, utf8

# gRPC reads this when it is imported, by whichever module comes first. Its core would act at every
# fork, find its own threads at work, say on stderr that it can't, and let one child in twenty
# crash, also those that never touch it. What works after a fork is said in `tidelog.forking`.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

#: Where each public name lives.
_HOMES = {
    "tidelog.admin.admin": ("Admin",),
    "tidelog.admin.async_admin": ("AsyncAdmin",),
    "tidelog.admin.descriptions": ("NewTopic",),
    "tidelog.consumer.async_consumer": ("AsyncConsumer",),
    "tidelog.consumer.batch": ("FetchedBatch",),
    "tidelog.consumer.consumer": ("Consumer",),
    "tidelog.consumer.decoding": ("UnreadableBatch",),
    "tidelog.consumer.record_types": ("ConsumerRecord",),
    "tidelog.engine.offsets": ("OffsetAndTimestamp",),
    "tidelog.errors": (
        "BrokerUnreachable",
        "BufferFull",
        "ClientClosed",
        "DeliveryExpired",
        "ForkedClient",
        "InvalidConfig",
        "InvalidRequest",
        "MessageTooLarge",
        "OffsetOutOfRange",
        "OutcomeUnknown",
        "Refused",
        "RequestTimedOut",
        "RetriableError",
        "SerializationFailed",
        "TidelogError",
        "TopicAlreadyExists",
        "UnknownTopic",
        "UnknownTopicId",
    ),
    "tidelog.model": ("TopicPartition",),
    "tidelog.producer.async_producer": ("AsyncProducer",),
    "tidelog.producer.delivery": ("Deliveries", "Delivery", "Receipt"),
    "tidelog.producer.producer": ("Producer",),
    "tidelog.records.record": ("Record",),
    "tidelog.serializers": ("Serializer", "json", "none", "utf8"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "BrokerUnreachable",
    "BufferFull",
    "ClientClosed",
    "Consumer",
    "ConsumerRecord",
    "Deliveries",
    "Delivery",
    "DeliveryExpired",
    "FetchedBatch",
    "ForkedClient",
    "InvalidConfig",
    "InvalidRequest",
    "MessageTooLarge",
    "NewTopic",
    "OffsetAndTimestamp",
    "OffsetOutOfRange",
    "OutcomeUnknown",
    "Producer",
    "Receipt",
    "Record",
    "Refused",
    "RequestTimedOut",
    "RetriableError",
    "SerializationFailed",
    "Serializer",
    "TidelogError",
    "TopicAlreadyExists",
    "TopicPartition",
    "UnknownTopic",
    "UnknownTopicId",
    "UnreadableBatch",
    "__version__",
    "json",
    "none",
    "utf8",
]


# Type checkers must not see it: to them every misspelt name would be there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
        found = getattr(import_module(module), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
