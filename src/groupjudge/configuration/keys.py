"""What the keys of the configuration are, read off `Settings`: sections, texts, free-form mappings, other values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel

from groupjudge.settings import Settings

Keys = tuple[str, ...]

_NUMBER = re.compile(r"0|[1-9][0-9]{0,3}")


class Text(NamedTuple):
    """A key that holds text."""

    nullable: bool


class Items(NamedTuple):
    """A list of sections; the keys in it are numbers from 0 on."""

    section: type[BaseModel]


Kind = type[BaseModel] | Items | Text | Literal["free", "other"] | None


def kind_of(keys: Keys) -> Kind:
    """What `keys` leads to: a section, a list of them, text, (into) a free-form mapping, another value, or nothing that
    is known."""
    kind: type[BaseModel] | Items = Settings
    for index, key in enumerate(keys):
        if isinstance(kind, Items):
            if not _NUMBER.fullmatch(key):
                return None
            kind = kind.section
            continue
        field = kind.model_fields.get(key)
        if field is None:
            return None
        inner = _inner_kind(field.annotation)
        if inner == "free":
            return inner
        if not isinstance(inner, type | Items):
            return inner if index == len(keys) - 1 else None
        kind = inner
    return kind


def _inner_kind(annotation: Any) -> Kind:
    """What a key of this annotation leads to."""
    types = set(plain_types(annotation))
    sections = [t for t in (*types, *_items(annotation)) if isinstance(t, type) and issubclass(t, BaseModel)]
    if dict in types:
        return "free"
    if sections:
        return Items(sections[0]) if tuple in types else sections[0]
    return Text(type(None) in types) if str in types else "other"


def _items(annotation: Any) -> Iterator[Any]:
    """The classes of the items of a tuple in `annotation`."""
    for part in get_args(annotation):
        if get_origin(part) is tuple:
            yield from plain_types(get_args(part)[0])
        else:
            yield from _items(part)


def plain_types(annotation: Any) -> Iterator[Any]:
    """The classes that a value of `annotation` may have: unions opened, literals and generics by their class."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from plain_types(get_args(annotation)[0])
    elif origin is Literal:
        yield from (type(value) for value in get_args(annotation))
    elif isinstance(origin, type) and issubclass(origin, (dict, list, tuple)):
        yield origin
    elif origin is not None:
        for part in get_args(annotation):
            yield from plain_types(part)
    else:
        yield annotation


def is_nullable(keys: Keys) -> bool:
    """Whether null may stand at `keys`, a key of a section."""
    section = kind_of(keys[:-1])
    if not isinstance(section, type) or keys[-1] not in section.model_fields:
        return False
    return type(None) in plain_types(section.model_fields[keys[-1]].annotation)


def default_of(keys: Keys) -> dict[str, Any]:
    """What a mapping holds before any source spoke: the default parameters of a free-form key, else nothing."""
    if kind_of(keys) != "free":
        return {}
    depth = next(n for n in range(1, len(keys) + 1) if kind_of(keys[:n]) == "free")
    section = kind_of(keys[: depth - 1])
    assert isinstance(section, type)
    value: Any = section.model_fields[keys[depth - 1]].get_default(call_default_factory=True)
    for key in keys[depth:]:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


@cache
def known_keys() -> tuple[str, ...]:
    """Every dotted key, sections and default parameters included: what a mistyped key may have meant."""
    return tuple(_dotted("", Settings().model_dump()))


def _dotted(prefix: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield f"{prefix}{key}"
            yield from _dotted(f"{prefix}{key}.", inner)
