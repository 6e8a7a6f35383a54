"""Holds every change of proto/ against proto/baseline.binpb: the schema only ever grows.

What was once committed stays readable: by older clients on the wire, and by newer services in
the metadata store. `make check` runs this; `make gen` runs it with --accept, which adds what is
new to the baseline and refuses what is not an addition.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from grpc_tools import protoc  # type: ignore[import-untyped]  # it ships no types

ROOT: Final = Path(__file__).resolve().parent.parent
PROTO: Final = ROOT / "proto"
BASELINE: Final = PROTO / "baseline.binpb"

#: One statement the schema makes: what it is about, and what it says of it.
Fact = tuple[str, str]


def describe(proto: Path) -> bytes:
    """The descriptors of every schema file below `proto`, as the compiler understands them."""
    sources = sorted(str(path.relative_to(proto)) for path in proto.rglob("*.proto"))
    includes = Path(protoc.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "schema.binpb"
        arguments = ["protoc", f"-I{proto}", f"-I{includes}", f"--descriptor_set_out={out}"]
        if protoc.main([*arguments, *sources]) != 0:
            raise SystemExit(f"the protobuf compiler refused {proto}: see its words above")
        schema = FileDescriptorSet.FromString(out.read_bytes())
    return schema.SerializeToString(deterministic=True)


def field_fact(owner: str, message: DescriptorProto, field: FieldDescriptorProto) -> Fact:
    """A field by its number: the wire knows it by nothing else, generated code by the rest."""
    kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    label = FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower()
    parts = [label, field.type_name or kind, field.name]
    if field.proto3_optional:
        parts.insert(0, "explicit")
    elif field.HasField("oneof_index"):
        parts.append(f"in oneof {message.oneof_decl[field.oneof_index].name}")
    return f"field {field.number} of {owner}", " ".join(parts)


def enum_facts(scope: str, enum: EnumDescriptorProto) -> Iterator[Fact]:
    """An enum and its values, each by number and name."""
    owner = f"{scope}.{enum.name}"
    yield f"enum {owner}", "exists"
    for value in enum.value:
        yield f"value {value.name} of {owner}", str(value.number)
    for name in enum.reserved_name:
        yield f"reserved name {name} of {owner}", "exists"
    for span in enum.reserved_range:
        yield f"reserved numbers {span.start} to {span.end} of {owner}", "exists"


def message_facts(scope: str, message: DescriptorProto) -> Iterator[Fact]:
    """A message, its fields, what it reserves, and what is declared inside it."""
    owner = f"{scope}.{message.name}"
    yield f"message {owner}", "exists"
    for field in message.field:
        yield field_fact(owner, message, field)
    for name in message.reserved_name:
        yield f"reserved name {name} of {owner}", "exists"
    for span in message.reserved_range:
        yield f"reserved numbers {span.start} to {span.end - 1} of {owner}", "exists"
    for inner in message.nested_type:
        yield from message_facts(owner, inner)
    for enum in message.enum_type:
        yield from enum_facts(owner, enum)


def service_facts(scope: str, service: ServiceDescriptorProto) -> Iterator[Fact]:
    """A service and its methods, each with what it takes, gives and streams."""
    owner = f"{scope}.{service.name}"
    yield f"service {owner}", "exists"
    for method in service.method:
        taken = ("stream " if method.client_streaming else "") + method.input_type
        given = ("stream " if method.server_streaming else "") + method.output_type
        yield f"method {method.name} of {owner}", f"takes {taken}, returns {given}"


def file_facts(file: FileDescriptorProto) -> Iterator[Fact]:
    """A schema file: its path is the module that generated code is imported from."""
    scope = f".{file.package}"
    yield f"file {file.name}", f"package {file.package}, syntax {file.syntax}"
    for message in file.message_type:
        yield f"home of {scope}.{message.name}", file.name
        yield from message_facts(scope, message)
    for enum in file.enum_type:
        yield f"home of {scope}.{enum.name}", file.name
        yield from enum_facts(scope, enum)
    for service in file.service:
        yield f"home of {scope}.{service.name}", file.name
        yield from service_facts(scope, service)


def facts_of(schema: bytes) -> dict[str, str]:
    """Everything a schema states, by what it is about."""
    files = FileDescriptorSet.FromString(schema).file
    return {about: says for file in files for about, says in file_facts(file)}


def breaks(before: bytes, after: bytes) -> list[str]:
    """What `before` stated and `after` no longer states, each in words."""
    kept = facts_of(after)
    found = []
    for about, said in facts_of(before).items():
        if about not in kept:
            found.append(f"{about}: removed (it was: {said})")
        elif kept[about] != said:
            found.append(f"{about}: changed from '{said}' to '{kept[about]}'")
    return sorted(found)


def additions(before: bytes, after: bytes) -> list[str]:
    """What `after` states of things `before` knew nothing about."""
    known = facts_of(before)
    return sorted(about for about in facts_of(after) if about not in known)


def main() -> int:
    """Compares proto/ with the baseline; with --accept, adds what is new to the baseline."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accept", action="store_true", help="add what is new to the baseline")
    accept = parser.parse_args().accept
    schema = describe(PROTO)
    baseline = BASELINE.read_bytes() if BASELINE.exists() else b""
    broken = breaks(baseline, schema)
    for line in broken:
        print(line)
    if broken:
        print(
            "The schema may only grow. Put back what is named above; what is unwanted stays and "
            "is no longer written. If it was added since the last commit, put the old baseline "
            "back first: git checkout proto/baseline.binpb"
        )
        return 1
    if accept:
        BASELINE.write_bytes(schema)
        return 0
    new = additions(baseline, schema)
    for about in new:
        print(f"{about}: not in {BASELINE.relative_to(ROOT)} yet")
    if new:
        print("Run `make gen` and commit the result.")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
