"""What a report says of the run that it is about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class About:
    """The input's name and the configuration that rewards hang on, as `(key.path, value)`. The default score and
    ranking are those that stand in for unreadable verdicts."""

    source: str
    settings: tuple[tuple[str, str], ...]
    default_score: float
    default_ranking: float

    @classmethod
    def of(cls, source: str, rules: str) -> Self:
        """`rules` is the configuration as JSON."""
        values = dict(_leaves(json.loads(rules)))
        shown = tuple((key, "" if value is None else str(value)) for key, value in values.items())
        return cls(source, shown, values["scoring.default_score"], values["scoring.default_ranking"])


def _leaves(value: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _leaves(inner, f"{before}{key}.")
        else:
            yield f"{before}{key}", inner
