"""The short way through a text that is one JSON value gives what the long way gives (J11)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.judging import reading
from groupjudge.judging.reading import ReadingRules, ReadResult, read_verdict

RULES = ReadingRules()
names = st.sampled_from(["score_1", "score_2", "ranking", "overall", "why", "\u00e9\ud800"])
numbers = st.one_of(
    st.integers(-1, 7).map(str),
    st.floats(0, 7).map(repr),
    st.sampled_from(["1e0", "1E+0", "-0", "1e999", "01", "+1", "1.", ".5", "NaN", "Infinity", "-Infinity", "1" * 5000]),
)
words = st.sampled_from(
    ['"4"', '"x{"', '"\\u0031"', '"\\x"', '"a\nb"', "'4'", "null", "true", "nul", "", "4,", "// x\n4"]
)


def _objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(names, values), max_size=4)
    members = pairs.map(lambda found: ",".join(f"{json.dumps(name)}: {value}" for name, value in found))
    return st.one_of(members.map("{{{}}}".format), members.map("{{{} ".format), members.map("{{{},}}".format))


values = st.recursive(
    numbers | words,
    lambda inner: _objects(inner) | st.lists(inner, max_size=2).map(lambda items: f"[{','.join(items)}]"),
    max_leaves=8,
)
verdicts = st.tuples(numbers, numbers, numbers).map(
    lambda three: f'{{"score_1": {three[0]}, "score_2": {three[1]}, "ranking": {three[2]}}}'
)


def the_long_way(text: str) -> ReadResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_plain", lambda _: None)
        return read_verdict(text, RULES)


@given(_objects(values) | verdicts, st.sampled_from(["", " ", "\ufeff", "\n```", "<think>"]))
def test_both_ways_read_the_same_verdict_or_give_the_same_reason(text: str, around: str) -> None:
    """J11."""
    for shown in (text, around + text, text + around):
        assert read_verdict(shown, RULES) == the_long_way(shown)


@pytest.mark.parametrize(
    "text", ['{"score_1": 1, "score_2": 2, "ranking": 3}', '[{"overall": {"score_1": 1, "score_2": "2"}}]']
)
def test_a_plain_verdict_needs_no_lenient_reader(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What most judges send takes the short way; else nothing here would be tested."""
    monkeypatch.setattr(reading, "LenientReader", None)
    assert read_verdict(text, RULES).reading is not None


@pytest.mark.parametrize("depth", [100, 101])
def test_both_ways_agree_on_how_deep_is_too_deep(depth: int) -> None:
    """J11: what the long way gives up, the short way does not read."""
    nest = "[" * (depth - 1) + "]" * (depth - 1)
    text = f'{{"score_1": 1, "score_2": 2, "ranking": 3, "why": {nest}}}'
    assert read_verdict(text, RULES) == the_long_way(text)
    assert (read_verdict(text, RULES).reading is None) == (depth > 100)


def test_a_key_that_comes_twice_is_seen_at_any_depth() -> None:
    """J11."""
    twice = '{"score_1": 1, "score_2": 2, "ranking": 3, "why": {"a": 1, "a": 1}}'
    assert read_verdict(twice, RULES).problem == "a key comes twice"
