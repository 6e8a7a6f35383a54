"""`tidelog dump-log`: prints what segment files hold, as kafka-dump-log does.

Reads the files themselves, so it needs no running broker and changes nothing. A segment is record
batches one after the other and nothing else; what is no whole batch is reported, never guessed at.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tidelog.cli.dumped_batch import batches_of_file
from tidelog.cli.flags import VerbParser, whole_number
from tidelog.errors import InvalidRequest

EXAMPLES: Final = """\
  tidelog dump-log --files tidelog-data/topics/<topic id>/0/00000000000000000000.log
  tidelog dump-log --print-data-log --files tidelog-data/topics/<topic id>/0
"""
LOG: Final = ".log"


def _parser() -> VerbParser:
    parser = VerbParser("dump-log", "Prints the batches and records of log files.", EXAMPLES)
    parser.add_argument(
        "--files",
        metavar="FILE[,FILE]",
        help="segment files (.log), or folders with such files (required)",
    )
    parser.add_argument(
        "--deep-iteration", action="store_true", help="print a line for each record as well"
    )
    parser.add_argument(
        "--print-data-log", action="store_true", help="print keys and values too (implies the same)"
    )
    parser.add_argument(
        "--skip-record-metadata", action="store_true", help="with it, print nothing but those"
    )
    parser.add_argument(
        "--max-bytes",
        type=whole_number(least=1),
        metavar="N",
        help="stop after this many bytes of each file",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for each batch")
    return parser


def main(arguments: Sequence[str]) -> int:
    """1 when a file held something that is no valid batch, 0 otherwise."""
    parser = _parser()
    options = parser.parse(arguments)
    parser.require(options, "--files")
    parser.refuse_together(options, "--json", "--skip-record-metadata")
    if options.skip_record_metadata and not options.print_data_log:
        parser.error("--skip-record-metadata leaves nothing out without --print-data-log")
    found_damage = False
    for file in _segments(options.files):
        found_damage |= _dump_as_json(file, options) if options.json else _dump(file, options)
    return 1 if found_damage else 0


def _segments(files: str) -> Iterator[Path]:
    names = [part.strip() for part in files.split(",")]
    if not any(names):
        raise InvalidRequest(
            f"--files {files!r} names no file", hint="Name a .log file or a folder"
        )
    for name in filter(None, names):
        path = Path(name)
        if path.is_dir():
            found = (one for one in path.rglob(f"*{LOG}") if one.stem.isdecimal())
            inside = sorted(one for one in found if one.is_file())
            if not inside:
                raise InvalidRequest(f"The folder {name!r} holds no segments")
            yield from inside
        elif not path.exists():
            raise InvalidRequest(
                f"There is no file {name!r}",
                hint="Segments lie in the data directory under topics/<topic id>/<partition>",
            )
        elif path.suffix != LOG:
            raise InvalidRequest(
                f"{name!r} is no segment",
                hint=f"Name a {LOG} file: all that indexes and snapshots hold is made from those",
            )
        else:
            yield path


def _wants_records(options: argparse.Namespace) -> bool:
    return bool(options.deep_iteration or options.print_data_log)


def _dump(file: Path, options: argparse.Namespace) -> bool:
    print(f"Dumping {file}")
    if file.stem.isdecimal():
        print(f"Log starting offset: {int(file.stem)}")
    found_damage = False
    next_offset: int | None = None
    end = 0
    for batch in batches_of_file(file, options.max_bytes):
        print(batch.line())
        end = batch.position + batch.header.size
        found_damage |= not batch.is_valid
        for record in batch.records() if _wants_records(options) else ():
            if next_offset is not None and record.offset != next_offset:
                print(f"Non-consecutive offsets in {file}", file=sys.stderr)
                print(f"  {next_offset - 1} is followed by {record.offset}", file=sys.stderr)
            next_offset = record.offset + 1
            line = batch.record_line(
                record,
                with_data=options.print_data_log,
                with_metadata=not options.skip_record_metadata,
            )
            sys.stdout.flush()
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
    return _report_rest(file, end, options) or found_damage


def _report_rest(file: Path, end: int, options: argparse.Namespace) -> bool:
    rest = file.stat().st_size - end
    if rest <= 0 or options.max_bytes is not None:
        return False
    words = f"Found {rest} invalid bytes at the end of {file.name}"
    print(words, file=sys.stderr if options.json else sys.stdout)
    return True


def _dump_as_json(file: Path, options: argparse.Namespace) -> bool:
    found_damage = False
    end = 0
    for batch in batches_of_file(file, options.max_bytes):
        shown = batch.as_json(
            with_records=_wants_records(options), with_data=options.print_data_log
        )
        print(json.dumps({"file": str(file)} | shown, ensure_ascii=False))
        end = batch.position + batch.header.size
        found_damage |= not batch.is_valid
    return _report_rest(file, end, options) or found_damage
