"""The page that Prometheus scrapes, on a port of its own.

A few lines of HTTP on the node's own event loop: what is scraped are plain integers that this
loop counts, so nothing can change under the page while it is written.
"""

from __future__ import annotations

import asyncio
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from tidelog_runtime.adapters.grpc_serving import AddressUnavailable

REQUEST_BYTES_MAX: Final = 16 * 1024
REQUEST_LIMIT_S: Final = 10


class MetricsPage:
    """`/metrics` of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._server: asyncio.Server | None = None
        self.url = ""

    async def start(self, host: str, port: int) -> None:
        """Begins to answer; AddressUnavailable says why it can't."""
        try:
            self._server = await asyncio.start_server(
                self._answer, host, port, limit=REQUEST_BYTES_MAX
            )
        except OSError as error:
            raise AddressUnavailable(
                f"The metrics page can't be opened at {host}:{port}",
                cause=error.strerror or str(error),
                hint="Another program may hold the port: set metrics.port, or 0 for any free one",
            ) from error
        bound_host, bound_port = self._server.sockets[0].getsockname()[:2]
        shown = f"[{bound_host}]" if ":" in bound_host else bound_host
        self.url = f"http://{shown}:{bound_port}/metrics"

    async def stop(self) -> None:
        """Answers no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_LIMIT_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response_to(request))
                await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, ValueError):
            return  # a scraper that went away, or no HTTP at all: nobody is left to tell
        except asyncio.LimitOverrunError:
            writer.write(_http("431 Request Header Fields Too Large", "text/plain", b""))
        finally:
            writer.close()

    def _response_to(self, request: bytes) -> bytes:
        method, path, *_ = (*request.split(b"\r\n", 1)[0].split(b" "), b"", b"")
        if method not in (b"GET", b"HEAD"):
            return _http("405 Method Not Allowed", "text/plain", b"GET /metrics\n")
        if path.split(b"?")[0] not in (b"/metrics", b"/"):
            return _http("404 Not Found", "text/plain", b"Metrics stand at /metrics\n")
        page = generate_latest(self._registry)
        return _http("200 OK", CONTENT_TYPE_LATEST, page, with_body=method == b"GET")


def _http(status: str, content_type: str, body: bytes, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
