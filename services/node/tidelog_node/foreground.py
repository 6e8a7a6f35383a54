"""Runs a node in this terminal until Ctrl-C, SIGTERM or SIGHUP: the work of `tidelog up`.

Flags, environment (`TIDELOG_...`) and a file are read into one `BrokerConfig`; the node itself is
put together in `node.py`. What it prints is for a person who wants to go on at once; `--json`
prints one line for a program instead.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tidelog.cli.flags import DEFAULT_BOOTSTRAP
from tidelog.cli.told_to_end import told_to_end
from tidelog.errors import InvalidConfig, StorageError, TidelogError
from tidelog.version import __version__
from tidelog_broker.broker import Progress
from tidelog_node.node import Node, check_addresses
from tidelog_node.progress import show_recovery
from tidelog_runtime.adapters.descriptors import raise_descriptor_limit
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.config import Setting, Source, SourceKind
from tidelog_runtime.configs.broker import BROKER_CONFIG, BrokerConfig
from tidelog_runtime.configs.endpoint import PORT_MAX, Endpoint, bare_host
from tidelog_runtime.configs.sources import (
    resolve_configuration,
    settings_from_flags,
    settings_from_pairs,
)
from tidelog_runtime.disk import Disk
from tidelog_runtime.memory import tune_allocator
from tidelog_runtime.structured_logs import configure_logging

LISTENERS: Final = "listeners"
#: How long a stop in order may take before a further signal ends it.
STOP_PATIENCE_S: Final = 5.0
PROGRAM: Final = "tidelog"
READY: Final = """\
tidelog {version}   data {place}   ready in {seconds:.2f} s
  bootstrap  {bootstrap}     metrics  {metrics}
  try        echo hello | {tidelog} console-producer{where} --topic greetings
             {tidelog} console-consumer{where} --topic greetings --from-beginning
  stop       Ctrl-C ({stays})"""


def _configuration(options: argparse.Namespace, data_dir: str | None) -> BrokerConfig:
    named = {
        "data.dir": data_dir,
        "metrics.port": options.metrics_port,
        "internal.port": options.internal_port,
    }
    flags = settings_from_pairs(options.config, flag="--config")
    flags += settings_from_flags({key: str(to) for key, to in named.items() if to is not None})
    config = _resolve(flags, options.config_file)
    if options.host is None and options.port is None:
        return config
    others = [setting for setting in flags if setting.name != LISTENERS]
    return _resolve([*others, _listeners(options, config.listener)], options.config_file)


def _listeners(options: argparse.Namespace, listener: Endpoint) -> Setting:
    """Where to listen, as --host and --port change it; a refusal of it names the flag."""
    if options.port is not None and not 0 <= options.port <= PORT_MAX:
        raise InvalidConfig(
            f"Invalid value '{options.port}' for flag --port",
            hint=f"Accepted: an integer from 0 to {PORT_MAX}; 0 takes any free port",
        )
    host = listener.host if options.host is None else options.host
    if ":" in host:  # brackets around anything else are refused with it
        host = bare_host(host)
    port = listener.port if options.port is None else options.port
    flag = "--port" if options.host is None else "--host"
    source = Source(SourceKind.FLAG, f"in flag {flag}")
    return Setting(LISTENERS, str(Endpoint(host, port)), source)


def _resolve(flags: Sequence[Setting], file: str | None) -> BrokerConfig:
    values = resolve_configuration(
        BROKER_CONFIG, flags=flags, environment=os.environ, file=Path(file) if file else None
    )
    return BrokerConfig.from_values(values)


def run(options: argparse.Namespace, make_disk: Callable[[str], Disk] | None) -> int:
    """Runs the node with the flags of `up`; see there."""
    # Until the node listens to signals itself, they end it as Ctrl-C does: a temporary directory
    # is removed then too.
    with told_to_end(), ExitStack() as stack:
        data_dir = options.data_dir
        if options.ephemeral:
            data_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-"))
        config = _configuration(options, data_dir)
        if config.memory_tune:
            tune_allocator()
        raise_descriptor_limit()
        configure_logging(_log_level(config), config.log_format)
        if not Path(config.data_dir).exists():
            # None is made for a start that ends at once.
            check_addresses(config)
        return asyncio.run(_serve(config, options, make_disk or LocalDisk))


def _log_level(config: BrokerConfig) -> str:
    """In a terminal only what went wrong is news, unless somebody asked for more."""
    by_default = config.values.source("log.level").kind is SourceKind.DEFAULT
    return "WARNING" if by_default and sys.stdout.isatty() else config.log_level


def seconds_since_start() -> float:
    """How long this process has lived, imports included: what a person has waited."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / ticks


async def _serve(
    config: BrokerConfig, options: argparse.Namespace, make_disk: Callable[[str], Disk]
) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    stop_or_leave = _StopOrLeave(stopped)
    for number in _stop_signals():
        # Not by the loop: that lets go of them when it closes, and more comes behind it.
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop_or_leave))
    try:
        return await _serve_until(stopped, config, options, make_disk)
    finally:
        _hear_no_more()


async def _serve_until(
    stopped: asyncio.Event,
    config: BrokerConfig,
    options: argparse.Namespace,
    make_disk: Callable[[str], Disk],
) -> int:
    shows_progress = sys.stderr.isatty() and not options.json
    node = await _start(config, make_disk, stopped, show_recovery if shows_progress else None)
    if node is None:
        return 0
    # What lives now lives until the end: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    try:
        _announce(node, options, seconds_since_start())
        await stopped.wait()
    finally:
        stopped_cleanly = await _stop(node)
    return 0 if stopped_cleanly and node.failure is None else 1


def _stop_signals() -> list[signal.Signals]:
    """What asks for an end in order. A closed terminal does, unless `nohup` has that ignored."""
    asked = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        asked.append(signal.SIGHUP)
    return asked


def _hear_no_more() -> None:
    """All is stopped: signals must not cut off the rest, such as removing a temporary directory.

    The process ends at once after this, so they are never heard again.
    """
    for number in _stop_signals():
        signal.signal(number, signal.SIG_IGN)


class _StopOrLeave:
    """What a signal does: the first asks for an end in order, which may wait for a disk.

    One that comes when this has taken long is obeyed at once; nothing acknowledged is lost by that,
    since for the data directory it is a kill -9. Those that come together are one.
    """

    def __init__(self, stopped: asyncio.Event) -> None:
        self._stopped = stopped
        self._first_at: float | None = None

    def __call__(self) -> None:
        now = time.monotonic()
        if self._first_at is None:
            self._first_at = now
            self._stopped.set()
        elif now - self._first_at >= STOP_PATIENCE_S:
            try:
                print(
                    "tidelog up: told again while it stops, so it ends at once; the next start"
                    " checks the logs",
                    file=sys.stderr,
                    flush=True,
                )
            finally:
                # A terminal that was closed takes no words, and that must not keep it here.
                os._exit(1)


async def _stop(node: Node) -> bool:
    """Takes the node down; False when a part could not, which its log line has told."""
    try:
        await node.stop()
    except ExceptionGroup as failures:
        for failure in failures.exceptions:
            print(f"tidelog up: it could not be stopped cleanly: {failure}", file=sys.stderr)
        return False
    return True


async def _start(
    config: BrokerConfig,
    make_disk: Callable[[str], Disk],
    stopped: asyncio.Event,
    progress: Progress | None,
) -> Node | None:
    """The node, serving; None when it was told to stop before that."""
    try:
        node = Node(config, make_disk(config.data_dir), on_failure=stopped.set)
        is_up = await _unless(stopped, node.start(progress))
    except OSError as error:
        raise StorageError(
            f"The data directory {config.data_dir} can't be used",
            cause=str(error),
            hint="Set data.dir to a directory that this user may write to, with space left",
        ) from error
    if not is_up and node.failure is not None:
        raise TidelogError(
            "The node could not start, since a part of it failed", cause=repr(node.failure)
        ) from node.failure
    return node if is_up else None


async def _unless(stopped: asyncio.Event, start: Coroutine[Any, Any, None]) -> bool:
    """Whether the start came to its end; it is given up, and undone, when it is to stop before."""
    starting = asyncio.create_task(start, name="start")
    stopping = asyncio.create_task(stopped.wait(), name="stop during the start")
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    # One that has ended by now isn't cancelled by this; what it raised is raised here.
    starting.cancel()
    stopping.cancel()
    await asyncio.wait({starting, stopping})
    if starting.cancelled():
        return False
    await starting
    return True


def _announce(node: Node, options: argparse.Namespace, seconds: float) -> None:
    if options.json:
        ready = {
            "bootstrap": node.bootstrap,
            "metrics": node.metrics_url,
            "data_dir": node.config.data_dir,
            "ready_s": round(seconds, 3),
            "pid": os.getpid(),
        }
        print(json.dumps(ready), flush=True)
        return
    place = "temporary" if options.ephemeral else node.config.data_dir
    print(
        READY.format(
            version=__version__,
            place=place,
            seconds=seconds,
            bootstrap=node.bootstrap,
            metrics=node.metrics_url,
            tidelog=_tidelog(),
            where=_where(node.bootstrap),
            stays="nothing stays" if options.ephemeral else "data stays; --ephemeral forgets it",
        ),
        flush=True,
    )


def _tidelog() -> str:
    """How a person calls us: if `tidelog` is not on the PATH, as after `make up`, as we were."""
    is_program = Path(sys.argv[0]).name == PROGRAM
    return sys.argv[0] if is_program and shutil.which(PROGRAM) is None else PROGRAM


def _where(bootstrap: str) -> str:
    """The flag that a person has to type, unless the address is the one that is tried anyway."""
    is_default = bootstrap.replace("127.0.0.1", "localhost") == DEFAULT_BOOTSTRAP
    return "" if is_default else f" --bootstrap-server {bootstrap}"
