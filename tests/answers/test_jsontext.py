"""The two readers of JSON, and how deep a text is."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groupjudge.answers import jsontext
from groupjudge.answers.jsontext import (
    Malformed,
    WideInt,
    check_depth,
    check_utf8,
    members,
    parse,
    parse_tolerant,
    spacing_of_integers,
)

from .json_values import fixed, referee, rngs, spell, values

ODD_STRINGS = ['"]', "\\", "\\\\", '\\"', '{"\\', "[[[", "}}}", "", '"', "[\\"]


def depth_of(value: Any) -> int:
    """How many levels of lists and dicts a value has, counted plainly."""
    if not isinstance(value, list | dict):
        return 0
    return 1 + max(map(depth_of, value.values() if isinstance(value, dict) else value), default=0)


def nested(rng: random.Random, depth: int) -> Any:
    """A value of odd strings and at most so many levels."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice([*ODD_STRINGS, 1.5, None])
    inner = [nested(rng, depth - 1) for _ in range(rng.randrange(4))]
    return (
        {f"{rng.choice(ODD_STRINGS)}{index}": each for index, each in enumerate(inner)} if rng.random() < 0.5 else inner
    )


def is_within(text: bytes, depth: int) -> bool:
    try:
        check_depth(text, depth)
    except Malformed:
        return False
    return True


@given(rngs, st.integers(1, 9), st.sampled_from([3, 7, 64, 65_536]), st.sampled_from([2, 128]))
def test_the_depth_of_a_text_is_that_of_its_value(rng: random.Random, depth: int, chunk: int, few: int) -> None:
    """H10: whatever its strings hold, and wherever it is taken apart to be looked at."""
    value = nested(rng, depth)
    text = json.dumps(value).encode()
    before = jsontext._CHUNK, jsontext._FEW
    jsontext._CHUNK, jsontext._FEW = chunk, few
    try:
        for limit in range(max(0, depth_of(value) - 2), depth_of(value) + 2):
            assert is_within(text, limit) == (depth_of(value) <= limit)
    finally:
        jsontext._CHUNK, jsontext._FEW = before


@given(
    st.lists(st.recursive(st.integers(0, 99), lambda inner: st.lists(inner, max_size=4), max_leaves=40), max_size=9),
    st.sampled_from([1, 2, 7, 4096]),
    st.sampled_from([2, 128]),
    st.sampled_from([",", ", ", ",\t", "\r\n,"]),
)
def test_an_array_of_integers_is_known_as_one_with_its_depth_and_its_spaces(
    value: list[Any], stretch: int, few: int, comma: str
) -> None:
    """H10, P11: wherever it is taken apart to be looked at."""
    text = json.dumps([value, [1] * 2000], separators=(comma, ":")).encode()
    depth = depth_of([value, [1]])
    before = jsontext._STRETCH, jsontext._FEW
    jsontext._STRETCH, jsontext._FEW = stretch, few
    try:
        for limit in range(max(0, depth - 2), depth + 2):
            spacing = spacing_of_integers(b"..." + text + b"...", limit, 3, 3 + len(text))
            assert spacing == (None if depth > limit else "none" if comma == "," else "some")
            assert is_within(text, limit) == (depth <= limit)
    finally:
        jsontext._STRETCH, jsontext._FEW = before


@pytest.mark.parametrize("odd", ["-1", "1.5", "1e5", "1E5", "null", "true", "NaN", '"1"', "{}", "[[-0]]", "+1"])
def test_an_array_that_holds_anything_but_integers_without_a_sign_is_not_known_as_one_of_them(odd: str) -> None:
    """L21: its text may not be its canonical one."""
    for text in (f"[[1],[{odd}]]", f"[[1], {odd}]", "[" + "[1]," * 9000 + odd + "]"):
        assert spacing_of_integers(text.encode(), 256, 0, len(text)) is None


@pytest.mark.parametrize(
    "string", ['"' + "x" * 70_000 + '"', '"\\\\"', '"\\""', '"\\\\\\""', '"]]]"', '""'], ids=lambda each: each[:8]
)
def test_no_string_hides_a_depth(string: str) -> None:
    """H10: long ones, and those that end with what looks like an escape."""
    text = f"[{string}{',[' * 299}1{']' * 300}".encode()
    assert is_within(text, 300)
    assert not is_within(text, 299)


@pytest.mark.parametrize("text", [b"[" * 5, b'["[[[[', b'{"a":[{"b":[', b"]]]][[[", b'"\\', b'[[[[["\\"', b""])
def test_the_depth_of_what_is_no_json_is_known_up_to_the_fault(text: bytes) -> None:
    """H10: and it says at which byte it grows too deep."""
    assert is_within(text, 5)
    with pytest.raises(Malformed) as raised:
        check_depth(b"[" * 300 + text, 256)
    assert raised.value.offset == 256


@given(values, rngs)
def test_both_readers_read_the_same(value: Any, rng: random.Random) -> None:
    """H10: where both can; and what they read is the value that was spelled."""
    text = spell(fixed(value), rng).encode()
    assert referee(_plain(parse(text))) == referee(_plain(parse_tolerant(text))) == referee(fixed(value))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return int(value.text) if isinstance(value, WideInt) else value


@given(st.dictionaries(st.text(max_size=3), values, max_size=4), rngs)
def test_members_lie_where_they_are_said_to(value: dict[str, Any], rng: random.Random) -> None:
    """H2: in bytes, equal keys in order."""
    text = spell(fixed(value), rng).strip(" \t\n\r").encode()
    found = members(text)
    assert {member.key: referee(_plain(parse(text[member.start : member.stop]))) for member in found} == {
        key: referee(each) for key, each in fixed(value).items()
    }
    assert all(text[member.key_start : member.start].lstrip().startswith(b'"') for member in found)


@given(st.text(), st.integers(1, 7), st.binary(max_size=2), st.integers(0, 50))
@example("\u20ac\U0001f600", 1, b"", 0)
def test_utf8_is_checked_a_part_at_a_time(text: str, chunk: int, piece: bytes, at: int) -> None:
    """H10: a character may lie across two parts; the first bad byte is named."""
    data = text.encode("utf-8", "ignore")
    data = data[:at] + piece + data[at:]
    before, jsontext._CHUNK = jsontext._CHUNK, chunk
    try:
        assert _first_bad_byte(check_utf8, data) == _first_bad_byte(bytes.decode, data)
    finally:
        jsontext._CHUNK = before


def _first_bad_byte(read: Callable[[bytes], object], data: bytes) -> int | None:
    try:
        read(data)
    except Malformed as error:
        return error.offset
    except UnicodeDecodeError as error:
        return error.start
    return None


@pytest.mark.parametrize(
    "text",
    [b"[]", b"5", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":1,}', b"{1:2}", b"{}x", b'{"a":1}]', b"{,}"],
)
def test_what_is_no_object_has_no_members(text: bytes) -> None:
    """H10: each with the byte at which it goes wrong."""
    with pytest.raises(Malformed) as raised:
        members(text)
    assert 0 <= raised.value.offset <= len(text)


def test_an_empty_object_has_no_members() -> None:
    """H4."""
    assert members(b" { } ") == []
