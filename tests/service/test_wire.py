"""The JSON shapes of refusals, and the table from codes to statuses (H5, H10a)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge import errors
from groupjudge.answers.encoding import UnsupportedEncoding
from groupjudge.core.views import GroupView
from groupjudge.model import (
    Fingerprint,
    GroupFailure,
    GroupId,
    JudgeFailure,
    Judgement,
    Metrics,
    Rewarded,
    Run,
    UnnamedKey,
    Verdict,
)
from groupjudge.service import wire
from groupjudge.service.bodies import BodyTimeout, UnsupportedMediaType

CONTRACT = {
    409: {"superseded", "question_mismatch", "answer_conflict", "group_closed", "result_gone", "size_mismatch"},
    422: {"invalid_request"},
    413: {"too_large"},
    503: {"group_failed", "shutting_down", "judge_failed"},
    401: {"unauthorized"},
    404: {"not_found"},
    405: {"method_not_allowed"},
    408: {"body_timeout"},
    415: {"unsupported_media_type"},
    500: {"internal"},
    429: {"overloaded"},
}


def test_the_table_is_that_of_the_contract() -> None:
    """H5."""
    for status, codes in CONTRACT.items():
        assert {code for code, given in wire.STATUS.items() if given == status} - {"stale_attempt"} == codes


def _leaves(kind: type[Exception]) -> list[type[Exception]]:
    below = kind.__subclasses__()
    return [leaf for each in below for leaf in _leaves(each)] if below else [kind]


REFUSALS = [
    errors.BodyTooLarge("x"),
    errors.Unauthorized("x"),
    errors.NotFound("x"),
    errors.QuestionMismatch("x"),
    errors.Superseded("x"),
    errors.ResultGone("x"),
    errors.SizeMismatch("x"),
    errors.AnswerConflict("x"),
    errors.GroupClosed("x"),
    errors.StaleAttempt("x"),
    errors.Unauthorized("x"),
    errors.NotFound("x"),
    errors.Overloaded("x"),
    errors.SpoolFull("x"),
    errors.GroupFailed("x"),
    errors.ShuttingDown("x"),
    errors.JudgeFailed("x", "y"),
    BodyTimeout("x"),
    UnsupportedMediaType("x"),
    UnsupportedEncoding("x"),
]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_every_refusal_has_a_status_of_its_own(error: errors.GroupJudgeError) -> None:
    """H5: its code beside its detail; none falls through to 500."""
    reply = wire.of_error(error)
    assert json.loads(reply.body)["code"] == error.code
    assert reply.status == wire.STATUS[error.code] != 500
    assert json.loads(reply.body)["detail"].startswith("x")


def test_every_kind_of_refusal_is_tried_here() -> None:
    """A class that is added to the tree of errors must get a status, and a place above."""
    tried = {type(error) for error in REFUSALS} | {errors.InvalidRequest}
    assert set(_leaves(errors.CallerError)) | set(_leaves(errors.ServerError)) <= tried | set(
        _leaves(errors.InvalidRequest)
    )


def test_an_error_that_nobody_knows_is_internal() -> None:
    """H5."""
    reply = wire.of_error(errors.ConfigurationError("x"))
    assert (reply.status, json.loads(reply.body)["code"]) == (500, "internal")


def test_remedies_are_named() -> None:
    """H5, L20: a higher attempt, or without an id a fresh one."""
    gone = json.loads(wire.of_error(errors.ResultGone("gone")).body)["detail"]
    assert "higher _ng_group_attempt for every member" in gone
    failed = errors.GroupFailed("failed")
    assert "_ng_group_attempt" in json.loads(wire.of_error(failed).body)["detail"]
    unnamed = json.loads(wire.of_error(failed, unnamed=True).body)["detail"]
    assert "a fresh _ng_group_id" in unnamed
    assert "_ng_group_attempt" not in unnamed


def test_what_headers_refusals_carry() -> None:
    """H5: whole seconds after which to try again; how to authorise; that the connection ends."""
    assert dict(wire.of_error(errors.Overloaded("x")).headers)[b"retry-after"].isdigit()
    assert dict(wire.refusal("unauthorized", "x").headers) == {b"www-authenticate": b"Bearer"}
    assert dict(wire.of_error(BodyTimeout("x")).headers) == {b"connection": b"close"}
    assert wire.of_error(errors.GroupFailed("x")).headers == ()


def test_a_failure_of_a_group_by_its_kind() -> None:
    """H5, L19: a caller that waited is told the same as one that comes later."""
    stopping = wire.of_failure(GroupFailure("shutting_down", "x"))
    assert (stopping.status, json.loads(stopping.body)["code"]) == (503, "shutting_down")
    for kind in ("superseded", "collection_timeout", "internal"):
        reply = wire.of_failure(GroupFailure(kind, "why"))
        assert reply == wire.of_error(errors.GroupFailed("why"))


any_text = st.text(st.characters(codec=None), max_size=6000)


@given(any_text, st.sampled_from(sorted(wire.STATUS)), st.booleans())
def test_a_refusal_is_small_json_whatever_it_says(text: str, code: str, unnamed: bool) -> None:
    """H10a."""
    reply = wire.refusal(code, text, unnamed=unnamed)
    assert len(reply.body) <= 4096
    assert json.loads(reply.body.decode())["code"] == code


@pytest.mark.parametrize("character", ["\x00", "\U0001f600", "\ud800", '"', "x"])
def test_a_long_reason_keeps_its_beginning(character: str) -> None:
    """H10a, J12: as much of it as fits; 1,000 plain characters do."""
    reply = wire.refusal("judge_failed", character * 5000)
    assert len(reply.body) <= 4096
    assert len(json.loads(reply.body)["detail"]) >= (1000 if character in "x\ud800" else 400)


steps = st.one_of(any_text, st.integers(0, 10**6))
problems = st.lists(
    st.builds(
        lambda loc, msg, kind: {"loc": loc, "msg": msg, "type": kind}, st.lists(steps, max_size=20), any_text, any_text
    ),
    min_size=1,
    max_size=40,
)


@given(problems)
def test_a_list_of_faults_is_small_json_too(found: list[errors.FieldProblem]) -> None:
    """H5, H10a."""
    reply = wire.of_error(errors.InvalidRequest(found))
    said = json.loads(reply.body.decode())
    assert (reply.status, said["code"]) == (422, "invalid_request")
    assert len(reply.body) <= 4096
    assert 1 <= len(said["detail"]) <= len(found)
    assert all(set(problem) == {"loc", "msg", "type"} for problem in said["detail"])


def test_of_many_long_faults_the_first_are_told() -> None:
    """H5, H10a: as many as fit."""
    found: list[errors.FieldProblem] = [
        {"loc": ["body", *["x" * 99] * 7], "msg": f"{number} {'é' * 500}", "type": "t" * 99} for number in range(40)
    ]
    reply = wire.of_error(errors.InvalidRequest(found))
    assert 2000 <= len(reply.body) <= 4096
    told = [problem["msg"].split()[0] for problem in json.loads(reply.body)["detail"]]
    assert told == [str(number) for number in range(len(told))]


def test_a_comparison_in_full() -> None:
    """H6."""
    judgement = Judgement((1.0, 2.0), (Verdict(0, 1, 0, 4.0, 2.0, 3.0),), Metrics(3.0, 1.0, 0.0))
    assert json.loads(wire.comparison(judgement, judgement.rewards).body) == {
        "rewards": [1.0, 2.0],
        "comparison_results": [
            {"response_i": 0, "response_j": 1, "judge_idx": 0, "score_1": 4.0, "score_2": 2.0, "ranking": 3.0}
        ],
        "metrics": {"mean_individual_score": 3.0, "std_individual_score": 1.0, "tiebreak_usage_rate": 0.0},
    }
    assert json.loads(wire.comparison(None, []).body) == {"rewards": [], "comparison_results": None, "metrics": None}


def view(**changes: object) -> GroupView:
    fields = {
        "key": GroupId("g"),
        "attempt": 2,
        "run": Run(7),
        "phase": "collecting",
        "size": 3,
        "present": (1,),
        "callers": 4,
        "started": 10.0,
        "complete_since": None,
        "finished": None,
        "outcomes": None,
        **changes,
    }
    return GroupView(**fields)  # type: ignore[arg-type]


def test_a_group_that_collects() -> None:
    """H8: ages are in seconds from now."""
    row = wire.group_row(view(), 12.5)
    assert row["id"] == "g"
    assert (row["attempt"], row["size"], row["members"], row["missing"]) == (2, 3, [1], [0, 2])
    assert (row["callers"], row["age_s"], row["judging_s"], row["finished_s_ago"]) == (4, 2.5, None, None)


def test_a_group_that_finished() -> None:
    """H8: how long it was judged, how long ago; and its outcome without what its judge said."""
    times = {"complete_since": 11.0, "finished": 14.0, "present": (0, 1, 2)}
    rewarded = wire.group_row(view(**times, outcomes=(Rewarded(1.0), Rewarded(2.0), Rewarded(0.5))), 20.0)
    assert (rewarded["judging_s"], rewarded["finished_s_ago"]) == (3.0, 6.0)
    assert rewarded["outcome"] == {"rewards": [1.0, 2.0, 0.5]}
    masked = wire.group_row(view(**times, outcomes=(JudgeFailure("the judge said x"),) * 3), 20.0)
    assert masked["outcome"] == {"failure": "judge_failed"}
    failed = wire.group_row(view(**times, outcomes=(GroupFailure("superseded", "why"),) * 3), 20.0)
    assert failed["outcome"] == {"failure": "superseded", "reason": "why"}


def test_a_group_without_an_id_shows_its_key_but_no_fingerprint() -> None:
    """H8, L20."""
    row = wire.group_row(view(key=UnnamedKey("task", 5, Fingerprint(b"secret"), 2)), 12.0)
    assert (row["id"], row["key"]) == (None, {"kind": "task", "label": 5})
    assert "secret" not in str(row)


def test_the_reason_of_a_failed_group_is_told_without_the_advice() -> None:
    """L5, A5: an adapter's user sets no attempt."""
    detail = json.loads(wire.of_error(errors.GroupFailed("a member never came")).body)["detail"]
    assert "higher _ng_group_attempt" in detail
    assert errors.GroupFailed(detail).reason == "a member never came"
    assert errors.GroupFailed("bare").reason == "bare"
