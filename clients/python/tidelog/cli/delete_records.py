"""`tidelog delete-records`: deletes records below offsets, which a JSON file names.

Kafka's file and Kafka's lines: each partition is told with its first offset that is left, or with
its error; an error of one does not stop the others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.client_settings import connection
from tidelog.cli.flags import VerbParser
from tidelog.engine.partition_names import LARGEST_PARTITION
from tidelog.errors import InvalidRequest, TidelogError
from tidelog.model import TopicPartition
from tidelog.nearest import did_you_mean

if TYPE_CHECKING:
    from tidelog.admin.admin import Admin

EXAMPLES: Final = """\
  echo '{"partitions": [{"topic": "orders", "partition": 0, "offset": 42}], "version": 1}' > f.json
  tidelog delete-records --offset-json-file f.json
"""
FORM: Final = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 42}], "version": 1}'
VERSION: Final = 1
#: In the file: everything below the high watermark.
HIGH_WATERMARK: Final = -1
LARGEST_OFFSET: Final = 2**63 - 1


def _parser() -> VerbParser:
    parser = VerbParser("delete-records", "Deletes the records below given offsets.", EXAMPLES)
    parser.add_connection()
    parser.add_argument(
        "--offset-json-file",
        metavar="FILE",
        help=f"the offsets, -1 for all there is now (required): {FORM}",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main(arguments: Sequence[str]) -> int:
    """0 when every partition was done."""
    parser = _parser()
    options = parser.parse(arguments)
    parser.require(options, "--offset-json-file")
    offsets = parse_offsets(_text(options.offset_json_file))

    from tidelog.admin.admin import Admin  # noqa: PLC0415 - grpc is slow to import
    from tidelog.admin.settings import AdminSettings  # noqa: PLC0415

    where = connection(options, AdminSettings, client_id="tidelog-delete-records")
    where.reach()
    with Admin(where.bootstrap, **where.settings) as admin:
        if not options.json:
            print("Executing records delete operation", flush=True)
        outcomes = {partition: _delete(admin, partition, at) for partition, at in offsets.items()}
    _print(outcomes, as_json=options.json)
    return 1 if any(isinstance(outcome, TidelogError) for outcome in outcomes.values()) else 0


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidRequest(
            f"The file {file!r} can't be read", cause=cause or "", hint=f"It holds {FORM}"
        ) from error


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """The offsets of a file by partition; InvalidRequest says what is wrong with it."""
    try:
        read = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:  # also of numbers of thousands of digits
        raise InvalidRequest(
            "The offset file is no JSON", cause=str(error), hint=f"It holds {FORM}"
        ) from error
    if isinstance(read, dict):
        _check_keys(read, ("partitions", "version"), "the offset file")
    if not isinstance(read, dict) or not isinstance(read.get("partitions"), list):
        raise InvalidRequest("The offset file has no list of partitions", hint=f"It holds {FORM}")
    version = read.get("version", VERSION)
    if type(version) is not int or version != VERSION:  # true and 1.0 are as much as 1 to Python
        raise InvalidRequest(f"The offset file has version {version!r:.80}, not {VERSION}")
    offsets: dict[TopicPartition, int] = {}
    for entry in read["partitions"]:
        partition, offset = _entry(entry)
        if partition in offsets:
            raise InvalidRequest(
                f"Offset json file contains duplicate topic partitions: {partition}"
            )
        offsets[partition] = offset
    return offsets


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"The offset file gives {twice!r:.80} twice for the same thing")
    return found


def _check_keys(given: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    """What was deleted does not come back: nothing that was said is passed over."""
    for key in given:
        if key not in known:
            raise InvalidRequest(
                f"Unknown key {key!r:.80} in {where}",
                hint=did_you_mean(key, known) or f"There are {', '.join(known)}",
            )


def _entry(entry: Any) -> tuple[TopicPartition, int]:
    if isinstance(entry, dict):
        _check_keys(entry, ("topic", "partition", "offset"), "an entry of the offset file")
    match entry:
        case {"topic": str(topic), "partition": int(partition), "offset": int(offset)}:
            are_numbers = not isinstance(partition, bool) and not isinstance(offset, bool)
            is_partition = 0 <= partition <= LARGEST_PARTITION
            if are_numbers and is_partition and HIGH_WATERMARK <= offset <= LARGEST_OFFSET:
                return TopicPartition(topic, partition), offset
    raise InvalidRequest(
        f"The offset file has an entry that is not understood: {json.dumps(entry)}",
        hint='It needs "topic", "partition" and "offset" (-1: all there is now)',
    )


def _delete(admin: Admin, partition: TopicPartition, offset: int) -> int | TidelogError:
    try:
        before = "latest" if offset == HIGH_WATERMARK else offset
        return admin.delete_records({partition: before})[partition]
    except TidelogError as error:
        return error


def _print(outcomes: dict[TopicPartition, int | TidelogError], *, as_json: bool) -> None:
    if as_json:
        rows = []
        for partition, outcome in outcomes.items():
            key = "error" if isinstance(outcome, TidelogError) else "low_watermark"
            shown = str(outcome) if isinstance(outcome, TidelogError) else outcome
            rows.append({"topic": partition.topic, "partition": partition.partition, key: shown})
        print(json.dumps(rows))
        return
    print("Records delete operation completed:")
    for partition, outcome in outcomes.items():
        word = "error" if isinstance(outcome, TidelogError) else "low_watermark"
        print(f"partition: {partition}\t{word}: {outcome}")
