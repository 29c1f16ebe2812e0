"""The three sources as entries: a path of keys, the value given there, and where it was given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from groupjudge.configuration.complaints import ENVIRONMENT_PREFIX, bounded, shown, unknown
from groupjudge.configuration.keys import Items, Keys, Text, kind_of
from groupjudge.configuration.reading import DEEPEST, Unreadable, read_value, read_yaml, text_of

# A container orchestrator tells each pod of its services in variables named after them; one called "groupjudge" gives
# these names, none of which can be a key of ours.
_SERVICE_LINK = re.compile(r"GROUPJUDGE_(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP|SCTP)\w*)?)")


class Entry(NamedTuple):
    """`value` was given for `keys`; `origin` tells where, for a person."""

    keys: Keys
    value: Any
    origin: str


def of_file(file: Path, problems: list[str]) -> list[Entry]:
    """The entries of a YAML file. Here and below, what is wrong is added to `problems`."""
    try:
        value, lines = read_yaml(text_of(file))
    except Unreadable as error:
        problems.append(f"{file}: {error}")
        return []
    if value is not None and not isinstance(value, Mapping):
        problems.append(f"{file}: must hold a mapping of sections such as 'server:' and 'judge:', not {shown(value)}")
        return []
    return list(flattened((), value, Lines(str(file), lines), problems))


def of_environment(environ: Mapping[str, str], problems: list[str]) -> list[Entry]:
    """The entries of all `GROUPJUDGE_` variables, whole sections before the keys in them."""
    entries: list[Entry] = []
    seen: dict[Keys, str] = {}
    for name in sorted(environ, key=lambda name: (name.count("__"), name)):
        if not name.upper().startswith(ENVIRONMENT_PREFIX) or _is_service_link(name, environ[name]):
            continue
        keys = tuple(name[len(ENVIRONMENT_PREFIX) :].lower().split("__"))
        if keys in seen:
            problems.append(f"{'.'.join(keys)}: given by two variables, {seen[keys]} and {name}; keep one")
            continue
        seen[keys] = name
        entries += _of_text(keys, environ[name], f"environment variable {name}", problems)
    return entries


def of_sets(sets: Sequence[str], problems: list[str]) -> list[Entry]:
    """The entries of the `--set` options, in their order."""
    entries: list[Entry] = []
    for number, text in enumerate(sets, 1):
        key, equals, value = text.partition("=")
        keys = tuple(part.strip() for part in key.split("."))
        if not equals or not all(keys):
            # The text may be a secret that lost its key: only its place is told.
            problems.append(f"--set number {number}: must be key.path=value, for example group.size=8")
            continue
        entries += _of_text(keys, value, f"--set {bounded('.'.join(keys))}", problems)
    return entries


def _of_text(keys: Keys, text: str, origin: str, problems: list[str]) -> list[Entry]:
    kind = kind_of(keys)
    if isinstance(kind, Text):
        return [Entry(keys, None if kind.nullable and text == "null" else text, origin)]
    if kind is None:
        problems.append(unknown(keys, origin))
        return []
    try:
        value = read_value(text)
    except Unreadable as error:
        problems.append(f"{'.'.join(keys)}: {error} ({origin})")
        return []
    return list(flattened(keys, value, Lines(origin), problems))


def _is_service_link(name: str, value: str) -> bool:
    if name == "GROUPJUDGE_PORT":  # what a person would write by mistake holds no address
        return value.startswith(("tcp://", "udp://", "sctp://"))
    return _SERVICE_LINK.fullmatch(name) is not None


class Lines(NamedTuple):
    """Where a source's keys were given."""

    source: str
    lines: Mapping[Keys, int] | None = None

    def origin(self, keys: Keys) -> str:
        """Where `keys` was given, with its line where one is known."""
        line = self.lines.get(keys) if self.lines else None
        return self.source if line is None else f"{self.source}, line {line}"


def flattened(keys: Keys, value: Any, lines: Lines, problems: list[str]) -> Iterator[Entry]:
    """`value`, given at `keys`, as entries; what is unknown or no mapping where one belongs goes to `problems`."""
    kind = kind_of(keys)
    if kind is None:
        problems.append(unknown(keys, lines.origin(keys)))
    elif len(keys) > DEEPEST:
        problems.append(f"{'.'.join(keys[:3])}...: is nested deeper than {DEEPEST} levels ({lines.origin(keys)})")
    elif isinstance(kind, Items) and isinstance(value, list):
        yield Entry(keys, [], lines.origin(keys))
        for number, item in enumerate(value):
            yield from _item((*keys, str(number)), item, lines, problems)
    elif isinstance(kind, Items) and isinstance(value, Mapping):
        problems.append(f"{'.'.join(keys)}: must be a list of mappings of keys, not a mapping ({lines.origin(keys)})")
    elif isinstance(kind, type) and value is None:
        return  # a section whose keys are all commented out
    elif isinstance(value, Mapping) and (isinstance(kind, type) or kind == "free"):
        if kind == "free":
            yield Entry(keys, {}, lines.origin(keys))
        for key, inner in value.items():
            yield from flattened((*keys, str(key)), inner, lines, problems)
    else:
        yield Entry(keys, value, lines.origin(keys))


def _item(keys: Keys, value: Any, lines: Lines, problems: list[str]) -> Iterator[Entry]:
    """An item of a list of sections. It is there even where it gives no key."""
    if value is None or isinstance(value, Mapping):
        yield Entry(keys, {}, lines.origin(keys))
    yield from flattened(keys, value, lines, problems)
