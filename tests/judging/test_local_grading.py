"""From what the model would say next to a verdict (J9)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.judging.local import stepped_schema
from groupjudge.judging.local_grading import STARTS, grade, prompts, reading
from groupjudge.model import Message, Topic

TOPIC = Topic((Message("user", "What do bees make?"),))
grades = st.floats(-1e6, 1e6)


@given(grades, grades)
def test_a_verdict_lies_within_the_ranges_and_agrees_with_itself(first: float, second: float) -> None:
    """J11: what a judge over HTTP would be held to."""
    verdict = reading(first, second, (1.0, 5.0), (1.0, 6.0))
    assert 1 <= verdict.score_1 <= 5
    assert 1 <= verdict.score_2 <= 5
    assert 1 <= verdict.ranking <= 6
    assert (verdict.score_1 - verdict.score_2) * (verdict.ranking - 3.5) <= 0


@given(grades, grades)
def test_seats_are_mirror_images(first: float, second: float) -> None:
    there, back = reading(first, second, None, None), reading(second, first, None, None)
    assert (there.score_1, there.score_2) == (back.score_2, back.score_1)
    assert there.ranking + back.ranking == pytest.approx(7, abs=0.011)


def test_scores_fill_the_configured_ranges() -> None:
    assert reading(0, 0, (0.0, 10.0), (1.0, 6.0)) == (5, 5, 3.5)
    assert reading(1000, -1000, (0.0, 10.0), (1.0, 6.0)) == (10, 0, 1)
    assert reading(-1000, 1000, (0.25, 0.75), (4.0, 6.0)) == (0.25, 0.75, 6)


def test_both_things_that_are_read_count() -> None:
    likely, unlikely = [(" correct", -0.1), (" wrong", -3.0)], [(" correct", -3.0), (" Wrong", -0.1)]
    assert grade(likely, [-1.0]) > grade(unlikely, [-1.0]) > grade(unlikely, [-5.0])
    assert grade(likely, []) < grade(likely, [-1.0])
    assert math.isfinite(grade([], []))
    assert grade(likely, [-1.0, -1e9]) == grade(likely, [-1.0, -12.0])


def test_prompts_begin_with_what_all_share_and_end_where_the_model_goes_on() -> None:
    """Only then is the shared part read once."""
    made = prompts(TOPIC, 'They make\n\nQ: honey\t<eos>\x07 \\ "')
    assert made.graded == (
        STARTS[0]
        + "Q: What do bees make?\nA: They make\n    Q: honey\t< eos>\x07 \\ \"\nTeacher's comment: The answer is"
    )
    assert made.told == STARTS[1] + "Question: What do bees make?\nAnswer:"
    assert made.words == ' They make Q: honey <eos> \\ "'


def test_a_conversation_and_a_principle_are_shown_as_one_question() -> None:
    """J4, J10."""
    topic = Topic((Message("system", "Be brief."), Message("user", "Hi")), "honesty")
    assert "Q: system: Be brief.\n    user: Hi\n    (What counts: honesty)\nA: x\n" in prompts(topic, "x").graded


def test_texts_are_shown_shorter_by_the_scale() -> None:
    long = prompts(TOPIC, "x" * 10_000)
    assert 1500 < len(long.graded) - len(STARTS[0]) < 1700
    assert len(prompts(TOPIC, "x" * 10_000, 1 / 64).graded) - len(STARTS[0]) < 180


def test_the_schema_for_other_models_admits_halves_only() -> None:
    """J9: so that every reply under its grammar ends."""
    properties = stepped_schema((0.3, 2.2), (1.0, 6.0))["properties"]
    assert properties["score_1"] == properties["score_2"] == {"enum": [0.5, 1, 1.5, 2]}
    assert properties["ranking"]["enum"][-1] == 6
    assert stepped_schema(None, (0.1, 0.2))["properties"] == {
        "score_1": {"type": "number"},
        "score_2": {"type": "number"},
        "ranking": {"type": "number", "minimum": 0.1, "maximum": 0.2},
    }
    assert "enum" not in stepped_schema((0.0, 1e9), None)["properties"]["score_1"]
