"""From a judge's text to its verdict (J11), or to the reason why there is none.

The text is gone over once, left to right. What may be a verdict is a whole object or list that is not part of another;
strings inside it are its own business, so no brace and no fence in them is ever seen. Of several the last counts, those
in fenced blocks before those outside.

What counts as a number: a JSON number, and a string that is one in plain digits, `-?digits[.digits]` in ASCII with
nothing around it (no blanks, plus sign, exponent or underscore).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from groupjudge.judging.lenient import MAX_DEPTH, QUOTE_MARKS, Found, LenientReader, Tangled
from groupjudge.model import Reading

MAX_REPLY_BYTES: Final = 1 << 20
"""A longer reply, in UTF-8, is unreadable."""

Bounds = tuple[float, float] | None
Read = TypeVar("Read", covariant=True)
"""What is read: the numbers of a verdict."""

_PLAIN_NUMBER: Final = re.compile(r"-?[0-9]++(?:\.[0-9]++)?")
# A fence, a list, or an object: a brace with a key, a comment or nothing in it. Other braces are prose.
_MARK: Final = re.compile(r"""`{3,}|\[|\{(?=\s*+(?:[}/#"'“”„‘’‚]|[A-Za-z_]\w*+\s*+:))""")
_THINK_OPEN: Final = "<think>"
_THINK_CLOSE: Final = "</think>"
_LOOK_BACK: Final = 64


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """How replies are read. Ranges are (lowest, highest), both allowed; None: any finite number. `default_ranking`
    stands in for a missing ranking. `on_conflict` says what becomes of a text with differing verdicts."""

    score_range: Bounds = (1.0, 5.0)
    ranking_range: Bounds = (1.0, 6.0)
    default_ranking: float = 3.5
    on_conflict: Literal["last", "retry"] = "last"


class ReadResult(NamedTuple, Generic[Read]):
    """What a text says. `ambiguous`: it holds verdicts that differ. `problem`: why there is no reading, in a few words
    that quote nothing of the text; empty where there is one."""

    reading: Read | None
    ambiguous: bool
    problem: str


class NoVerdict(ValueError):
    """What was looked at is no verdict; the text says why."""


class _Candidate(NamedTuple, Generic[Read]):
    """A whole object or list of the text: its reading, or what is wrong with it."""

    reading: Read | None
    fenced: bool
    problem: str


def read_verdict(text: str, rules: ReadingRules) -> ReadResult[Reading]:
    """Read the verdict out of a judge's final text (its reasoning channel left out). Never raises."""
    return read_text(text, partial(_reading, rules), rules)


def read_text(text: str, interpret: Callable[[Found], Read], rules: ReadingRules) -> ReadResult[Read]:
    """Read what `interpret` takes for a verdict out of a judge's final text. `interpret` gets whole objects and lists,
    and raises NoVerdict for what is none. Never raises."""
    if _is_too_long(text):
        return ReadResult(None, False, f"the reply is longer than {MAX_REPLY_BYTES} bytes")
    text = text.strip().removeprefix("\ufeff")
    try:
        whole = _whole(text)
        found = (
            _candidates(_without_thinking(text), interpret) if whole is None else iter([_candidate(whole, interpret)])
        )
        candidates = list(found)
    except Tangled as error:
        return ReadResult(None, False, str(error))
    return _chosen(candidates, rules)


def _is_too_long(text: str) -> bool:
    return 4 * len(text) > MAX_REPLY_BYTES and len(text.encode("utf-8", "surrogatepass")) > MAX_REPLY_BYTES


def _whole(text: str) -> Found | None:
    """The text as one JSON object or list, where that is what it is."""
    if not text.startswith(("{", "[")):
        return None
    if (plain := _plain(text)) is not None:
        return plain
    try:
        found = LenientReader(text).read(0)
    except Tangled:
        return None
    return found if isinstance(found, Found) and found.strict and found.end == len(text) else None


class _Repeated(ValueError):
    """A key comes twice."""


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _Repeated
    return members


_decode_plain: Final = json.JSONDecoder(object_pairs_hook=_members, parse_int=float).decode


def _plain(text: str) -> Found | None:
    """As the reader of everything finds it, for what most judges send: strict JSON, nested a little, each key once. A
    tenth of the time; None says nothing."""
    if text.count("{") + text.count("[") > MAX_DEPTH:
        return None
    try:
        value = _decode_plain(text)
    except (ValueError, RecursionError):
        return None
    return Found(value, len(text), strict=True, unique=True, closed=True)


def _without_thinking(text: str) -> str:
    answer = text.rpartition(_THINK_CLOSE)[2]
    return answer.partition(_THINK_OPEN)[0]


def _candidates(text: str, interpret: Callable[[Found], Read]) -> Iterator[_Candidate[Read]]:
    reader = LenientReader(text)
    fence = pos = 0
    while mark := _MARK.search(text, pos):
        pos = mark.end()
        if mark[0][0] == "`":
            fence = _fence_after(fence, len(mark[0]))
            continue
        found = reader.read(mark.start(), fence)
        pos = found.end
        if isinstance(found, Found):
            part = _is_part_of_a_broken_object(text, mark.start())
            yield _candidate(found, interpret, fenced=fence > 0, part=part)


def _fence_after(fence: int, backticks: int) -> int:
    """The length of the fence that is open behind a run of backticks; `fence` is the one open before it (0: none)."""
    if not fence:
        return backticks
    return 0 if backticks >= fence else fence


def _is_part_of_a_broken_object(text: str, start: int) -> bool:
    """True where the value of a key starts here: all whole objects were gone over as one, so its own one is broken."""
    before = text[max(0, start - _LOOK_BACK) : start].rstrip()
    return before.endswith(":") and before[:-1].rstrip()[-1:] in QUOTE_MARKS


def _candidate(
    found: Found, interpret: Callable[[Found], Read], *, fenced: bool = False, part: bool = False
) -> _Candidate[Read]:
    try:
        if part:
            raise NoVerdict("the last object of the reply is part of a broken one")
        return _Candidate(interpret(found), fenced, "")
    except NoVerdict as error:
        return _Candidate(None, fenced, str(error))


def _reading(rules: ReadingRules, found: Found) -> Reading:
    verdict = verdict_object(found)
    ranking = number_in(verdict, "ranking", rules.ranking_range)
    if ranking is None:
        if not found.closed:
            raise NoVerdict("the reply breaks off before its ranking")
        ranking = rules.default_ranking
    return Reading(_score(verdict, "score_1", rules), _score(verdict, "score_2", rules), ranking)


def verdict_object(found: Found) -> dict[str, object]:
    """The object that holds the numbers: the value itself, the one item of a list, or what `overall` holds. Raises
    NoVerdict, also where a key comes twice."""
    if not found.unique:
        raise NoVerdict("a key comes twice")
    value = found.value
    if isinstance(value, list):
        if len(value) != 1:
            raise NoVerdict(f"a list of {len(value)} is no verdict")
        value = value[0]
    while isinstance(value, dict) and value.get("overall") is not None:
        value = value["overall"]
    if not isinstance(value, dict):
        raise NoVerdict("the reply holds no object with the scores")
    return value


def _score(verdict: dict[str, object], name: str, rules: ReadingRules) -> float:
    number = number_in(verdict, name, rules.score_range)
    if number is None:
        raise NoVerdict(f"{name} is missing")
    return number


def number_in(verdict: dict[str, object], name: str, bounds: Bounds) -> float | None:
    """The number under `name`, None where it is missing or null. Raises NoVerdict where it is none, or out of range."""
    value = verdict.get(name)
    if value is None:
        return None
    if isinstance(value, str) and _PLAIN_NUMBER.fullmatch(value):
        value = float(value)
    if not isinstance(value, float) or not math.isfinite(value):
        raise NoVerdict(f"{name} is no finite number")
    if bounds and not bounds[0] <= value <= bounds[1]:
        raise NoVerdict(f"{name} is not within {bounds[0]:g} to {bounds[1]:g}")
    return value


def _chosen(candidates: list[_Candidate[Read]], rules: ReadingRules) -> ReadResult[Read]:
    readable = [candidate for candidate in candidates if candidate.reading is not None]
    if not readable:
        return ReadResult(None, False, candidates[-1].problem if candidates else "the reply holds no whole JSON object")
    ambiguous = len({candidate.reading for candidate in readable}) > 1
    if ambiguous and rules.on_conflict == "retry":
        return ReadResult(None, True, "the reply holds verdicts that differ")
    last = max(enumerate(readable), key=lambda item: (item[1].fenced, item[0]))[1]
    return ReadResult(last.reading, ambiguous, "")
