"""What is wrong, in words: one line for each problem, and values shown without secrets and within bounds."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import ErrorDetails

from groupjudge.configuration.keys import Items, Keys, is_nullable, kind_of, known_keys
from groupjudge.settings import MASK, SECRET_NAMES, without_login

ENVIRONMENT_PREFIX = "GROUPJUDGE_"

_SHOWN = 80  # characters of a value, or of a key, in an error

_ALLOWED = {
    "string_type": "must be a text (in quotes)",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_short": "must have at least {min_length} character",
    "string_too_long": "must have at most {max_length} characters",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list of two numbers [low, high]",
    "too_long": "must be a list of two numbers [low, high]",
    "missing": "must be a list of two numbers [low, high]",
    "model_type": "must be a mapping of keys",
    "dict_type": "must be a mapping of keys",
}
_OF_LISTS = frozenset({"tuple_type", "too_short", "too_long", "missing"})


def lines_of(details: ErrorDetails, origins: Mapping[Keys, str]) -> Iterator[str]:
    """One of pydantic's errors as lines for a person; `origins` tells where each path of keys was given."""
    if details["type"] == "problems":
        for problem in details["ctx"]["problems"]:
            problem = problem.inside(details["loc"])
            places = dict.fromkeys(_origin(tuple(key.split(".")), origins) for key in problem.keys)
            yield _placed(problem.text, [place for place in places if place])
        return
    keys = tuple(str(part) for part in details["loc"])
    place = _origin(keys, origins)
    allowed = _allowed(keys, details)
    yield _placed(f"{'.'.join(keys)}: {allowed}, not {shown_at(keys, details['input'])}", [place] if place else [])


def _placed(text: str, places: list[str]) -> str:
    return f"{text} ({'; '.join(places)})" if places else text


def _origin(keys: Keys, origins: Mapping[Keys, str]) -> str | None:
    """Where `keys` was given, or the nearest mapping above it."""
    return next((origins[keys[:n]] for n in range(len(keys), 0, -1) if keys[:n] in origins), None)


def _allowed(keys: Keys, details: ErrorDetails) -> str:
    """What may stand at `keys`, for a person: "must be ..."."""
    text = _ALLOWED.get(details["type"], details["msg"].replace("Input should be", "must be"))
    text = text.format_map(details.get("ctx", {})) if details["type"] in _ALLOWED else text
    if details["type"] in _OF_LISTS and isinstance(kind_of(keys), Items):
        text = "must be a list of one judge or more, each a mapping of keys"
    return f"{text}, or null" if is_nullable(keys) else text


def unknown(keys: Keys, origin: str) -> str:
    """The error for a key that does not exist, with what it may have meant; its value may be a secret."""
    name = ".".join(keys)
    known = _known_beside(keys)
    namesakes = [key for key in known if key.rpartition(".")[2] == keys[-1]]
    meant = namesakes or difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    parent = next((keys[:n] for n in range(len(keys) - 1, -1, -1) if isinstance(kind_of(keys[:n]), type)), ())
    return f"{bounded(name)}: unknown key; {_hint(meant, parent, origin)} ({origin})"


def _known_beside(keys: Keys) -> tuple[str, ...]:
    """The keys that `keys` may have meant. Of an item of a list, those of the items."""
    for depth in range(1, len(keys)):
        section = kind_of(keys[:depth])
        if isinstance(kind_of(keys[: depth - 1]), Items) and isinstance(section, type):
            return tuple(".".join((*keys[:depth], key)) for key in section.model_fields)
    return known_keys()


def _hint(meant: list[str], parent: Keys, origin: str) -> str:
    if meant and origin.startswith("environment"):
        meant = [ENVIRONMENT_PREFIX + key.replace(".", "__").upper() for key in meant]
    if meant:
        return f"did you mean {' or '.join(meant[:3])}?"
    section = kind_of(parent)
    names = ", ".join(section.model_fields) if isinstance(section, type) else ""
    return f"{'.'.join(parent) or 'the configuration'} has the keys {names}"


def shown_at(keys: Keys, value: object) -> str:
    """`value` in a few characters, masked where `keys` leads to a secret."""
    return MASK if any(key in SECRET_NAMES for key in keys) else shown(value)


def shown(value: object) -> str:
    """`value` in a few characters; of a mapping or a list of texts only what it is, since a secret may be in it."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple) and not all(isinstance(item, int | float) for item in value):
        return "a list"
    try:
        return bounded(json.dumps(without_login(value) if isinstance(value, str) else value, ensure_ascii=False))
    except (TypeError, ValueError):
        return f"a {type(value).__name__}"


def bounded(text: str, length: int = _SHOWN) -> str:
    """`text` in one line of at most `length` characters."""
    text = "".join(character if character.isprintable() else "?" for character in text[: length + 1])
    return text if len(text) <= length else text[: length - 3] + "..."


def masked(value: Any, keys: Keys = ()) -> Any:
    """`value` with `MASK` in place of each secret in it; tuples become lists."""
    if value is not None and keys and keys[-1] in SECRET_NAMES:
        return MASK
    if isinstance(value, Mapping):
        return {key: masked(inner, (*keys, key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked(inner, keys) for inner in value]
    return without_login(value) if keys[-1:] == ("base_url",) else value
