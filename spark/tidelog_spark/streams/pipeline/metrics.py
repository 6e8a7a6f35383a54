"""A page of figures for Prometheus, served while a pipeline runs.

`running.py` opens it when the file names a `metrics_port`. Invariant: a request reads figures and
changes nothing; it never waits for Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final

from tidelog.errors import InvalidConfig
from tidelog_spark.streams.pipeline.figures import Figures

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

#: Series, kind, help, and how a sink's figure is read.
SERIES: Final[tuple[tuple[str, str, str, Callable[[Figures], float | None]], ...]] = (
    ("up", "gauge", "1 while the query of the sink runs", lambda one: one.state == "running"),
    ("batches_total", "counter", "batches since the start", lambda one: one.batches),
    ("rows_total", "counter", "rows read since the start", lambda one: one.rows),
    ("rows_per_second", "gauge", "rate of the last batch", lambda one: one.rows_a_second),
    ("batch_seconds", "gauge", "how long it took", lambda one: one.batch_ms / 1000),
    ("batch_id", "gauge", "number of the last batch", lambda one: one.batch),
    ("records_behind", "gauge", "records that wait in the topics", lambda one: one.behind),
    ("failures_total", "counter", "failures since the start", lambda one: one.failures),
)


def page(figures: Sequence[Figures]) -> str:
    """The page as Prometheus reads it."""
    lines = []
    for name, kind, words, read in SERIES:
        series = f"tidelog_streams_{name}"
        lines += [f"# HELP {series} {words}", f"# TYPE {series} {kind}"]
        for one in figures:
            value = read(one)
            if value is not None:
                labels = f'pipeline="{_escaped(one.pipeline)}",sink="{_escaped(one.sink)}"'
                lines.append(f"{series}{{{labels}}} {float(value):g}")
    return "\n".join(lines) + "\n"


@contextmanager
def served(port: int | None, figures: Sequence[Figures]) -> Iterator[int | None]:
    """Serves the page at this port (0 takes a free one) and yields the port; None serves none."""
    if port is None:
        yield None
        return

    class Page(BaseHTTPRequestHandler):
        """Answers every path with the page."""

        def do_GET(self) -> None:
            body = page(figures).encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_: object) -> None:
            """Scrapes are no news."""

    try:
        server = ThreadingHTTPServer(("", port), Page)
    except OSError as error:
        raise InvalidConfig(
            f"the metrics page cannot be served at port {port}: {error.strerror}"
        ) from None
    thread = Thread(target=server.serve_forever, name="metrics page", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
