"""Tidelog for Python: produce to, consume from and administer a Tidelog cluster.

Every name below is loaded when it is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidelog.version import __version__

if TYPE_CHECKING:
    from tidelog.errors import (
        BrokerUnreachable,
        BufferFull,
        ClientClosed,
        DeliveryExpired,
        ForkedClient,
        InvalidConfig,
        MessageTooLarge,
        OutcomeUnknown,
        Refused,
        RequestTimedOut,
        RetriableError,
        SerializationFailed,
        TidelogError,
        UnknownTopic,
    )
    from tidelog.model import TopicPartition
    from tidelog.producer.async_producer import AsyncProducer
    from tidelog.producer.delivery import Deliveries, Delivery, Receipt
    from tidelog.producer.producer import Producer
    from tidelog.records.record import Record
    from tidelog.serializers import Serializer, json, none, utf8

#: Where each public name lives.
_HOMES = {
    "tidelog.errors": (
        "BrokerUnreachable",
        "BufferFull",
        "ClientClosed",
        "DeliveryExpired",
        "ForkedClient",
        "InvalidConfig",
        "MessageTooLarge",
        "OutcomeUnknown",
        "Refused",
        "RequestTimedOut",
        "RetriableError",
        "SerializationFailed",
        "TidelogError",
        "UnknownTopic",
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
    "AsyncProducer",
    "BrokerUnreachable",
    "BufferFull",
    "ClientClosed",
    "Deliveries",
    "Delivery",
    "DeliveryExpired",
    "ForkedClient",
    "InvalidConfig",
    "MessageTooLarge",
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
    "TopicPartition",
    "UnknownTopic",
    "__version__",
    "json",
    "none",
    "utf8",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
    found = getattr(import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
