"""Scores of a list out of a judge's text: every name once, nothing clamped, nothing invented (F9, J11)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupjudge.judging.listwise_reading import read_scores
from groupjudge.judging.listwise_template import names_of
from groupjudge.judging.reading import MAX_REPLY_BYTES, ReadingRules

RULES = ReadingRules()
NAMES = names_of(3)
GOOD = '{"scores": {"answer_1": 4, "answer_2": 1.5, "answer_3": 3}}'
OTHER = '{"scores": {"answer_1": 1, "answer_2": 1, "answer_3": 1}}'


def scores(inside: str) -> str:
    return '{"scores": {' + inside + "}}"


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        '{"scores": {"answer_3": 3, "answer_1": "4", "answer_2": "1.5"}, "why": "x"}',
        f"<think>{OTHER}</think>{GOOD}",
        f"No opening tag {OTHER}</think> so: {GOOD}",
        f"```json\n{GOOD}\n``` and outside: {{}}",
        f"First I thought {{'a': 1}}, then: {GOOD}",
        f"[{GOOD}]",
        f'{{"overall": {GOOD}}}',
        "{'scores': {'answer_1': 4, 'answer_2': 1.5, 'answer_3': 3,},}",
        GOOD[:-1],
    ],
)
def test_scores_are_read_by_name(text: str) -> None:
    """F9, J11: thinking dropped, fences, lists of one, `overall`, and what can be repaired without guessing."""
    assert read_scores(text, NAMES, RULES) == ((4.0, 1.5, 3.0), False, "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (scores('"answer_1": 4, "answer_2": 2'), "answer_3 is missing"),
        (scores('"answer_1": 4, "answer_2": 2, "answer_3": null'), "answer_3 is missing"),
        (scores('"answer_1": 4, "answer_2": 2, "answer_3": 3, "answer_4": 1'), "a name that no answer has"),
        (scores('"answer_1": 4, "answer_2": 2, "answer_4": 3'), "a name that no answer has"),
        (scores('"answer_1": 4, "answer_2": 2, "Answer_3": 3'), "a name that no answer has"),
        (scores('"answer_1": 4, "answer_2": 2, "answer_3": 3, "answer_3": 3'), "twice"),
        (GOOD[:-1] + ', "scores": {}}', "twice"),
        (scores('"answer_1": true, "answer_2": 2, "answer_3": 3'), "answer_1 is no finite number"),
        (scores('"answer_1": 4, "answer_2": "4/5", "answer_3": 3'), "answer_2 is no finite number"),
        (scores('"answer_1": 4, "answer_2": [2], "answer_3": 3'), "answer_2 is no finite number"),
        (scores('"answer_1": 4, "answer_2": 1e999, "answer_3": 3'), "answer_2 is no finite number"),
        (scores('"answer_1": NaN, "answer_2": 2, "answer_3": 3'), "answer_1 is no finite number"),
        (scores('"answer_1": 4, "answer_2": 5.01, "answer_3": 3'), "answer_2 is not within 1 to 5"),
        (scores('"answer_1": 0.99, "answer_2": 2, "answer_3": 3'), "answer_1 is not within 1 to 5"),
        ('{"answer_1": 4, "answer_2": 2, "answer_3": 3}', "scores is missing"),
        ('{"scores": [4, 2, 3]}', "scores is missing, or no object"),
        ('{"scores": {"answer_1": 4, "answer_2": 2, "answer_3": 3', "holds no whole JSON object"),
        (f"[{GOOD}, {GOOD}]", "a list of 2"),
        ("4, 2, 3", "holds no whole JSON object"),
        (f"<think>{GOOD}", "holds no whole JSON object"),
        (GOOD + " " * MAX_REPLY_BYTES, "longer than"),
    ],
)
def test_what_is_not_there_once_and_in_range_is_no_list(text: str, problem: str) -> None:
    """F9, J11: the whole list is unreadable, and nothing is filled in."""
    read = read_scores(text, NAMES, RULES)
    assert read.reading is None
    assert problem in read.problem


def test_of_differing_lists_the_last_counts_or_none() -> None:
    """J11: `on_conflict`."""
    text = f"{OTHER} no: {GOOD}"
    assert read_scores(text, NAMES, RULES) == ((4.0, 1.5, 3.0), True, "")
    assert read_scores(text, NAMES, replace(RULES, on_conflict="retry"))[:2] == (None, True)
    assert read_scores(f"{GOOD} {GOOD}", NAMES, RULES).ambiguous is False


def test_without_a_range_any_finite_number_will_do() -> None:
    """J11."""
    text = scores('"answer_1": -7, "answer_2": 1e3, "answer_3": 0')
    assert read_scores(text, NAMES, replace(RULES, score_range=None)).reading == (-7.0, 1000.0, 0.0)


@pytest.mark.parametrize("junk", ["{" * 20_000, '{"scores":' * 5_000, "[" * 20_000])
def test_tangled_text_is_given_up(junk: str) -> None:
    """J11: reading is linear in the length of the text, whatever it holds."""
    assert read_scores(junk, NAMES, RULES).reading is None
