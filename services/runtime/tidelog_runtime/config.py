"""How configuration is defined and read: typed keys, values that know where they came from.

The keys themselves stand in `tidelog_runtime.configs`; nodes read their own configuration here at
start, the controller checks what clients ask of topics. Nothing is ever ignored: an unknown key, a
key we do not honour yet and a value out of range each end in `InvalidConfig`, which names key,
value, where it was written and what is accepted.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.errors import InvalidConfig
from tidelog.nearest import did_you_mean
from tidelog_runtime.configs.units import (
    DURATION_UNITS,
    SIZE_UNITS,
    duration_of,
    integer_of,
    size_of,
)

ConfigValue = bool | int | str | tuple[str, ...]

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
TEXT_LENGTH_MAX: Final = 16_384
_SHOWN_LENGTH_MAX: Final = 120
_NOTHING: Final[Mapping[str, str]] = {}


class ConfigType(enum.Enum):
    """What a value is; `wire_name` is what DescribeConfigs calls it."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    SIZE = "size"
    DURATION = "duration"
    STRING = "string"
    LIST = "list"

    @property
    def wire_name(self) -> str:
        """Kafka's name of the type: sizes and durations are plain longs there."""
        return "long" if self in (ConfigType.SIZE, ConfigType.DURATION) else self.value


class SourceKind(enum.Enum):
    """Where a value was set, from the weakest to the strongest."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"
    TOPIC = "topic"

    @property
    def is_static(self) -> bool:
        """Set by whoever started the node, not by us and not by a client."""
        return self in (SourceKind.FILE, SourceKind.ENVIRONMENT, SourceKind.FLAG)


@dataclass(frozen=True, slots=True)
class Source:
    """Where one value was set; `where` completes a sentence: "in file x.properties line 3"."""

    kind: SourceKind
    where: str = ""


BY_DEFAULT: Final = Source(SourceKind.DEFAULT, "by default")
OF_TOPIC: Final = Source(SourceKind.TOPIC, "of the topic")


@dataclass(frozen=True, slots=True)
class Setting:
    """One key and its text as somebody wrote them, before anything was checked."""

    name: str
    text: str
    source: Source


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key: its type, its default, what is accepted, and what it does.

    `later` lists values that Kafka knows and this version does not honour, each with the words of
    its refusal.
    """

    name: str
    type: ConfigType
    default: ConfigValue
    documentation: str
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    later: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    dynamic: bool = False

    @property
    def field_name(self) -> str:
        """The key in snake_case, as the dataclass views call it."""
        return self.name.replace(".", "_").replace("-", "_")

    @property
    def accepted(self) -> str:
        """What may stand here, in words."""
        if self.type is ConfigType.BOOLEAN:
            return "true or false"
        if self.choices:
            several = "a list of " if self.type is ConfigType.LIST else ""
            return several + " or ".join(repr(choice) for choice in self.choices)
        if self.type in (ConfigType.STRING, ConfigType.LIST):
            return "text" if self.type is ConfigType.STRING else "a list, with commas between"
        low, high = self.limits
        text = f"an integer from {low} to {high}"
        if self.type is ConfigType.SIZE:
            text += f" (bytes; also with {', '.join(SIZE_UNITS)}, as in '64 MiB')"
        if self.type is ConfigType.DURATION:
            text += f" (milliseconds; also with {', '.join(DURATION_UNITS)}, as in '7 d')"
        return text

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest number that is accepted."""
        widest = INT_MAX if self.type is ConfigType.INT else LONG_MAX
        return (
            -widest - 1 if self.minimum is None else self.minimum,
            widest if self.maximum is None else self.maximum,
        )

    def parse(self, text: str, source: Source = BY_DEFAULT) -> ConfigValue:
        """The value that `text` stands for; raises InvalidConfig when it is not accepted."""
        value = self._read(text) if len(text) <= TEXT_LENGTH_MAX else None
        if value is None:
            raise InvalidConfig(
                f"Invalid value {_shown(text)} for '{self.name}' {source.where}".rstrip(),
                cause=self._later_words(text),
                hint=f"Accepted: {self.accepted}",
            )
        return value

    def format(self, value: ConfigValue) -> str:
        """The text that `parse` would read back as this value."""
        if isinstance(value, bool):
            return "true" if value else "false"
        return ",".join(value) if isinstance(value, tuple) else str(value)

    def _read(self, text: str) -> ConfigValue | None:
        match self.type:
            case ConfigType.BOOLEAN:
                return {"true": True, "false": False}.get(text.strip().lower())
            case ConfigType.STRING:
                text = text.strip()
                return text if not self.choices or text in self.choices else None
            case ConfigType.LIST:
                return self._read_list(text)
            case ConfigType.SIZE:
                return self._within_limits(size_of(text))
            case ConfigType.DURATION:
                return self._within_limits(duration_of(text))
            case ConfigType.INT | ConfigType.LONG:
                return self._within_limits(integer_of(text))

    def _read_list(self, text: str) -> tuple[str, ...] | None:
        items = tuple(item.strip() for item in text.split(",") if item.strip())
        if self.choices and (not items or not set(items) <= set(self.choices)):
            return None
        return tuple(dict.fromkeys(items))

    def _within_limits(self, number: int | None) -> int | None:
        low, high = self.limits
        return number if number is not None and low <= number <= high else None

    def _later_words(self, text: str) -> str:
        words = [self.later[part.strip()] for part in text.split(",") if part.strip() in self.later]
        return "; ".join(words)


@dataclass(frozen=True, slots=True)
class ConfigValues:
    """Every key of a definition with its value and its source."""

    definition: ConfigDefinition
    _values: Mapping[str, ConfigValue]
    _sources: Mapping[str, Source]

    def __getitem__(self, name: str) -> ConfigValue:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def source(self, name: str) -> Source:
        """Where the value of this key was set."""
        return self._sources.get(name, BY_DEFAULT)

    def text(self, name: str) -> str:
        """The value as text, in the one way it is written everywhere."""
        return self.definition.key(name).format(self._values[name])

    def set_texts(self) -> dict[str, str]:
        """What differs in origin from the defaults: every key that somebody set, as text."""
        return {name: self.text(name) for name in self._values if name in self._sources}

    def as_fields(self) -> dict[str, Any]:
        """Keyword arguments for the dataclass whose fields are the keys in snake_case."""
        return {self.definition.key(name).field_name: self._values[name] for name in self._values}


class ConfigDefinition:
    """A closed set of keys. `known` explains names that people bring along but that do not count.

    `subject` says whose keys these are in messages: "topic", "broker".
    """

    def __init__(
        self,
        subject: str,
        keys: Iterable[ConfigKey],
        *,
        known: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.subject = subject
        self.keys: tuple[ConfigKey, ...] = tuple(keys)
        self._known = known
        self._by_name = {name: key for key in self.keys for name in (key.name, *key.aliases)}
        names = [name for key in self.keys for name in (key.name, *key.aliases)]
        assert len(names) == len(self._by_name), f"a {subject} key is defined twice"
        assert not set(known) & set(names), "a key is both honoured and refused"

    def key(self, name: str, source: Source = BY_DEFAULT) -> ConfigKey:
        """The key of this name or alias; raises InvalidConfig in words when there is none."""
        found = self._by_name.get(name)
        if found is not None:
            return found
        where = f" {source.where}" if source is not BY_DEFAULT else ""
        shown = _shown(name)
        if name in self._known:
            raise InvalidConfig(f"Key {shown}{where} is not supported", hint=self._known[name])
        raise InvalidConfig(
            f"Unknown key {shown}{where}",
            hint=did_you_mean(name, self._by_name)
            or f"The {self.subject} keys are: {', '.join(key.name for key in self.keys)}",
        )

    def parse(self, texts: Mapping[str, str], *, source: Source = OF_TOPIC) -> ConfigValues:
        """Check one mapping of texts and complete it with the defaults."""
        return self.resolve([Setting(name, text, source) for name, text in texts.items()])

    def resolve(self, *layers: Iterable[Setting]) -> ConfigValues:
        """Merge layers, the strongest first, over the defaults. Weaker layers are checked too."""
        values: dict[str, ConfigValue] = {}
        sources: dict[str, Source] = {}
        for layer in layers:
            seen: dict[str, Setting] = {}
            for setting in layer:
                key = self.key(setting.name, setting.source)
                if key.name in seen:
                    raise _set_twice(key, seen[key.name], setting)
                seen[key.name] = setting
                value = key.parse(setting.text, setting.source)
                if key.name not in values:
                    values[key.name] = value
                    sources[key.name] = setting.source
        complete = {key.name: values.get(key.name, key.default) for key in self.keys}
        return ConfigValues(self, complete, sources)


def _set_twice(key: ConfigKey, first: Setting, second: Setting) -> InvalidConfig:
    return InvalidConfig(
        f"'{key.name}' is set twice: as '{first.name}' {first.source.where}"
        f" and as '{second.name}' {second.source.where}",
        hint="Keep one of the two",
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_LENGTH_MAX else text[:_SHOWN_LENGTH_MAX] + "…")
