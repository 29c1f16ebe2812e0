"""Where the configuration comes from: one YAML file, the environment, `--set`, in rising precedence (H12).

Each source is flattened into entries: a path of keys, a value, and where it was given. Entries are laid over each other
in order, so sources are merged key by key; `settings.Settings` then judges the outcome. Whatever is wrong, in whatever
source, is collected and raised as one error with a line for each.

`judge.params` is a free-form mapping and is merged like the sections, with two rules of its own: where a source gives
the mapping itself (`params: {...}`), the default parameters no longer apply, while `judge.params.x=...` alone changes
one parameter of them; and null leaves a parameter out.

`judges` is a list of sections whose keys are numbered from 0 on (`judges.0.api_key`), and is merged like the others; a
source that gives the list itself replaces an earlier one.

YAML is read by the rules of YAML 1.2, because there `no` is a text and `1e-3` a number, as a reader expects; a key that
comes twice is an error. A value from the environment or `--set` for a key that holds text is taken as it stands (`null`
is null where the key may be null); for any other key it is JSON, else YAML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from groupjudge.configuration.complaints import bounded, lines_of, masked
from groupjudge.configuration.keys import Items, default_of, kind_of
from groupjudge.configuration.reading import dumped
from groupjudge.configuration.sources import Entry, Lines, flattened, of_environment, of_file, of_sets
from groupjudge.errors import ConfigurationError
from groupjudge.settings import Settings

__all__ = ["Given", "effective", "load", "load_given"]

_LINE = 600  # characters of one problem


def load(file: Path | None, environ: Mapping[str, str], sets: Sequence[str]) -> Settings:
    """The configuration that `file`, the `GROUPJUDGE_` variables of `environ` and `sets` ("key.path=value") give.

    Raises ConfigurationError with one line for each problem found: the key, the value (never a secret), what is
    allowed, and where it was given.
    """
    problems: list[str] = []
    entries: list[Entry] = []
    if file is not None:
        entries += of_file(file, problems)
    entries += of_environment(environ, problems)
    entries += of_sets(sets, problems)
    return _settings(entries, problems)


class Given(NamedTuple):
    """A value that a program gives for a key or a section ("group.size", "judge"; "" is the whole), as it would come
    out of a file; `origin` tells a person where it has it from."""

    key: str
    value: Any
    origin: str


def load_given(given: Iterable[Given], environ: Mapping[str, str]) -> Settings:
    """The configuration that `given` makes, the later over the earlier, and over it the variables of `environ`.

    Raises ConfigurationError as `load` does.
    """
    problems: list[str] = []
    entries: list[Entry] = []
    for key, value, origin in given:
        entries += flattened(tuple(key.split(".")) if key else (), value, Lines(origin), problems)
    entries += of_environment(environ, problems)
    return _settings(entries, problems)


def effective(settings: Settings) -> str:
    """`settings` as YAML text that `load` reads, every key present, each secret replaced by `MASK`."""
    values = settings.model_dump()
    if settings.judges is not None:
        del values["judge"]  # the two exclude each other
    return dumped(masked(values))


def _merged(entries: list[Entry], problems: list[str]) -> dict[str, Any]:
    """Nested mappings and lists for `Settings`, each key as the last entry gave it."""
    given = {entry.keys for entry in entries}
    values: dict[str, Any] = {}
    for entry in entries:
        where = values
        for depth, key in enumerate(entry.keys[:-1], 1):
            inner = where.get(key)
            if not isinstance(inner, dict):
                keys = entry.keys[:depth]
                inner = {} if keys in given else default_of(keys)
                where[key] = inner
            where = inner
        _lay(where, entry)
    return {key: _listed(key, value, entries, problems) for key, value in values.items()}


def _listed(key: str, value: Any, entries: list[Entry], problems: list[str]) -> Any:
    """`value`, which `entries` gave, as a list where `key` is one whose items came one by one."""
    if not isinstance(kind_of((key,)), Items) or not isinstance(value, dict):
        return value
    numbers = sorted(map(int, value))
    if numbers != list(range(len(numbers))):
        missing = next(number for number in range(len(numbers)) if number not in numbers)
        last = f"{key}.{numbers[-1]}"
        origin = next(entry.origin for entry in entries if ".".join(entry.keys[:2]) == last)
        problems.append(f"{key}.{missing}: is missing, though {last} is given; number the items from 0 on ({origin})")
    return [value[str(number)] for number in numbers]


def _lay(where: dict[str, Any], entry: Entry) -> None:
    key = entry.keys[-1]
    inside_free = kind_of(entry.keys) == "free" and kind_of(entry.keys[:-1]) == "free"
    if entry.value is None and inside_free:
        where.pop(key, None)
    elif entry.value == [] and isinstance(kind_of(entry.keys), Items):
        where[key] = {}  # an item for each number follows
    elif entry.value == {} and isinstance(where.get(key), dict):
        pass  # only says that this mapping was given; its keys follow
    else:
        where[key] = entry.value


def _settings(entries: list[Entry], problems: list[str]) -> Settings:
    settings = _validated(entries, problems)
    if problems or settings is None:
        raise ConfigurationError("\n".join(bounded(problem, _LINE) for problem in problems))
    return settings


def _validated(entries: list[Entry], problems: list[str]) -> Settings | None:
    origins = {entry.keys: entry.origin for entry in entries}
    try:
        return Settings.model_validate(_merged(entries, problems))
    except ValidationError as error:
        for details in error.errors():
            problems.extend(lines_of(details, origins))
        return None
