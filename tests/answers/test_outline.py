"""Long arrays, set apart."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.answers.outline import Outline, Span, cut_index, find_cuts, outline_of, uncut

from .json_values import Paths, answers, rngs, spell

LONG = "[" + "1," * 3000 + "2]"


def cut_texts(text: str) -> list[str]:
    """What is cut from a body."""
    body = text.encode()
    return [body[slice(*cut)].decode() for cut in find_cuts(body)]


@pytest.mark.parametrize(
    ("text", "cuts"),
    [
        ('{"a":%s}', 1),
        ('{"a" \n:\t %s , "b":1}', 1),
        ('{"a":%s,"b":%s,"c":"x"}', 2),
        ('{"a":{"b":%s}}', 1),
        ('{"a":[{"b":%s}],"c":[]}', 1),
        ('{"a\\\\":%s}', 0),
        ("[%s]", 0),
        ('["a",%s]', 0),
        ('{"a":[{},%s]}', 0),
        ('{"a":[[1],{},%s]}', 0),
        ('{"a":"%s"}', 0),
        ('{"a":"\\":%s"}', 0),
    ],
)
def test_what_is_cut(text: str, cuts: int) -> None:
    """The whole array that is the value of a key, and nothing that is not known to be one."""
    body = text.replace("%s", LONG)
    assert cut_texts(body) == [LONG] * cuts


def test_every_array_of_4_kib_is_cut() -> None:
    """Wherever it starts; and short ones are left alone."""
    array = "[" + "1," * 2047 + "1]"
    for padding in range(0, 4100, 97):
        assert cut_texts(f'{{"p":"{"x" * padding}","a":{array}}}') == [array]
    assert cut_texts("{" + ",".join(f'"k{index}":{array}' for index in range(9)) + "}") == [array] * 9
    assert cut_texts('{"a":[' + "1," * 900 + "1]}") == []


def test_an_outline_without_cuts_is_the_body_itself() -> None:
    """Nothing is copied."""
    body = b'{"a":1}'
    assert outline_of(body).text is body
    assert uncut(b"\xef\xbb\xbf" + body).text == body


@given(answers, rngs, st.booleans())
def test_places_in_an_outline_are_places_in_the_body(answer: Any, rng: random.Random, bom: bool) -> None:
    """H2: each character outside of the marks is the body's, and the cuts put back give the body."""
    body = (b"\xef\xbb\xbf" if bom else b"") + spell(answer, rng).encode()
    with Paths(block=2):
        outline = outline_of(body)
    everything = Span(0, len(outline.text))
    marks = [Span(outline.text.find(mark), 0) for mark in _marks(outline)]
    assert outline.stretch(everything, keep=()) == body[3 * bom :]
    assert outline.stretch(everything, keep=range(len(outline.cuts))) == outline.text
    inside = False
    for position, code in enumerate(outline.text):
        inside = inside or any(mark.start == position for mark in marks)
        if inside:
            inside = code != ord("]")
        else:
            assert body[outline.in_body(position)] == code
    assert outline.in_body(len(outline.text)) == len(body)
    assert [outline.in_body(outline.text.find(mark) + 1) for mark in _marks(outline)] == [c.start for c in outline.cuts]


def _marks(outline: Outline) -> list[bytes]:
    return [outline.text[slice(*outline._marks[index])] for index in range(len(outline.cuts))]


def test_marks_are_known_by_what_they_stand_for() -> None:
    """And nothing else is."""
    outline = outline_of(f'{{"a":{LONG},"b":{LONG}}}'.encode())
    assert {key: cut_index(value) for key, value in json.loads(outline.text).items()} == {"a": 0, "b": 1}
    assert outline.cuts_within(Span(0, len(outline.text) - 2)) == range(1)
    assert outline.cuts_within(Span(3, len(outline.text))) == range(2)
    for other in (None, 5, "x", [], ["x"], [1], [["x"]], ["x", "y"], ["x" + "0" * 32 + ".1"]):
        assert cut_index(other) is None


def test_a_mark_in_a_string_is_no_json() -> None:
    """Whatever is in the string: that is how a wrong cut is noticed."""
    body = b'{"a":": %s b"}' % LONG.encode()
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(Outline(body, [Span(body.index(b"["), body.index(b"]") + 1)]).text)
