"""Texts to values and back: YAML 1.2 with the lines of its keys, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from groupjudge.configuration.complaints import bounded
from groupjudge.configuration.keys import Keys

DEEPEST = 40
"""Levels of nesting; an alias of YAML can make a mapping that holds itself."""

_FILE_BYTES = 4 * 1024 * 1024
_MOST_VALUES = 100_000


class Unreadable(Exception):
    """What is wrong with a text, in words that hold none of its values."""


def text_of(file: Path) -> str:
    """What stands in `file`. Raises Unreadable."""
    try:
        with file.open("rb") as stream:
            data = stream.read(_FILE_BYTES + 1)
        if len(data) > _FILE_BYTES:
            raise Unreadable(f"is larger than {_FILE_BYTES >> 20} MiB: no configuration")
        return data.decode("utf-8")
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"is no UTF-8 text (byte {error.start})") from error


def _yaml() -> YAML:
    # The pure reader: the C one, where it is installed, knows only YAML 1.1.
    yaml = YAML(typ="safe", pure=True)
    yaml.width = 2**16
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # typed by its default, None
    return yaml


def read_yaml(text: str) -> tuple[Any, Mapping[Keys, int]]:
    """The value of a YAML text, and the line (from 1) of each path of keys in it. Raises Unreadable."""
    try:
        lines = _lines(_yaml().compose(text))
        return _yaml().load(text), lines
    except DuplicateKeyError as error:  # spelled in two ways, such as 1 and 0x1; its text quotes the values
        raise Unreadable("holds a key twice; keep one") from error
    except MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise Unreadable(f"is no valid YAML{line}: {error.problem}") from error
    except YAMLError as error:
        raise Unreadable("is no valid YAML: it holds characters that YAML does not allow") from error
    except RecursionError as error:
        raise Unreadable(f"is nested deeper than {DEEPEST} levels") from error
    except ValueError as error:
        raise Unreadable("is no valid YAML: a number or date in it cannot be read") from error


def _lines(document: Node | None) -> dict[Keys, int]:
    """The line of each path of keys. A few aliases of aliases stand for more than can ever be read."""
    lines: dict[Keys, int] = {}
    for keys, line in _key_lines((), document):
        if len(lines) == _MOST_VALUES:
            raise Unreadable(f"holds more than {_MOST_VALUES} values, those behind aliases included: no configuration")
        lines[keys] = line
    return lines


def _key_lines(keys: Keys, node: Node | None) -> Iterator[tuple[Keys, int]]:
    if len(keys) > DEEPEST:
        return
    if isinstance(node, MappingNode):
        yield from _mapping_lines(keys, node)
    elif isinstance(node, SequenceNode):
        for index, item in enumerate(node.value):
            yield (*keys, str(index)), item.start_mark.line + 1
            yield from _key_lines((*keys, str(index)), item)


def _mapping_lines(keys: Keys, node: MappingNode) -> Iterator[tuple[Keys, int]]:
    first: dict[str, int] = {}
    for name, value in node.value:
        line = name.start_mark.line + 1
        if not isinstance(name, ScalarNode):
            raise Unreadable(f"holds a key that is no text, line {line}")
        here = (*keys, str(name.value))
        if here[-1] in first:
            lines = sorted({first[here[-1]], line})
            where = f"line{'s' * (len(lines) - 1)} {' and '.join(map(str, lines))}"
            raise Unreadable(f"holds the key {bounded('.'.join(here))} twice, {where}; keep one")
        first[here[-1]] = line
        yield here, line
        yield from _key_lines(here, value)


def read_value(text: str) -> Any:
    """The value of a text from a variable or the command line: JSON, else YAML. Raises Unreadable."""
    if not text.strip():
        raise Unreadable("must have a value (null where none is wanted), not an empty text")
    try:
        return json.loads(text, object_pairs_hook=_once_each)
    except (ValueError, RecursionError):
        return read_yaml(text)[0]


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key comes twice")  # the YAML reader then names it
    return value


def dumped(value: Any) -> str:
    """`value` as YAML text, keys in their order."""
    stream = StringIO()
    _yaml().dump(value, stream)
    return stream.getvalue()
