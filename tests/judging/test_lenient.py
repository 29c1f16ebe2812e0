import collections
import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.judging.lenient import (
    MAX_DEPTH,
    START_COST,
    WORK_FREE,
    WORK_PER_CHARACTER,
    Broken,
    Found,
    LenientReader,
    Tangled,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
).filter(lambda value: isinstance(value, dict | list))


def read(text: str, start: int = 0, fence: int = 0) -> Found | Broken:
    return LenientReader(text).read(start, fence)


def found(text: str, start: int = 0, fence: int = 0) -> Found:
    result = read(text, start, fence)
    assert isinstance(result, Found), result
    return result


@given(json_values, st.text(max_size=10), st.text(max_size=10), st.booleans(), st.sampled_from([None, 2]))
def test_json_is_read_as_the_standard_library_reads_it(
    value: Any, before: str, after: str, ascii_only: bool, indent: Any
) -> None:
    """J11: whatever stands around it."""
    written = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    result = found(before + written + after, len(before))
    assert result == (json.loads(written, parse_int=float), len(before + written), True, True, True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        ("[]", []),
        ("[1, -2.5, 1e2, 0, -0.5E-1]", [1.0, -2.5, 100.0, 0.0, -0.05]),
        ('[true, false, null, "x"]', [True, False, None, "x"]),
        ('{"\\u0061\\n": "\\""}', {"a\n": '"'}),
        ("[Infinity, -Infinity]", [float("inf"), float("-inf")]),
        ("[1e999]", [float("inf")]),
        ('[{"a": [{}]}]', [{"a": [{}]}]),
    ],
)
def test_plain_json_needs_no_repair(text: str, value: object) -> None:
    """J11."""
    assert found(text) == (value, len(text), True, True, True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1.0}),
        ("[1,]", [1.0]),
        ('{"a": 1 // one\n, "b": 2}', {"a": 1.0, "b": 2.0}),
        ('{"a": 1, # one\n "b": 2}', {"a": 1.0, "b": 2.0}),
        ('{/* one */ "a" /* ** */ : /* */ 1}', {"a": 1.0}),
        ("{'a': 1}", {"a": 1.0}),
        ("{'a \" \\' b': '}'}", {"a \" \\' b": "}"}),
        ("{“a”: “it’s”}", {"a": "it’s"}),
        ("{”a”: 1}", {"a": 1.0}),
        ("{„a“: 1}", {"a": 1.0}),
        ('{‘a’: ‘b"’}', {"a": 'b"'}),
        ('{"a": "x\ny\tz"}', {"a": "x\ny\tz"}),
        ('{"a": "\\(x\\)"}', {"a": "\\(x\\)"}),
        ('{"a": "x\\\ny"}', {"a": "x\\\ny"}),
        ('{"a": "x\n\\u0062"}', {"a": "x\nb"}),
        ("{'a': '\\u0034'}", {"a": "\\u0034"}),
        ('{"a": 1', {"a": 1.0}),
        ('{"a": {"b": [1]}  ', {"a": {"b": [1.0]}}),
    ],
)
def test_what_is_repaired_keeps_its_values_and_is_not_called_strict(text: str, value: object) -> None:
    """J11."""
    result = found(text)
    assert (result.value, result.end, result.strict) == (value, len(text), False)


@pytest.mark.parametrize(
    "text",
    [
        "[1 2]",
        "[1;2]",
        "[,1]",
        "[1,,2]",
        "{,}",
        '{"a" 1}',
        '{"a": }',
        '{"a": 1 "b": 2}',
        '{"a": 1,, "b": 2}',
        '{"a"}',
        '{"a": 1]',
        '["a": 1]',
        "[1}",
        "{a: 1}",
        "{1: 1}",
        '{"a": b}',
        '{"a": 4/5}',
        '{"a": 4 of 5}',
        '{"a": +4}',
        '{"a": 04}',
        '{"a": 4.}',
        '{"a": .5}',
        '{"a": 4e}',
        '{"a": 0x4}',
        '{"a": 1_0}',
        '{"a": ４}',
        '{"a": None}',
        '{"a": True}',
        '{"a": nan}',
        '{"a": "b}',
        "{'a\nb': 1}",
        "{'a\": 1}",
        "{“a\nb”: 1}",
        "{‘a\nb’: 1}",
        "{“a”b”: 1}",
        "{‘it’s’: 1}",
        '{"a": "he said "yes""}',
        "{'a': 'it's'}",
        '{"a": 1 /* {} */}',
        '{"a": 1 // {"b": 2}\n}',
        '{"a": 1 // ```\n}',
        '{"a": 1 /* open }',
        '{"a": 1 / 2}',
        '{"a": 1 // no line end',
        # More than the final brace is missing.
        '{"a": 1,',
        '{"a":',
        '{"a"',
        '{"a": {"b": 1',
        '{"a": [1',
        '{"a": "x',
        "{",
        "[1",
        '[{"a": 1}',
        # The final brace is missing in the middle of the text.
        '{"a": 1 and so on',
        '{"a": 1 ``` and so on',
    ],
)
def test_what_would_need_a_guess_is_broken(text: str) -> None:
    """J11: nothing is invented."""
    assert isinstance(read(text), Broken)


def test_a_final_brace_may_be_missing_where_its_fenced_block_ends() -> None:
    """J11: at a fence of that length, and only inside of one."""
    text = '{"a": 1\n```'
    assert found(text, fence=3) == ({"a": 1.0}, 8, False, True, False)
    assert isinstance(read(text, fence=4), Broken)
    assert isinstance(read(text, fence=0), Broken)


def test_only_a_missing_final_brace_makes_an_object_not_closed() -> None:
    assert found('{"a": 1').closed is False
    assert found('{"a": 1,}').closed is True


@pytest.mark.parametrize(
    ("text", "unique"),
    [
        ('{"a": 1, "a": 1}', False),
        ('{"a": 1, "\\u0061": 2}', False),
        ("{\"a\": 1, 'a': 2}", False),
        ('{"x": {"a": 1, "a": 2}, "b": 1}', False),
        ('[{"a": 1, "a": 2}, {"b": 1}]', False),
        ('{"a": {"a": 1}, "b": {"a": 2}}', True),
    ],
)
def test_a_key_that_comes_twice_is_told(text: str, unique: bool) -> None:
    """J11."""
    assert found(text).unique is unique


def test_nothing_is_carried_over_from_one_reading_to_the_next() -> None:
    reader = LenientReader("{'a': 1, 'a': 2}{\"b\": 1}{\"c\"")
    assert isinstance(first := reader.read(0), Found)
    assert (first.strict, first.unique) == (False, False)
    assert reader.read(first.end) == ({"b": 1.0}, 24, True, True, True)
    assert reader.read(24) == Broken(25)


def test_nesting_is_read_up_to_its_limit() -> None:
    assert isinstance(read("[" * MAX_DEPTH + "]" * MAX_DEPTH), Found)
    with pytest.raises(Tangled, match="nested more than 100 deep"):
        read("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    with pytest.raises(Tangled, match="nested more than 100 deep"):
        read('{"a":' * (MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        # Got as far as a key: what is inside goes with it, up to its own closing brace.
        ('{"a": 1 "b": {"c": 2}} rest', " rest"),
        ('{"a": "}" "b": ["{"]} rest', " rest"),
        ('{"a": x, "b": "\\"}", "c": (1]} rest', " rest"),
        ('{"a": [1, x} rest]} rest', " rest"),
        ("{bare: {'c': 2}} rest", " rest"),
        # It has no closing brace: what stood before the fault goes with it.
        ('{"a": {"b": 1}, oops {"c": 1}', 'oops {"c": 1}'),
        ('{"a": 1 ```} rest', "```} rest"),
        ('{"a": x "} rest', 'x "} rest'),
        # No key at all: prose in braces, or a list, and what is inside is looked at.
        ('{"a", {"b": 1}}', '"a", {"b": 1}}'),
        ('{ {"b": 1}}', ' {"b": 1}}'),
        ('[see {"b": 1}]', 'see {"b": 1}]'),
        ('[{"a": 1} {"b": 1}]', '{"a": 1} {"b": 1}]'),
    ],
)
def test_a_broken_object_takes_along_what_is_part_of_it(text: str, rest: str) -> None:
    """J11: a part of an object is not a verdict of its own."""
    result = read(text)
    assert isinstance(result, Broken)
    assert text[result.end :] == rest


HOSTILE: dict[str, Callable[[int], str]] = {
    "braces": lambda n: "{" * n,
    "brackets": lambda n: "[" * n,
    "objects": lambda n: '{"a":' * (n // 5),
    "objects, broken": lambda n: '{"a":x' * (n // 6),
    "objects and lists": lambda n: '{"a":[' * (n // 6),
    "open strings": lambda n: '{"' * (n // 2),
    "open strings in lists": lambda n: '["' * (n // 2),
    "keys alone": lambda n: '{"a"' * (n // 4),
    "both phases": lambda n: '{"a":b{"' * (n // 8),
    "escapes": lambda n: '{"a":"\\"' * (n // 8),
    "single quotes": lambda n: "{'" * (n // 2),
    "curly quotes": lambda n: "{“" * (n // 2),
    "comments": lambda n: "{/*" * (n // 3),
    "line comments": lambda n: '{"a": //\n' * (n // 9),
    "digits": lambda n: "[" * 90 + "1" * n + "x",
    "long strings": lambda n: "[" * 90 + '"' + "a" * n + '" x',
    "closed lists": lambda n: "[1]," * (n // 4),
    "blanks": lambda n: "{" + " " * n,
    "broken and closed": lambda n: '{"a":' * 90 + "x" * n + "}" * 90,
}


def read_everywhere(text: str) -> LenientReader:
    """Read at each opening bracket, as a caller that skips nothing of its own accord."""
    reader, pos = LenientReader(text), 0
    try:
        while (pos := min((at for at in (text.find("{", pos), text.find("[", pos)) if at >= 0), default=-1)) >= 0:
            end = reader.read(pos).end
            assert end > pos
            pos = end
    except Tangled:
        pass
    return reader


def calls_made(function: Callable[[], object]) -> int:
    """How many calls, of Python and of C functions, running `function` makes."""
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_the_work_for_any_text_is_bounded_by_its_length(make: Callable[[int], str]) -> None:
    """J11: counted by the reader itself and, as it might not count all, in calls: those do not outgrow the text."""
    size = 12_000
    short, long = make(size), make(2 * size)
    # One operation may overshoot the limit, by at most one pass over the text.
    assert read_everywhere(long).spent <= (WORK_PER_CHARACTER + 1) * len(long) + WORK_FREE + START_COST
    few, many = calls_made(lambda: read_everywhere(short)), calls_made(lambda: read_everywhere(long))
    assert many <= 2.2 * few + 200


@pytest.mark.parametrize(
    "text", ['{"a": "%s"}', '["%s" x', '["%s', "['%s", "[1%s_", '{"a": x, %s', '{"a": x, "%s"', '{"a": x, "%s']
)
def test_every_character_gone_over_is_counted(text: str) -> None:
    """J11: found or broken, in a string, a word or the search for the end of a wreck."""
    reader = LenientReader(text % ("1" * 1_000))
    reader.read(0)
    assert 1_000 <= reader.spent <= 2_200


def test_a_tangled_text_is_given_up() -> None:
    """J11."""
    text = "[" * 90 + '"' + "a" * 20_000 + '" x'
    reader = LenientReader(text)
    with pytest.raises(Tangled, match="too tangled"):
        collections.deque(map(reader.read, range(90)))


def test_an_honest_text_is_not_given_up() -> None:
    """The densest JSON there is costs less than the limit, and any short text may be gone over many times."""
    assert isinstance(read("[" + "1," * 50_000 + "1]"), Found)
    assert isinstance(read("[" + "[],{}," * 20_000 + "1]"), Found)
    assert read_everywhere("[" * 50 + " x ").spent < WORK_FREE
