"""The canonical form: one for each value, written twice alike, and readable."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.msgpack import Ext

from groupjudge.answers.canonical import canonical, canonical_plain
from groupjudge.answers.jsontext import WideInt

from .json_values import fixed, integers, referee, values

sizes = st.sampled_from([0, 1, 2, 4, 8, 15, 16, 17, 31, 32, 33, 255, 256, 257, 65_535, 65_536])


@given(values)
def test_both_writers_write_the_same(value: Any) -> None:
    """L21: the one in C refuses some values, never writes them otherwise."""
    assert canonical(value) == canonical_plain(value)


@given(sizes, st.sampled_from(["text", "ext", "list", "dict", "é"]))
def test_both_writers_write_the_same_at_every_size(size: int, kind: str) -> None:
    """L21: each length has its own head."""
    made: dict[str, Any] = {
        "text": "x" * size,
        "é": "é" * size,
        "ext": Ext(2, bytes(size)),
        "list": [None] * size,
        "dict": {str(each): each for each in range(size)},
    }
    assert canonical(made[kind]) == canonical_plain(made[kind])


@given(integers)
@example(127)
@example(128)
@example(-32)
@example(-33)
@example(-128)
@example(-129)
@example(2**16 - 1)
@example(-(2**15) - 1)
@example(2**32 - 1)
@example(-(2**31) - 1)
def test_both_writers_write_the_same_integers(value: int) -> None:
    """L21: each in its shortest form."""
    assert canonical(value) == canonical_plain(value)


def _read_back(code: int, data: memoryview) -> object:
    return int(bytes(data)) if code == 3 else bytes(data).decode("utf-8", "surrogatepass")


@given(values)
def test_a_form_can_be_read_back(value: Any) -> None:
    """L21: so different values have different forms."""
    value = fixed(value)
    if not _has_odd_key(value):
        assert referee(msgspec.msgpack.decode(canonical(value), ext_hook=_read_back)) == referee(value)


def _has_odd_key(value: Any) -> bool:
    """A reader that knows no keys but strings cannot read those."""
    if isinstance(value, list):
        return any(map(_has_odd_key, value))
    if not isinstance(value, dict):
        return False
    return any(map(_has_odd_key, value.values())) or any(any(0xD800 <= ord(c) < 0xE000 for c in key) for key in value)


def test_a_wide_integer_is_written_alike_as_text_and_as_number() -> None:
    """L21: how wide one must be to stay text is nobody's business."""
    assert canonical(WideInt("-" + "9" * 700)) == canonical(-(10**700) + 1)


def test_keys_are_sorted_by_their_utf8() -> None:
    """L21: which is also the order of code points, beyond the first plane too."""
    keys = ["", "a", "ab", "b", "\x7f", "é", "\ud800", "\uffff", "\U00010000"]
    one = canonical(dict.fromkeys(keys))
    assert one == canonical(dict.fromkeys(reversed(keys)))
    assert [one.find(key.encode("utf-8", "surrogatepass")) for key in keys[1:]] == sorted(
        one.find(key.encode("utf-8", "surrogatepass")) for key in keys[1:]
    )


def test_depth_is_no_matter() -> None:
    """H10: both writers go as deep as a body may."""
    value: Any = 1
    for level in range(256):
        value = [value] if level % 2 else {"a": value}
    assert canonical(value) == canonical_plain(value)
