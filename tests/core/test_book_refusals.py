"""The order of the checks, and that a rejected request leaves no trace (L7).

A case is a situation and a request in it that violates several checks at once; the refusal must be the first one's.
Retired episodes (C24) and field validation come between shutting down and question mismatch; both are the host's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from groupjudge.errors import (
    AnswerConflict,
    GroupClosed,
    GroupFailed,
    GroupJudgeError,
    Overloaded,
    QuestionMismatch,
    ResultGone,
    ShuttingDown,
    SizeMismatch,
    Superseded,
)

from .play import Play, unnamed


def collecting(play: Play) -> None:
    play.arrive(0, attempt=1)


def by_member(play: Play) -> None:
    play.arrive(None, member="zoe", attempt=1)


def judging(play: Play) -> None:
    play.complete(attempt=1)


def held(play: Play) -> None:
    run = play.complete(attempt=1)
    play.book.hold()
    play.judged(run, 1.0, 2.0)


def completed(play: Play) -> None:
    play.finish(attempt=1)


def judge_failed(play: Play) -> None:
    play.finish_without_judge(attempt=1)


def group_failed(play: Play) -> None:
    play.spoil(attempt=1)


def unnamed_failed(play: Play) -> None:
    play.finish_without_judge(unnamed())


def gone(play: Play) -> None:
    """Only g's record is left: the result was pushed out by another group's."""
    play.finish(attempt=1)
    play.finish("another")
    assert [key for key, _ in play.records()] == ["g", "another"]


def record_gone(play: Play) -> None:
    """Only g's result is left: the record was pushed out when another's was renewed behind it (L13)."""
    play.finish(attempt=1)
    play.book._memory.records.drop(next(key for key, _ in play.records()))


def closed(play: Play) -> None:
    play.finish(attempt=1)
    play.close()


class Case(NamedTuple):
    """`also` is what the request violates besides `error`: a later check."""

    error: type[GroupJudgeError]
    also: str
    situation: Callable[[Play], None]
    request: dict[str, Any]


OTHER = {"question": "other", "answer": "x", "size": 3}
CASES = [
    # shutting down comes before everything
    Case(ShuttingDown, "question mismatch", closed, {"attempt": 1, "question": "other"}),
    Case(ShuttingDown, "superseded", closed, {"attempt": 0}),
    Case(ShuttingDown, "nothing: an exact retry", closed, {"attempt": 1}),
    Case(ShuttingDown, "nothing: alone", closed, {"key": "new", "size": 1}),
    # question mismatch comes before superseded, result gone, the limit, group failure, size, conflict, closed
    Case(QuestionMismatch, "superseded", collecting, {"attempt": 0, "question": "other"}),
    Case(QuestionMismatch, "superseded", completed, {"attempt": 0, "question": "other"}),
    Case(QuestionMismatch, "superseded, by its record only", gone, {"attempt": 0, "question": "other"}),
    Case(QuestionMismatch, "superseded, by its result only", record_gone, {"attempt": 0, "question": "other"}),
    Case(QuestionMismatch, "result gone", gone, {"attempt": 1, "question": "other"}),
    Case(QuestionMismatch, "the limit", gone, {"attempt": 2, "question": "other"}),
    Case(QuestionMismatch, "nothing: a new attempt of an active id", collecting, {"attempt": 2, "question": "other"}),
    Case(QuestionMismatch, "group failure", group_failed, {"attempt": 1, "question": "other"}),
    Case(QuestionMismatch, "size mismatch, conflict", collecting, {"attempt": 1, **OTHER}),
    Case(QuestionMismatch, "size mismatch, conflict", completed, {"attempt": 1, **OTHER}),
    Case(QuestionMismatch, "alone", collecting, {"attempt": 2, "question": "other", "size": 1}),
    # superseded comes before the rest; result gone is about another attempt than it is
    Case(Superseded, "the newest result is gone, the limit", gone, {"attempt": 0}),
    Case(Superseded, "the newest failed as a group", group_failed, {"attempt": 0}),
    Case(Superseded, "size mismatch, conflict", collecting, {"attempt": 0, "size": 3, "answer": "x"}),
    Case(Superseded, "size mismatch, conflict", completed, {"attempt": 0, "size": 3, "answer": "x"}),
    Case(Superseded, "its record is gone", record_gone, {"attempt": 0}),
    # result gone comes before the limit and whatever its group would have said
    Case(ResultGone, "the limit", gone, {"attempt": 1}),
    Case(ResultGone, "size mismatch, conflict", gone, {"attempt": 1, "size": 3, "answer": "x"}),
    # the limit, where a group would be formed: so no check of a known attempt can fail as well
    Case(Overloaded, "a new id", completed, {"key": "new"}),
    Case(Overloaded, "a newer attempt of a finished group", completed, {"attempt": 2}),
    Case(Overloaded, "a newer attempt of a failed group", group_failed, {"attempt": 2}),
    Case(Overloaded, "a newer attempt of a gone one", gone, {"attempt": 2}),
    # group failure comes before size mismatch, conflict and closed; no group is formed, so the limit does not count
    Case(GroupFailed, "nothing: an exact retry", group_failed, {"attempt": 1}),
    Case(GroupFailed, "size mismatch", group_failed, {"attempt": 1, "size": 3}),
    Case(GroupFailed, "conflict", group_failed, {"attempt": 1, "answer": "x"}),
    Case(GroupFailed, "closed", group_failed, {"attempt": 1, "member": "zoe"}),
    Case(GroupFailed, "alone: size mismatch", group_failed, {"attempt": 1, "size": 1}),
    Case(GroupFailed, "conflict, without an id", unnamed_failed, {"key": unnamed(), "answer": "x"}),
    Case(GroupFailed, "size mismatch, without an id", unnamed_failed, {"key": unnamed(), "size": 3}),
    # size mismatch comes before conflict and closed
    Case(SizeMismatch, "conflict", collecting, {"attempt": 1, "size": 3, "answer": "x"}),
    Case(SizeMismatch, "conflict", judging, {"attempt": 1, "size": 3, "answer": "x"}),
    Case(SizeMismatch, "conflict", completed, {"attempt": 1, "size": 3, "answer": "x"}),
    Case(SizeMismatch, "conflict", judge_failed, {"attempt": 1, "size": 3, "answer": "x"}),
    Case(SizeMismatch, "closed: no such slot", held, {"attempt": 1, "size": 3, "slot": 2}),
    Case(SizeMismatch, "closed: by member id", collecting, {"attempt": 1, "size": 3, "member": "zoe"}),
    # conflict comes before closed: the slot is part of the group, another answer's
    Case(AnswerConflict, "nothing: the group is open", collecting, {"attempt": 1, "answer": "x"}),
    Case(AnswerConflict, "closed: judging has begun", judging, {"attempt": 1, "answer": "x"}),
    Case(AnswerConflict, "closed: the outcome is held", held, {"attempt": 1, "answer": "x"}),
    Case(AnswerConflict, "closed: the group has finished", completed, {"attempt": 1, "answer": "x"}),
    Case(AnswerConflict, "closed: its judge failed", judge_failed, {"attempt": 1, "answer": "x"}),
    Case(AnswerConflict, "the same member id", by_member, {"attempt": 1, "member": "zoe", "answer": "x"}),
    # closed
    Case(GroupClosed, "nothing: a member id where slots are indexes", judging, {"attempt": 1, "member": "zoe"}),
    Case(GroupClosed, "nothing: an index where slots are member ids", by_member, {"attempt": 1, "slot": 0}),
]


def limited_to_what_is_active(situation: Callable[[Play], None]) -> Play:
    """The situation in a book whose limit on active groups is reached."""
    play = Play(max_active_groups=2, max_results=1 if situation is gone else 4)
    situation(play)
    if situation is not closed:
        for number in range(2 - sum(view.finished is None for view in play.book.groups())):
            play.arrive(0, key=f"waiting {number}")
    play.book.drain()
    return play


@pytest.mark.parametrize("case", CASES, ids=[f"{c.error.code} before {c.also} ({c.situation.__name__})" for c in CASES])
def test_the_first_check_that_fails_is_the_answer_and_nothing_changes(case: Case) -> None:
    """L7: no group, no record, no member, no renewal, no caller, no effect; not even a number is used up."""
    play = limited_to_what_is_active(case.situation)
    play.now += 1.0
    before = play.state()
    with pytest.raises(case.error) as error:
        play.arrive(**{"slot": 0, **case.request})
    assert type(error.value) is case.error
    assert play.state() == before
    assert play.book.drain() == []


def test_every_refusal_of_the_core_has_a_case() -> None:
    """L7: the list above leaves none out."""
    assert {case.error for case in CASES} == {
        ShuttingDown,
        QuestionMismatch,
        Superseded,
        ResultGone,
        Overloaded,
        GroupFailed,
        SizeMismatch,
        AnswerConflict,
        GroupClosed,
    }


def test_at_the_limit_a_newer_attempt_may_replace_an_active_one() -> None:
    """L7: the limit counts only where none is replaced."""
    play = limited_to_what_is_active(collecting)
    play.arrive(0, attempt=2)
    assert sum(view.finished is None for view in play.book.groups()) == 2


def test_at_the_limit_members_and_retries_of_active_groups_are_welcome() -> None:
    """L7: they form no group."""
    play = limited_to_what_is_active(collecting)
    play.arrive(0, attempt=1)
    play.arrive(1, attempt=1)
    assert play.phases()["g"] == "judging"


def test_a_rejected_request_still_finds_time_passed() -> None:
    """L7, L15: what was due happens, whether or not the request that noticed it is welcome."""
    play = Play(collection_timeout_s=10.0)
    play.arrive(0)
    play.now = 10.0
    with pytest.raises(GroupFailed, match="1 of 2"):
        play.arrive(0)
    assert [type(effect).__name__ for effect in play.book.drain()] == ["Settle", "Release"]
