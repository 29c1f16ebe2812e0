"""Digests of long arrays of numbers, from their text, without a Python object for each number.

Two kinds of arrays have a digest of their own (which kind an array is depends on its value alone, see fingerprint.py):

- integers, at any nesting, empty arrays included. JSON spells an integer in one way (but for -0), so the array's text
  without white space is canonical and needs no parsing: it is checked, and hashed.
- floats, one or more, flat. Their binary64 values are hashed, little-endian. pysimdjson reads them fastest where it is
  installed; msgspec gives the same bytes.

Every other array is an ordinary JSON value.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.msgpack import Ext

from groupjudge.answers.jsontext import SPACE, Malformed, WideInt, check_depth, parse, spacing_of_integers
from groupjudge.answers.outline import Span

INTEGERS = 1
FLOATS = 2

_CHUNK = 1 << 18
_DIGITS = b"0123456789+-" + SPACE
# What a constant is replaced by while floats are read. Spaces keep it from joining what stands next to it.
_STAND_IN = b" 0.0 "
_NAN = struct.pack("=d", float("nan"))
_CONSTANTS = {
    b"NaN": _NAN,
    b"Infinity": struct.pack("=d", float("inf")),
    b"-Infinity": struct.pack("=d", -float("inf")),
}

_validate = msgspec.json.Decoder(msgspec.Raw).decode
_read_floats = msgspec.json.Decoder(list[float]).decode


class _Elsewhere(Exception):
    """This text needs the general reader."""


# -- from text ---------------------------------------------------------------------------------------------------------


def digest_text(body: bytes, span: Span, max_depth: int) -> Ext | list[object]:
    """What stands for the array whose text `span` is: its digest, or the array itself where its kind has none.
    The text holds no quote and no object. Raises Malformed, also where it is nested deeper than `max_depth`."""
    try:
        is_flat = body.find(b"[", span.start + 1, span.stop) < 0
        if not is_flat and (spacing := spacing_of_integers(body, max_depth, *span)) is not None:
            return _valid_integers(memoryview(body)[slice(*span)], is_spaced=spacing == "some")
        if _finds(body, span, b".eEnN"):
            return _floats_of_text(body, span, doubles)
        if not is_flat:
            check_depth(body, max_depth, *span)
        return _integers_of_text(body, span)
    except _Elsewhere:
        text = body[slice(*span)]
        value = parse(text, max_depth)
        if type(value) is not list:
            raise Malformed("an array must stand here", 0) from None
        return digest_list(value)


def _finds(body: bytes, span: Span, characters: bytes) -> bool:
    return any(body.find(character, *span) >= 0 for character in characters)


def _integers_of_text(body: bytes, span: Span) -> Ext:
    """The digest of an array of arrays, integers and nothing else: other numbers and words have letters or a dot."""
    view = memoryview(body)[slice(*span)]
    if body.find(b"-", *span) >= 0 and body.find(b"-0", *span) >= 0:
        _check(view)
        return _integers(bytes(view).translate(None, SPACE).replace(b"-0", b"0"))
    return _valid_integers(view, is_spaced=_finds(body, span, SPACE))


def _valid_integers(text: memoryview, *, is_spaced: bool) -> Ext:
    """The digest of what is an array of integers, if it is JSON."""
    _check(text)
    if not is_spaced:
        return _integers(text)
    digest = hashlib.sha256()
    for chunk in _stripped(text, SPACE):
        digest.update(chunk)
    return Ext(INTEGERS, digest.digest())


def _check(text: memoryview) -> None:
    try:
        _validate(text)
    except (msgspec.DecodeError, RecursionError):
        raise _Elsewhere from None


def _stripped(view: memoryview, characters: bytes) -> Iterator[bytes]:
    """The text without some characters, a little at a time."""
    for start in range(0, len(view), _CHUNK):
        yield bytes(view[start : start + _CHUNK]).translate(None, characters)


def _integers(text: bytes | memoryview) -> Ext:
    return Ext(INTEGERS, hashlib.sha256(text).digest())


def _floats_of_text(body: bytes, span: Span, read: Callable[[memoryview], Any]) -> Ext:
    """The digest of a flat array of floats; anything else is for the general reader."""
    # A nested array, or one of the words null, true and false.
    if body.find(b"[", span.start + 1, span.stop) >= 0 or _finds(body, span, b"ul"):
        raise _Elsewhere
    patches: list[tuple[int, bytes]] = []
    if _finds(body, span, b"NI"):
        body, patches = _without_constants(body, span)
        span = Span(0, len(body))
    values = read(memoryview(body)[slice(*span)])
    if not _is_all_floats(body, span, len(memoryview(values).cast("B")) // 8):
        raise _Elsewhere
    if patches:
        values = bytearray(values)
        for index, value in patches:
            values[8 * index : 8 * index + 8] = value
    return _floats(values)


def _is_all_floats(text: bytes, span: Span, count: int) -> bool:
    """Whether none of the `count` numbers of a flat array is an integer. A number has at most one dot; an integer is
    what leaves nothing behind once digits and signs are gone."""
    if text.count(b".", *span) == count:
        return True
    rest = b"".join(_stripped(memoryview(text)[slice(*span)], _DIGITS))
    return not rest.startswith((b"[,", b"[]")) and not rest.endswith(b",]") and b",," not in rest


def _without_constants(body: bytes, span: Span) -> tuple[bytes, list[tuple[int, bytes]]]:
    """The array with a float in place of each NaN and Infinity, and which number each of them was."""
    view = memoryview(body)
    pieces: list[bytes | memoryview] = []
    patches: list[tuple[int, bytes]] = []
    done, index = span.start, 0
    for start, name in _constants(body, span):
        index += body.count(b",", done, start)
        pieces += (view[done:start], _STAND_IN)
        patches.append((index, _CONSTANTS[name]))
        done = start + len(name)
    pieces.append(view[done : span.stop])
    return b"".join(pieces), patches


def _constants(body: bytes, span: Span) -> list[tuple[int, bytes]]:
    """Where each of them starts, and which it is."""
    found: list[tuple[int, bytes]] = []
    for name in (b"NaN", b"Infinity"):
        start = body.find(name, *span)
        while start >= 0:
            is_negative = name == b"Infinity" and body[start - 1 : start] == b"-"
            found.append((start - 1, b"-Infinity") if is_negative else (start, name))
            start = body.find(name, start + len(name), span.stop)
    return sorted(found)


def doubles_plain(text: memoryview) -> Any:
    """The numbers of a flat JSON array as binary64 values. Integers among them become floats."""
    try:
        return array("d", _read_floats(text))
    except (msgspec.DecodeError, RecursionError):
        raise _Elsewhere from None


try:
    from simdjson import Parser as _Parser
except ImportError:  # an optional extra: msgspec does the same, more slowly
    doubles = doubles_plain
else:

    def doubles_simd(text: memoryview) -> Any:
        """As `doubles_plain`, by pysimdjson. A parser keeps the memory of its longest text, so none is kept."""
        try:
            parsed: Any = _Parser().parse(text)
            return parsed.as_buffer(of_type="d")
        except (ValueError, TypeError, RuntimeError):
            raise _Elsewhere from None

    doubles = doubles_simd


def _floats(values: Any) -> Ext:
    if sys.byteorder == "big":
        swapped = array("d", bytes(values))
        swapped.byteswap()
        values = swapped
    return Ext(FLOATS, hashlib.sha256(values).digest())


# -- from values -------------------------------------------------------------------------------------------------------


_EMPTY = _integers(b"[]")
NEVER_DIGESTED = frozenset({dict, str, bool, type(None)})
"""What an array that has a digest does not begin with."""


def digest_list(value: list[object]) -> Ext | list[object]:
    """What stands for a parsed array: the same as for its text."""
    if not value:
        return _EMPTY
    first = type(value[0])
    if first is float:
        return _floats(array("d", value)) if set(map(type, value)) == {float} else value
    if first in _INTEGER_KINDS and _is_integers(value):
        return _integers(repr(value).replace(" ", "").encode())
    return value


_INTEGER_KINDS = frozenset({int, WideInt, list})


def _is_integers(value: list[object]) -> bool:
    """Whether an array holds integers and such arrays only."""
    waiting = [value]
    while waiting:
        kinds = set(map(type, current := waiting.pop()))
        if not kinds <= _INTEGER_KINDS:
            return False
        if list in kinds:
            waiting += [each for each in current if type(each) is list]
    return True
