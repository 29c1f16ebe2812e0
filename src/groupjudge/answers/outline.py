"""A body without its long arrays: they are set apart, so that what is left is small enough to be read as objects.

A long array of numbers holds no quote, and looking for quotes is what a computer does fastest. Where 4 KiB or more of a
body hold none, behind a closing quote, a colon and a bracket, an array is cut out and a mark put in its place.

A mark cannot be taken for anything else. It begins with `["` and a letter: had it been put into a string, its quote
would end the string and the letter stand where no letter may, so that the outline would not parse; the reader then
reads the body uncut. And it holds a number that is drawn when the process starts and never leaves it, so no body can
hold one.
"""

from __future__ import annotations

import re
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Container
from typing import NamedTuple

_BLOCK = 2048
_SECRET = "x" + secrets.token_hex(16)
_OPENING = re.compile(rb"[ \t\n\r]*:[ \t\n\r]*(?=\[)")
_BOM = b"\xef\xbb\xbf"


class Span(NamedTuple):
    """The bytes from `start` up to `stop` of a body."""

    start: int
    stop: int


class Outline:
    """`text` is the body without `cuts` (spans of the body, each one JSON array if the body is JSON) and without a byte
    order mark."""

    __slots__ = ("_base", "_lost", "_marks", "body", "cuts", "text")

    def __init__(self, body: bytes, cuts: list[Span]) -> None:
        self.body = body
        self.cuts = cuts
        self._base = len(_BOM) if body.startswith(_BOM) else 0
        self._marks: list[Span] = []
        self._lost: list[int] = []
        self.text = self._cut() if cuts or self._base else body

    def _cut(self) -> bytes:
        pieces: list[bytes] = []
        position, length, lost = self._base, 0, self._base
        for index, cut in enumerate(self.cuts):
            mark = _mark(index)
            pieces += (self.body[position : cut.start], mark)
            start = length + cut.start - position
            length = start + len(mark)
            lost += cut.stop - cut.start - len(mark)
            self._marks.append(Span(start, length))
            self._lost.append(lost)
            position = cut.stop
        pieces.append(self.body[position:])
        return b"".join(pieces)

    def in_body(self, position: int) -> int:
        """Where in the body a position of the outline lies; one within a mark counts as the cut array's start."""
        index = bisect_right(self._marks, position, key=lambda mark: mark.start) - 1 if self._marks else -1
        if index < 0:
            return position + self._base
        if position < self._marks[index].stop:
            return self.cuts[index].start
        return position + self._lost[index]

    def span_in_body(self, span: Span) -> Span:
        """Where in the body a span of the outline lies."""
        if self.text is self.body:
            return span
        return Span(self.in_body(span.start), self.in_body(span.stop))

    def cuts_within(self, span: Span) -> range:
        """The indexes of the cuts that lie in a span of the outline."""
        if not self._marks:
            return range(0)
        first = bisect_left(self._marks, span.start, key=lambda mark: mark.start)
        last = bisect_right(self._marks, span.stop, key=lambda mark: mark.stop)
        return range(first, max(first, last))

    def stretch(self, span: Span, keep: Container[int]) -> bytes:
        """A span of the outline in which only the cuts of `keep` are still cut."""
        if not self.cuts:
            return self.text[span.start : span.stop]
        pieces: list[bytes] = []
        position = span.start
        for index in self.cuts_within(span):
            if index not in keep:
                mark = self._marks[index]
                pieces += (self.text[position : mark.start], self.body[slice(*self.cuts[index])])
                position = mark.stop
        pieces.append(self.text[position : span.stop])
        return b"".join(pieces)


def outline_of(body: bytes) -> Outline:
    """The outline of a body, its long arrays cut out."""
    return Outline(body, find_cuts(body))


def uncut(body: bytes) -> Outline:
    """The outline of a body in which nothing is cut."""
    return Outline(body, [])


def _mark(index: int) -> bytes:
    return b'["%s.%d"]' % (_SECRET.encode(), index)


def cut_index(value: object) -> int | None:
    """Which cut a parsed value is the mark of; None where it is none."""
    if type(value) is not list or len(value) != 1:
        return None
    text = value[0]
    if type(text) is not str or not text.startswith(_SECRET):
        return None
    return int(text[len(_SECRET) + 1 :])


def find_cuts(body: bytes) -> list[Span]:
    """The spans of arrays without a quote or an object in them that are the value of a key: all of 4 KiB and more, and
    some that are shorter. What looks like one in a string may be among them."""
    cuts: list[Span] = []
    position, size = 0, len(body)
    while position + _BLOCK <= size:
        if body.find(b'"', position, position + _BLOCK) >= 0:
            position += _BLOCK
            continue
        start = body.rfind(b'"', 0, position) + 1
        stop = body.find(b'"', position + _BLOCK)
        stop = size if stop < 0 else stop
        if (cut := _array_in(body, start, stop)) is not None:
            cuts.append(cut)
        position = stop + 1
    return cuts


def _array_in(body: bytes, start: int, stop: int) -> Span | None:
    """The array that follows a key which ended just before `start`, if it ends before `stop`."""
    opening = _OPENING.match(body, start, stop)
    if opening is None or body[start - 2 : start - 1] == b"\\":
        return None
    first = opening.end()
    end_of_object = body.find(b"}", first, stop)
    stop = stop if end_of_object < 0 else end_of_object
    last = body.rfind(b"]", first, stop)
    if last < 0 or body.find(b"{", first, stop) >= 0:
        return None
    return Span(first, last + 1)
