"""Strict JSON (H10): a fast reader, and a tolerant one for what the fast one does not know, with the same values.

Both refuse what is no JSON: control characters in strings, leading zeros, stray commas, invalid UTF-8, text behind the
value. The tolerant one also knows NaN and Infinity, integers of any width, lone surrogates, and floats beyond the range
of a binary64 value (which are Infinity). In both the last of equal keys wins.
"""

from __future__ import annotations

import codecs
import json
import re
from itertools import chain
from typing import NamedTuple

import msgspec

from groupjudge.errors import FieldProblem, InvalidRequest

MAX_DEPTH = 256
"""How many levels of arrays and objects a body may have (H10)."""

LONGEST_INT = 600
"""Integers of more digits stay text: turning digits into an int takes quadratic time, and Python limits it."""

_CHUNK = 65_536
_SPACE = re.compile(r"[ \t\n\r]*")
# An unterminated string runs to the end, so that every byte is looked at once.
_STRINGS_AND_BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
_parse_fast = msgspec.json.Decoder().decode
_skim_fast = msgspec.json.Decoder(msgspec.Raw).decode


class Malformed(InvalidRequest):
    """The text is no JSON, or not within the limits. `offset` counts bytes from the start of the text that was read."""

    def __init__(self, reason: str, offset: int) -> None:
        problem: FieldProblem = {
            "loc": ["body", offset],
            "msg": f"malformed JSON at byte {offset}: {reason}",
            "type": "json_invalid",
        }
        super().__init__([problem])
        self.reason = reason
        self.offset = offset


class WideInt:
    """An integer of more than LONGEST_INT digits, kept as its canonical decimal text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class Member(NamedTuple):
    """One member of an object: its decoded key, where the key's text starts, and where the value's starts and ends."""

    key: str
    key_start: int
    start: int
    stop: int


def _integer(text: str) -> int | WideInt:
    return int(text) if len(text) <= LONGEST_INT else WideInt(text)


_TOLERANT = json.JSONDecoder(parse_int=_integer)


def parse(text: bytes, max_depth: int = MAX_DEPTH) -> object:
    """The value of a JSON text: dict, list, str, int, float, bool, None, and WideInt for very wide integers.
    Raises Malformed."""
    try:
        value: object = _parse_fast(text)
    except (msgspec.DecodeError, RecursionError):
        return parse_tolerant(text, max_depth)
    if brackets(text) > max_depth and not is_within(value, max_depth):
        check_depth(text, max_depth)
    return value


def parse_tolerant(text: bytes, max_depth: int = MAX_DEPTH) -> object:
    """As `parse`, by the tolerant reader."""
    check_depth(text, max_depth)
    decoded = decode_utf8(text)
    value, end = _value(decoded, _skip_space(decoded, 0))
    end = _skip_space(decoded, end)
    if end < len(decoded):
        raise _malformed(decoded, end, "text behind the value")
    return value


def skim(text: bytes | memoryview) -> None:
    """Raise Malformed where `text` is no JSON; its depth, its UTF-8 and how far its numbers reach are not looked at."""
    try:
        _skim_fast(text)
    except (msgspec.DecodeError, RecursionError):
        parse_tolerant(bytes(text))


def _value(text: str, start: int) -> tuple[object, int]:
    try:
        return _TOLERANT.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated string"):
            raise _malformed(text, len(text), "the body ends before its JSON is complete") from None
        raise _malformed(text, error.pos, error.msg) from None
    except RecursionError:
        raise Malformed(f"nesting deeper than {MAX_DEPTH} levels", 0) from None


def _malformed(text: str, position: int, reason: str) -> Malformed:
    return Malformed(reason, len(text[:position].encode()))


def _skip_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    assert match is not None
    return match.end()


# -- limits ------------------------------------------------------------------------------------------------------------


def check_utf8(text: bytes) -> None:
    """Raise Malformed where `text` is not UTF-8. Takes no memory to speak of."""
    if text.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(text), _CHUNK):
            decoder.decode(text[start : start + _CHUNK], start + _CHUNK >= len(text))
    except UnicodeDecodeError:
        decode_utf8(text)


def decode_utf8(text: bytes) -> str:
    """`text` as a string; raises Malformed."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise Malformed("invalid UTF-8", error.start) from None


def brackets(text: bytes) -> int:
    """How many arrays and objects open in `text` at most: no value is nested deeper than that."""
    return text.count(b"[") + text.count(b"{")


def check_depth(text: bytes, max_depth: int) -> None:
    """Raise Malformed where `text` is nested deeper than `max_depth`. Reads up to there, without recursion."""
    if brackets(text) <= max_depth:
        return
    depth = 0
    for token in _STRINGS_AND_BRACKETS.finditer(text):
        first = text[token.start()]
        if first in b"[{":
            depth += 1
            if depth > max_depth:
                raise Malformed(f"nesting deeper than {MAX_DEPTH} levels", token.start())
        elif first in b"]}":
            depth -= 1


def is_within(value: object, max_depth: int) -> bool:
    """Whether a parsed value has at most `max_depth` levels of lists and dicts. Goes level by level."""
    level = [value]
    for _ in range(max_depth + 1):
        lists = [each for each in level if type(each) is list]
        dicts = [each for each in level if type(each) is dict]
        if not lists and not dicts:
            return True
        kinds = set(map(type, chain(chain.from_iterable(lists), chain.from_iterable(map(dict.values, dicts)))))
        if list not in kinds and dict not in kinds:
            level = []
            continue
        children = chain(chain.from_iterable(lists), chain.from_iterable(map(dict.values, dicts)))
        level = [each for each in children if type(each) is list or type(each) is dict]
    return False


# -- members -----------------------------------------------------------------------------------------------------------


def members(text: bytes) -> list[Member]:
    """The members of the object that `text` is, in order, equal keys included; offsets in bytes. Raises Malformed, also
    where it is no object."""
    check_depth(text, MAX_DEPTH)
    decoded = decode_utf8(text)
    found = list(_members(decoded))
    return found if text.isascii() else _in_bytes(decoded, found)


def _members(text: str) -> list[Member]:
    found: list[Member] = []
    position = _skip_space(text, _expect(text, _skip_space(text, 0), "{"))
    more = not text.startswith("}", position)
    while more:
        member = _member(text, position)
        found.append(member)
        position = _skip_space(text, member.stop)
        more = text.startswith(",", position)
        position = _skip_space(text, position + 1) if more else position
    position = _skip_space(text, _expect(text, position, "}"))
    if position < len(text):
        raise _malformed(text, position, "text behind the value")
    return found


def _member(text: str, position: int) -> Member:
    if not text.startswith('"', position):
        raise _unexpected(text, position, "a key in double quotes")
    key, stop = _value(text, position)
    start = _skip_space(text, _expect(text, _skip_space(text, stop), ":"))
    return Member(str(key), position, start, _value(text, start)[1])


def _expect(text: str, position: int, mark: str) -> int:
    if text.startswith(mark, position):
        return position + 1
    raise _unexpected(text, position, repr(mark))


def _unexpected(text: str, position: int, wanted: str) -> Malformed:
    if position >= len(text):
        return _malformed(text, position, "the body ends before its JSON is complete")
    return _malformed(text, position, f"{wanted} must stand here")


def _in_bytes(text: str, found: list[Member]) -> list[Member]:
    """The same members with offsets into the text's UTF-8."""
    result: list[Member] = []
    chars = done = 0
    for member in found:
        offsets = []
        for position in member[1:]:
            done += len(text[chars:position].encode())
            chars = position
            offsets.append(done)
        result.append(Member(member.key, *offsets))
    return result
