"""What the keys of the configuration are, read off `Settings`: sections, texts, free-form mappings, other values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel

from groupjudge.settings import Settings

Keys = tuple[str, ...]


class Text(NamedTuple):
    """A key that holds text."""

    nullable: bool


def kind_of(keys: Keys) -> type[BaseModel] | Text | Literal["free", "other"] | None:
    """What `keys` leads to: a section, text, (into) a free-form mapping, another value, or nothing that is known."""
    section: type[BaseModel] = Settings
    for index, key in enumerate(keys):
        field = section.model_fields.get(key)
        if field is None:
            return None
        types = set(plain_types(field.annotation))
        if dict in types:
            return "free"
        inner = next((t for t in types if isinstance(t, type) and issubclass(t, BaseModel)), None)
        if inner is None:
            is_last = index == len(keys) - 1
            return (Text(type(None) in types) if str in types else "other") if is_last else None
        section = inner
    return section


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
    value: Any = Settings()
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else getattr(value, key)
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
