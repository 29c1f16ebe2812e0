"""JSON as a careful reader takes it: one object or list out of the middle of a text, repaired only where nothing is
guessed (J11).

Own code, because no library does just this. Repairing ones put values where none stood (a missing comma, `4 out of 5`,
the last of two equal keys) and some of them take quadratic time; strict ones say neither where a broken object ends nor
that a key came twice, and recurse. What is accepted beyond JSON, and nothing else:

    a comma before a closing bracket        comments: // and # to the line's end, /* */, without braces or backticks
    strings in single or curly quotes       raw line breaks and unknown escapes in a string
    the final brace of an object missing, at the end of the text or of the fenced block that holds it

The parser keeps its own stack and counts its steps: text that is tangled on purpose ends in `Tangled`, after work
that is linear in its length. `Broken.end` says where reading may go on: an object that got as far as the colon of its
first key takes what stands inside it along, so that a part of it never passes for a verdict of its own.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

MAX_DEPTH: Final = 100
"""Deeper nesting is tangled. No verdict is nested so."""
WORK_PER_CHARACTER: Final = 12
"""What a text may cost before it is given up: this for each character, and WORK_FREE for any text. Going over a
character costs 1, a step of the parser STEP_COST more, a start START_COST; the densest JSON costs 9 a character."""
WORK_FREE: Final = 20_000
STEP_COST: Final = 8
START_COST: Final = 32

_CLOSERS: Final = {"{": "}", "[": "]"}
_BLANK: Final = re.compile(r"\s*+")
# A brace or fence after a comment mark more likely belongs to something else than to a comment.
_COMMENT: Final = re.compile(r"(?://|\#)[^\n{}`]*+\n|/\*(?:[^*{}`]++|\*(?!/))*+\*/")
_WORD: Final = re.compile(r"[\w.+\-]*+")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_LITERALS: Final = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_DOUBLE: Final = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SINGLE: Final = re.compile(r"(?:[^'\\\n]++|\\.)*+")
_CURLY: Final = re.compile("[^“”„\n]*+")
_CURLY_SINGLE: Final = re.compile("[^‘’‚\n]*+")
# Opening quote: what the string may hold, and what may close it.
_QUOTES: Final = {
    '"': (_DOUBLE, '"'),
    "'": (_SINGLE, "'"),
    **dict.fromkeys("“”„", (_CURLY, "“”")),
    **dict.fromkeys("‘’‚", (_CURLY_SINGLE, "‘’")),
}
QUOTE_MARKS: Final = frozenset(_QUOTES)
_RAW_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_BARE_KEY: Final = re.compile(r"\{\s*+[A-Za-z_]\w*+\s*+:")
_SKELETON: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[{}\[\]]|`{3,}', re.DOTALL)


class Tangled(ValueError):
    """The text is nested too deep, or took more work than a text of its length may."""


class Found(NamedTuple):
    """A whole object or list.

    value: dict, list, str, float (every number), bool or None. end: the index behind it. strict: it is JSON as it
    stands. unique: no object in it has a key twice (of equal keys the last is in `value`). closed: its final brace is
    there.
    """

    value: object
    end: int
    strict: bool
    unique: bool
    closed: bool


class Broken(NamedTuple):
    """No object or list starts here. `end` is the index from which to look for the next one."""

    end: int


class _Stop(Exception):
    """What stands at `at` fits nowhere."""

    def __init__(self, at: int) -> None:
        self.at = at


class _Frame:
    """An object or list that is still open at `at`: what it holds so far, and what may come next."""

    __slots__ = ("at", "closer", "filled", "items", "key", "members")

    def __init__(self, at: int, closer: str) -> None:
        self.at = at
        self.closer = closer
        self.members: dict[str, object] = {}
        self.items: list[object] = []
        self.key: str | None = None
        self.filled = False

    @property
    def is_object(self) -> bool:
        return self.closer == "}"

    @property
    def empty(self) -> bool:
        return not self.members and not self.items

    @property
    def value(self) -> object:
        return self.members if self.is_object else self.items


class LenientReader:
    """Reads objects and lists out of one text, and counts what that costs in `spent` (see WORK_PER_CHARACTER)."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._limit = WORK_PER_CHARACTER * len(text) + WORK_FREE
        self.spent = 0
        self._unclosed: set[int] = set()

    def read(self, start: int, fence: int = 0) -> Found | Broken:
        """Read what starts at `start`, where a `{` or `[` stands.

        `fence` is the number of backticks that closes the fenced block around it, 0 outside of one. Raises Tangled.
        """
        self._frames: list[_Frame] = []
        self._strict = self._unique = True
        self._keyed = _BARE_KEY.match(self._text, start) is not None
        self._value: object = None
        try:
            end = self._walk(start)
        except _Stop as stop:
            self._spend(stop.at - start + START_COST)
            return self._without_final_brace(stop.at, fence) or Broken(self._next_start(start, stop))
        self._spend(end - start)
        return Found(self._value, end, self._strict, self._unique, closed=True)

    def _spend(self, characters: int) -> None:
        self.spent += characters
        if self.spent > self._limit:
            raise Tangled("the reply is too tangled to be read")

    def _walk(self, start: int) -> int:
        pos = self._open(start)
        while self._frames:
            self._spend(STEP_COST)
            pos = self._step(self._frames[-1], self._skip(pos))
        return pos

    def _skip(self, pos: int) -> int:
        while True:
            pos = self._past(_BLANK, pos)
            comment = _COMMENT.match(self._text, pos)
            if comment is None:
                return pos
            self._strict = False
            pos = comment.end()

    def _past(self, pattern: re.Pattern[str], pos: int) -> int:
        match = pattern.match(self._text, pos)
        return match.end() if match else pos

    def _step(self, frame: _Frame, pos: int) -> int:
        char = self._text[pos : pos + 1]
        if char == frame.closer and frame.key is None:
            return self._close(pos)
        if frame.filled:
            if char != ",":
                raise _Stop(pos)
            frame.filled = False
            return pos + 1
        if frame.is_object and frame.key is None:
            return self._read_key(frame, pos)
        return self._read_value(char, pos)

    def _open(self, pos: int) -> int:
        if len(self._frames) == MAX_DEPTH:
            raise Tangled(f"the reply is nested more than {MAX_DEPTH} deep")
        self._frames.append(_Frame(pos, _CLOSERS[self._text[pos]]))
        return pos + 1

    def _close(self, pos: int) -> int:
        frame = self._frames.pop()
        if not frame.filled and not frame.empty:
            self._strict = False
        self._put(frame.value)
        return pos + 1

    def _put(self, value: object) -> None:
        if not self._frames:
            self._value = value
            return
        frame = self._frames[-1]
        if frame.key is None:
            frame.items.append(value)
        else:
            self._unique = self._unique and frame.key not in frame.members
            frame.members[frame.key] = value
        frame.key = None
        frame.filled = True

    def _read_key(self, frame: _Frame, pos: int) -> int:
        key, end = self._string(pos)
        colon = self._skip(end)
        if not self._text.startswith(":", colon):
            raise _Stop(colon)
        frame.key = key
        self._keyed = True
        return colon + 1

    def _read_value(self, char: str, pos: int) -> int:
        if char in _CLOSERS:
            return self._open(pos)
        value, end = self._string(pos) if char in _QUOTES else self._word(pos)
        self._put(value)
        return end

    def _word(self, pos: int) -> tuple[object, int]:
        end = self._past(_WORD, pos)
        word = self._text[pos:end]
        if word in _LITERALS:
            return _LITERALS[word], end
        if _NUMBER.fullmatch(word):
            return float(word), end
        self._spend(end - pos)
        raise _Stop(pos)

    def _string(self, pos: int) -> tuple[str, int]:
        quote = self._text[pos : pos + 1]
        if quote not in _QUOTES:
            raise _Stop(pos)
        content, closers = _QUOTES[quote]
        end = self._past(content, pos + 1)
        if end == len(self._text) or self._text[end] not in closers:
            self._spend(end - pos)
            raise _Stop(pos)
        body = self._text[pos + 1 : end]
        if quote != '"' or _RAW_CONTROL.search(body):
            self._strict = False
        return (self._unescaped(body) if quote == '"' and "\\" in body else body), end + 1

    def _unescaped(self, body: str) -> str:
        try:
            return str(json.loads(f'"{body}"', strict=False))
        except ValueError:
            # An escape that JSON does not know, as in LaTeX. What the string says is of no matter, where it ends is.
            self._strict = False
            return body

    def _without_final_brace(self, at: int, fence: int) -> Found | None:
        """The object whose text ends at `at` behind a whole member, only its own brace missing."""
        if len(self._frames) != 1 or not self._frames[0].is_object or not self._frames[0].filled:
            return None
        if at < len(self._text) and not (fence and self._text.startswith("`" * fence, at)):
            return None
        return Found(self._frames[0].value, at, strict=False, unique=self._unique, closed=False)

    def _next_start(self, start: int, stop: _Stop) -> int:
        if self._text[start] == "[" or not self._keyed:
            return start + 1
        if start not in self._unclosed:
            end = self._end_of_wreck(stop.at)
            if end is not None:
                return end
        return max(stop.at, start + 1)

    def _end_of_wreck(self, pos: int) -> int | None:
        """Where the outermost of the open frames is closed, only strings and brackets looked at. None where it is not:
        all that stayed open is then remembered, so that no later search goes over the same text again."""
        stack = [(frame.at, frame.closer) for frame in self._frames]
        for token in _SKELETON.finditer(self._text, pos):
            char = token[0][0]
            self._spend(token.end() - pos + STEP_COST)
            pos = token.end()
            if char in _CLOSERS:
                stack.append((token.start(), _CLOSERS[char]))
            elif char == "`":
                break
            elif char == stack[-1][1]:
                stack.pop()
                if not stack:
                    return token.end()
        else:
            self._spend(len(self._text) - pos)
        self._unclosed.update(at for at, _ in stack)
        return None
