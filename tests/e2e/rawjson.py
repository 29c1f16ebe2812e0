"""The members of a JSON object as they stand in its text: a reader apart from the one under test."""

from __future__ import annotations

import re
from json import JSONDecoder

_SPACE = re.compile(r"[ \t\r\n]*")


def members(body: bytes) -> list[tuple[str, bytes]]:
    """Decoded key and raw value of each member, in order. Raises AssertionError where there is no such object."""
    text = body.decode()
    # Wide integers stay text: Python limits how many digits it turns into a number.
    scan = JSONDecoder(parse_int=str).raw_decode
    found: list[tuple[str, bytes]] = []
    position = _after(text, "{", _skip(text, 0))
    while True:
        key, position = scan(text, _skip(text, position))
        start = _skip(text, _after(text, ":", _skip(text, position)))
        _, stop = scan(text, start)
        found.append((key, text[start:stop].encode()))
        position = _skip(text, stop)
        if text[position] == "}":
            assert _skip(text, position + 1) == len(text), "text behind the object"
            return found
        position = _after(text, ",", position)


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()


def _after(text: str, mark: str, position: int) -> int:
    assert text.startswith(mark, position), f"{mark} must stand at {position}"
    return position + 1
