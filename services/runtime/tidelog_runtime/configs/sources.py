"""Reads settings from where people write them: a file, the environment, the command line.

Called by the entry points before anything else starts. Each setting keeps the place it was
written, so that a refusal can name it. Precedence: flags, environment, file, defaults.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tidelog.errors import InvalidConfig
from tidelog.nearest import did_you_mean
from tidelog_runtime.config import ConfigDefinition, ConfigValues, Setting, Source, SourceKind

ENVIRONMENT_PREFIX: Final = "TIDELOG_"
#: Variables of ours that are no configuration keys.
OTHER_VARIABLES: Final = frozenset(
    {"TIDELOG_PURE", "TIDELOG_BOOTSTRAP_SERVER", "TIDELOG_BENCH_DIR", "TIDELOG_TEST_HOSTILE"}
)

#: What Kubernetes sets in every pod for a Service called tidelog or tidelog-something.
_SERVICE_LINK: Final = re.compile(
    r"TIDELOG_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?"
    r"|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
_SERVICE_ADDRESS: Final = re.compile(r"(tcp|udp|sctp)://.*")


def resolve_configuration(
    definition: ConfigDefinition,
    *,
    flags: Iterable[Setting] = (),
    environment: Mapping[str, str],
    file: Path | None = None,
) -> ConfigValues:
    """All values of a node with their sources; raises InvalidConfig naming what is wrong where."""
    return definition.resolve(
        flags,
        settings_from_environment(definition, environment),
        settings_from_file(file) if file is not None else [],
    )


def settings_from_flags(flags: Mapping[str, str]) -> list[Setting]:
    """Settings given on the command line, by key: `--data-dir x` is {"data.dir": "x"}."""
    return [
        Setting(name, text, Source(SourceKind.FLAG, f"in flag --{name.replace('.', '-')}"))
        for name, text in flags.items()
    ]


def settings_from_pairs(pairs: Sequence[str], *, flag: str) -> list[Setting]:
    """Settings given as KEY=VALUE by a flag that takes any key."""
    settings = []
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise InvalidConfig(
                f"Invalid value {pair!r} for flag {flag}", hint="Write it as KEY=VALUE"
            )
        source = Source(SourceKind.FLAG, f"in flag {flag}")
        settings.append(Setting(name.strip(), text.strip(), source))
    return settings


def settings_from_environment(
    definition: ConfigDefinition, environment: Mapping[str, str]
) -> list[Setting]:
    """Settings among the environment's variables: TIDELOG_DATA_DIR is data.dir.

    Raises InvalidConfig for another TIDELOG_* than a key, `OTHER_VARIABLES` and the addresses
    that Kubernetes sets by itself.
    """
    by_variable = {
        variable_name(name): name for key in definition.keys for name in (key.name, *key.aliases)
    }
    found = []
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in OTHER_VARIABLES:
            continue
        source = Source(SourceKind.ENVIRONMENT, f"in environment variable {variable}")
        if _is_service_link(variable, text, is_key=variable in by_variable):
            continue
        if variable not in by_variable:
            hint = did_you_mean(variable, by_variable) or _why_unknown(definition, variable)
            raise InvalidConfig(f"Unknown environment variable {variable}", hint=hint)
        found.append(Setting(by_variable[variable], text, source))
    return found


def variable_name(key: str) -> str:
    """The environment variable of a key."""
    return ENVIRONMENT_PREFIX + key.upper().replace(".", "_").replace("-", "_")


def settings_from_file(path: Path) -> list[Setting]:
    """Settings in a .toml file, or in a file of key=value lines under any other name."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(
            f"Cannot read the configuration file {path}", cause=str(error)
        ) from error
    return _toml_settings(path, text) if path.suffix == ".toml" else _lines(path, text)


def _lines(path: Path, text: str) -> list[Setting]:
    settings = []
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"in file {path} line {number}"
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, separator, value = stripped.partition("=")
        if not separator or stripped.endswith("\\"):
            raise InvalidConfig(
                f"Cannot read '{stripped}' {where}", hint="Accepted: key=value, one on each line"
            )
        settings.append(Setting(name.strip(), value.strip(), Source(SourceKind.FILE, where)))
    return settings


def _toml_settings(path: Path, text: str) -> list[Setting]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig(f"{path} is not TOML", cause=str(error)) from error
    source = Source(SourceKind.FILE, f"in file {path}")
    return [
        Setting(name, _toml_text(name, value, path), source) for name, value in _flat("", tables)
    ]


def _flat(prefix: str, table: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value


def _toml_text(name: str, value: object, path: Path) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | str():
            return str(value)
        case list() if all(isinstance(item, str) for item in value):
            return ",".join(value)
    raise InvalidConfig(
        f"Invalid value {value!r} for '{name}' in file {path}",
        hint="Accepted: text, an integer, true, false or a list of texts",
    )


def _is_service_link(variable: str, text: str, *, is_key: bool) -> bool:
    if not _SERVICE_LINK.fullmatch(variable):
        return False
    return not is_key or _SERVICE_ADDRESS.fullmatch(text) is not None


def _why_unknown(definition: ConfigDefinition, variable: str) -> str:
    name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
    try:
        definition.key(name)
    except InvalidConfig as refusal:
        return refusal.hint
    return ""
