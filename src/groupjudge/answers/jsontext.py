"""Strict JSON (H10): a fast reader, and a tolerant one for what the fast one does not know, with the same values.

Both refuse what is no JSON: control characters in strings, leading zeros, stray commas, invalid UTF-8, text behind the
value. The tolerant one also knows NaN and Infinity, integers of any width, lone surrogates, and floats beyond the range
of a binary64 value (which are Infinity). In both the last of equal keys wins.
"""

from __future__ import annotations

import codecs
import json
import re
from itertools import accumulate
from typing import Literal, NamedTuple

import msgspec

from groupjudge.errors import FieldProblem, InvalidRequest

MAX_DEPTH = 256
"""How many levels of arrays and objects a body may have (H10)."""

LONGEST_INT = 600
"""Integers of more digits stay text: turning digits into an int takes quadratic time, and Python limits it."""

SPACE = b" \t\n\r"
"""What may stand between the tokens of JSON."""

_CHUNK = 65_536
_FEW = 128
_STRETCH = 1 << 12
_OPENING = ord("[")
_SQUARE = bytes.maketrans(b"{}", b"[]")
_DIGITS_AND_COMMAS = b"0123456789,"
_NO_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
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
    check_depth(text, max_depth)
    return value


def parse_shallow(text: bytes) -> object:
    """As `parse`, of a part of a text whose depth was checked."""
    try:
        return _parse_fast(text)
    except (msgspec.DecodeError, RecursionError):
        return parse_tolerant(text)


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


def check_depth(text: bytes, max_depth: int, start: int = 0, stop: int | None = None) -> None:
    """Raise Malformed where the JSON text from `start` to `stop` has more than `max_depth` levels.
    Works without recursion; what comes behind a fault may be misread, what comes before it is not."""
    stop = len(text) if stop is None else stop
    if stop - start < _CHUNK and text.count(b"[", start, stop) + text.count(b"{", start, stop) <= max_depth:
        return
    if _is_within(_structure(text, start, stop), max_depth):
        return
    depth = 0
    for token in _STRINGS_AND_BRACKETS.finditer(text, start, stop):
        first = text[token.start()]
        if first in b"[{":
            depth += 1
            if depth > max_depth:
                raise Malformed(f"nesting deeper than {MAX_DEPTH} levels", token.start() - start)
        elif first in b"]}":
            depth -= 1


def spacing_of_integers(text: bytes, max_depth: int, start: int, stop: int) -> Literal["none", "some"] | None:
    """Of a JSON array that holds nothing but arrays and integers without a sign, at most `max_depth` levels of them:
    whether there is white space in it. None says that it is no such array, or may be none."""
    depth = 0
    spacing: Literal["none", "some"] = "none"
    for position in range(start, stop, _STRETCH):
        rest = text[position : min(position + _STRETCH, stop)].translate(None, _DIGITS_AND_COMMAS)
        opened = rest.count(b"[")
        brackets = opened + rest.count(b"]")
        if brackets != len(rest):
            rest, spacing = rest.translate(None, SPACE), "some"
            if brackets != len(rest):
                return None
        if depth + opened > max_depth and not _is_within(rest, max_depth - depth):
            return None
        depth += 2 * opened - brackets
    return spacing


def _structure(text: bytes, start: int, stop: int) -> bytes:
    """The brackets of a JSON text outside its strings, square ones for both kinds. Every second part between quotes is
    outside; escaped quotes are taken out first. A part at a time, since the parts can be many."""
    if text.find(b"\\", start, stop) >= 0:
        text = text[start:stop].replace(b"\\\\", b"").replace(b'\\"', b"")
        start, stop = 0, len(text)
    outside: list[bytes] = []
    parity = 0
    for position in range(start, stop, _CHUNK):
        parts = text[position : min(position + _CHUNK, stop)].split(b'"')
        outside.append(b"".join(parts[parity::2]).translate(_SQUARE, _NO_BRACKETS))
        parity ^= (len(parts) - 1) & 1
    return b"".join(outside)


def _is_within(structure: bytes, max_depth: int) -> bool:
    """Whether brackets nest at most `max_depth` deep. No place among a few is deeper than all that open before it; only
    where that is too much they are looked at one by one."""
    depth = 0
    for start in range(0, len(structure), _FEW):
        few = structure[start : start + _FEW]
        opened = few.count(b"[")
        if depth + opened > max_depth and depth + _rise(few) > max_depth:
            return False
        depth += 2 * opened - len(few)
    return True


def _rise(brackets: bytes) -> int:
    """How many more brackets are open at the deepest place than at the start."""
    return max(accumulate(1 if bracket == _OPENING else -1 for bracket in brackets), default=0)


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
