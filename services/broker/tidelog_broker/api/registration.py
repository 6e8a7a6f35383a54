"""Puts the broker's services on a server, with readers and writers of our own for large messages.

A listener is registered here when it opens. Generated code would copy each batch on a stream three
times more than needed, and read whatever it is sent. Invariant: the calls, their names and their
bytes are those of the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import grpc

from tidelog.wire.envelopes import PRODUCE, Outgoing
from tidelog.wire.v1 import admin_pb2_grpc, broker_pb2_grpc
from tidelog_broker.api.request_limits import RequestLimit

if TYPE_CHECKING:
    from tidelog_broker.api.service import AdminService, BrokerService

#: The calls whose requests may be as large as the transport lets through.
CARRY_BATCHES: Final = ("Produce", "ProduceStream")


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
    """Registers every call of clients to brokers."""
    collected: Any = _Collected()
    broker_pb2_grpc.add_BrokerServicer_to_server(service, collected)
    for handlers in collected.handlers.values():
        produce, fetch = handlers["ProduceStream"], handlers["FetchStream"]
        handlers["ProduceStream"] = produce._replace(request_deserializer=PRODUCE.split)
        handlers["FetchStream"] = fetch._replace(response_serializer=Outgoing.to_bytes)
    _register(collected, server)


def add_admin_service(service: AdminService, server: grpc.aio.Server) -> None:
    """Registers every call of administration."""
    collected: Any = _Collected()
    admin_pb2_grpc.add_AdminServicer_to_server(service, collected)
    _register(collected, server)


def _register(collected: _Collected, server: grpc.aio.Server) -> None:
    for name, handlers in collected.handlers.items():
        for method, handler in handlers.items():
            limit = RequestLimit(carries_batches=method in CARRY_BATCHES)
            guarded = limit.guard(handler.request_deserializer)
            handlers[method] = handler._replace(request_deserializer=guarded)
        generic = grpc.method_handlers_generic_handler(name, handlers)
        server.add_generic_rpc_handlers((generic,))
        server.add_registered_method_handlers(name, handlers)
