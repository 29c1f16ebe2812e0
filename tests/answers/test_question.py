"""Questions, and that those read last are remembered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groupjudge.answers.fingerprint import question_fingerprint
from groupjudge.answers.jsontext import Malformed
from groupjudge.answers.question import read_question
from groupjudge.model import Message, Topic

from .test_verify import problems, read, with_fields

LONG = "x" * 10_000


def asking(question: Any, **fields: Any) -> dict[str, Any]:
    return with_fields(responses_create_params={"input": question}, **fields)


def test_members_of_a_group_share_what_is_known_of_their_question() -> None:
    """P6: its texts are in memory once, however many members wait."""
    first, second = (read(asking([{"role": "user", "content": "Why?"}], _ng_rollout_index=slot)) for slot in (0, 1))
    assert first.arrival.topic is second.arrival.topic
    assert first.arrival.question == second.arrival.question


@pytest.mark.parametrize("question", ["Why?", [{"role": "system", "content": "Be brief."}], LONG], ids=str)
@pytest.mark.parametrize("principle", [None, "", "be kind"])
def test_a_question_is_the_same_the_second_time(question: Any, principle: str | None) -> None:
    """L23: remembered or not, with its own principle and no other."""
    text = json.dumps(question).encode()
    told = Message("user", question) if isinstance(question, str) else Message("system", "Be brief.")
    for _ in range(2):
        asked = read_question(text, principle)
        assert asked.topic == Topic((told,), principle)
        assert asked.fingerprint == question_fingerprint(question, principle)
        assert asked.faults == ()


def test_long_questions_are_not_remembered() -> None:
    """P6: what is remembered takes little memory, whatever is asked."""
    text = json.dumps(LONG).encode()
    assert read_question(text, None).topic is not read_question(text, None).topic


@pytest.mark.parametrize("question", [None, 1, [{}, "x"]], ids=str)
def test_a_faulty_question_is_refused_each_time_and_before_its_principle(question: Any) -> None:
    """H1, H5: faults are told in one order."""
    place = "responses_create_params.input" + (".1" if isinstance(question, list) else "")
    for _ in range(2):
        assert [where for where, _ in problems(asking(question, principle=1))] == [place, "principle"]


def test_what_is_no_json_is_malformed_each_time() -> None:
    """H10."""
    for _ in range(2):
        with pytest.raises(Malformed):
            read_question(b"[1,]", None)


def test_faults_are_bounded_together() -> None:
    """H10a: those of the question, and what comes after them."""
    assert len(problems(asking([1] * 15, principle=1, _ng_group_id=1))) == 16
