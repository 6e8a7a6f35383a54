"""Puts the broker's service on a server, with readers and writers of our own for large messages.

A listener is registered here when it opens. Generated code would copy each batch on a stream three
times more than needed. Invariant: the calls, their names and their bytes are those of the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import grpc

from tidelog.wire.envelopes import PRODUCE, Outgoing
from tidelog.wire.v1 import broker_pb2_grpc

if TYPE_CHECKING:
    from tidelog_broker.api.service import BrokerService


class _Collected:
    """A server that only writes down what the generated code registers."""

    def __init__(self) -> None:
        self.handlers: dict[str, dict[str, Any]] = {}

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """The same handlers in a form that can't be asked for their names."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """The handlers of a service by method."""
        self.handlers[service] = dict(handlers)


def add_broker_service(service: BrokerService, server: grpc.aio.Server) -> None:
    """Registers every call of the service."""
    collected: Any = _Collected()
    broker_pb2_grpc.add_BrokerServicer_to_server(service, collected)
    for name, handlers in collected.handlers.items():
        produce, fetch = handlers["ProduceStream"], handlers["FetchStream"]
        handlers["ProduceStream"] = produce._replace(request_deserializer=PRODUCE.split)
        handlers["FetchStream"] = fetch._replace(response_serializer=Outgoing.to_bytes)
        generic = grpc.method_handlers_generic_handler(name, handlers)
        server.add_generic_rpc_handlers((generic,))
        server.add_registered_method_handlers(name, handlers)
