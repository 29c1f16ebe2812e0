"""What the client asks, and when it asks again (A4), with replies as a script and no time passing."""

from __future__ import annotations

import json
import time
from ssl import SSLCertVerificationError, SSLEOFError, SSLError
from typing import Any

import pytest

from groupjudge import errors
from groupjudge.client import steps
from groupjudge.client.steps import Steps
from groupjudge.client.values import Judged, JudgeFailure, Pause, Reply, Request, Rewarded, Submission

IDENTITY = {"_ng_group_id": "g", "_ng_group_attempt": 0, "_ng_rollout_index": 1}
PLAIN = {"reward": 2.5, "mask_sample": False, "failure_kind": None, "failure_reason": None}
FAILED = {"reward": 0.0, "mask_sample": True, "failure_kind": "judge_failed", "failure_reason": "ill"}


def reply(status: int, body: object, **headers: str) -> Reply:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, sent)


def refused(status: int, code: str, detail: object = "because", **headers: str) -> Reply:
    return reply(status, {"detail": detail, "code": code}, **headers)


REWARD = reply(200, {**PLAIN, **IDENTITY})
PENDING = reply(202, {"status": "pending"}, location="/v1/groups/g/0/1", retry_after="1")
SOON = time.monotonic() + 10_000


class Played:
    """What came of a script: the result, what was asked, and how long it paused."""

    def __init__(self, work: Steps[Any], *script: Reply | OSError) -> None:
        self.asked: list[Request] = []
        self.paused: list[float] = []
        replies = list(script)
        came: Reply | OSError | None = None
        try:
            while True:
                step = work.send(came)
                if isinstance(step, Pause):
                    self.paused.append(step.seconds)
                    came = None
                else:
                    self.asked.append(step)
                    came = replies.pop(0)
        except StopIteration as done:
            self.result = done.value
        assert replies == []


def verify(*script: Reply | OSError, deadline: float = SOON) -> Played:
    return Played(steps.verify(b"body", deadline), *script)


def test_a_reward_and_a_judge_failure_are_values() -> None:
    """A4, J13: told apart by their class; what default scores stood in for is said."""
    assert verify(REWARD).result == Rewarded(2.5, 1)
    assert verify(reply(200, {**FAILED, **IDENTITY})).result == JudgeFailure("ill", 1)
    noted = {**PLAIN, "failure_kind": "groupjudge:default_scores", "failure_reason": "unreadable"}
    assert verify(reply(200, {**noted, **IDENTITY})).result == Rewarded(2.5, 1, *list(noted.values())[2:])


@pytest.mark.parametrize(
    "trouble",
    [
        ConnectionRefusedError("nobody"),
        ConnectionResetError("gone"),
        TimeoutError("silence"),
        refused(503, "shutting_down"),
        refused(408, "body_timeout"),
        refused(429, "overloaded"),
        reply(502, b"<html>Bad gateway</html>"),
        reply(503, b""),
        reply(504, b"upstream timed out"),
    ],
    ids=lambda trouble: f"{trouble.status}" if isinstance(trouble, Reply) else type(trouble).__name__,
)
def test_what_may_pass_is_tried_again_with_the_same_identity(trouble: Reply | OSError) -> None:
    """A4: the very same request, after a pause that grows."""
    played = verify(*[trouble] * 9, REWARD)
    assert played.result == Rewarded(2.5, 1)
    assert played.asked == [Request("POST", "/verify", b"body", {"Prefer": "return=minimal"})] * 10
    assert len(played.paused) == 9
    assert all(0.05 * 2**n <= pause <= 0.1 * 2**n for n, pause in enumerate(played.paused[:6]))
    assert all(2.5 <= pause <= 5 for pause in played.paused[6:])


@pytest.mark.parametrize(("status", "code"), [(429, "overloaded"), (503, "shutting_down")])
def test_a_server_that_says_when_is_believed(status: int, code: str) -> None:
    """A4, H5: `Retry-After`; a date is none of ours."""
    assert verify(refused(status, code, retry_after="7"), REWARD).paused == [7.0]
    assert verify(refused(status, code, retry_after="Wed, 21 Oct 2026 07:28:00 GMT"), REWARD).paused[0] <= 0.1


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (409, "superseded", errors.Superseded),
        (409, "question_mismatch", errors.QuestionMismatch),
        (409, "answer_conflict", errors.AnswerConflict),
        (409, "group_closed", errors.GroupClosed),
        (409, "result_gone", errors.ResultGone),
        (409, "size_mismatch", errors.SizeMismatch),
        (409, "stale_attempt", errors.StaleAttempt),
        (413, "too_large", errors.BodyTooLarge),
        (401, "unauthorized", errors.Unauthorized),
        (404, "not_found", errors.NotFound),
        (503, "group_failed", errors.GroupFailed),
        (500, "internal", errors.UnexpectedReply),
        (405, "method_not_allowed", errors.UnexpectedReply),
        (418, "a_teapot", errors.UnexpectedReply),
    ],
)
def test_every_refusal_is_raised_as_what_it_is(status: int, code: str, kind: type[Exception]) -> None:
    """A4, H5: at once, with the server's words."""
    with pytest.raises(kind, match="because") as raised:
        verify(refused(status, code))
    assert type(raised.value) is kind


@pytest.mark.parametrize("kind", errors.Refusal.__subclasses__())
def test_every_refusal_of_a_groups_state_is_known(kind: type[errors.Refusal]) -> None:
    """A4: a class that is added to the tree is told apart here too."""
    with pytest.raises(kind):
        verify(refused(409, kind.code))


def test_a_malformed_request_keeps_its_problems() -> None:
    """A4, H5."""
    problem = {"loc": ["body", "x"], "msg": "x must be y", "type": "t"}
    with pytest.raises(errors.InvalidRequest, match="x must be y") as raised:
        verify(refused(422, "invalid_request", [problem]))
    assert raised.value.problems == [problem]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", {}, {**PLAIN}, {**PLAIN, **IDENTITY, "reward": None}])
def test_a_reply_without_an_outcome_is_none(body: object) -> None:
    """Nothing is made up."""
    with pytest.raises(errors.UnexpectedReply):
        verify(reply(200, body))


def test_a_certificate_that_is_not_trusted_does_not_pass_by_itself() -> None:
    """A4: tried again it would hide what has to be mended."""
    with pytest.raises(SSLCertVerificationError):
        verify(SSLCertVerificationError("self-signed"))
    with pytest.raises(SSLError, match="WRONG_VERSION"):
        verify(SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"))
    assert verify(SSLEOFError("cut"), REWARD).result == Rewarded(2.5, 1)


def test_the_deadline_ends_the_tries_and_names_the_last_trouble() -> None:
    """A4: before the pause that would lead beyond it."""
    with pytest.raises(errors.DeadlinePassed, match="because") as raised:
        verify(
            ConnectionRefusedError("nobody"),
            refused(429, "overloaded", retry_after="60"),
            deadline=time.monotonic() + 30,
        )
    assert isinstance(raised.value, TimeoutError)


# -- submit and result


def test_a_submission_names_its_place() -> None:
    """A2, A4: the slot is the server's; the body is kept, to be sent again."""
    played = Played(steps.submit("g", 0, b"body", SOON), ConnectionResetError(), PENDING)
    assert played.result == Submission("g", 0, 1, b"body")
    assert played.asked[0].headers == {"Prefer": "respond-async, return=minimal"}


def test_an_outcome_that_is_known_at_once_is_in_the_submission() -> None:
    """A2, A4: nothing more is asked then."""
    submission = Played(steps.submit("g", 0, b"body", SOON), REWARD).result
    assert submission.outcome == Rewarded(2.5, 1)
    assert Played(steps.result(submission, SOON)).result == Rewarded(2.5, 1)


@pytest.mark.parametrize("headers", [{}, {"location": "/v1/groups/g/0/x"}])
def test_a_202_without_a_place_is_no_reply(headers: dict[str, str]) -> None:
    """A4."""
    with pytest.raises(errors.UnexpectedReply, match="Location"):
        Played(steps.submit("g", 0, b"body", SOON), reply(202, {}, **headers))


def test_a_result_is_asked_for_until_it_is_there() -> None:
    """A2, A4: at its percent-encoded place, with a wait that no proxy cuts; not in a busy loop where nobody waits."""
    submission = Submission("run/7 ü", 2, 1, b"body")
    played = Played(steps.result(submission, SOON), PENDING, ConnectionResetError(), PENDING, REWARD)
    assert played.result == Rewarded(2.5, 1)
    assert {each.path for each in played.asked} == {"/v1/groups/run%2F7%20%C3%BC/2/1?wait=30.000"}
    assert played.paused.count(1.0) == 2


def test_a_result_that_nobody_knows_is_submitted_again() -> None:
    """A4: the server was restarted; the identity is the same, the slot may be another (A3)."""
    submission = Submission("g", 0, 0, b"body")
    played = Played(steps.result(submission, SOON), refused(404, "not_found"), PENDING, REWARD)
    assert [(each.method, each.path.partition("?")[0]) for each in played.asked] == [
        ("GET", "/v1/groups/g/0/0"),
        ("POST", "/verify"),
        ("GET", "/v1/groups/g/0/1"),
    ]


def test_a_404_of_somebody_else_is_no_word_of_the_server() -> None:
    """A4: a proxy's page, or a server of another kind."""
    with pytest.raises(errors.UnexpectedReply):
        Played(steps.result(Submission("g", 0, 0, b"body"), SOON), reply(404, b"<html>nginx</html>"))


# -- judge


def test_a_whole_group_comes_back_in_order() -> None:
    """A1, A4: rewards, or None for each where the judge failed."""
    verdicts, metrics = [{"response_i": 0}], {"mean_individual_score": 3.0}
    rows = {"rewards": [1.0, 2.0], "outcomes": [{**PLAIN, "reward": 1.0}, {**PLAIN, "reward": 2.0}]}
    played = Played(steps.judge(b"b", SOON), reply(200, {**rows, "verdicts": verdicts, "metrics": metrics}))
    assert played.result == Judged((Rewarded(1.0, 0), Rewarded(2.0, 1)), verdicts, metrics)
    assert played.result.rewards == [1.0, 2.0]
    failed = {"outcomes": [{**FAILED, "reward": None}] * 2, "verdicts": None, "metrics": None}
    judged = Played(steps.judge(b"b", SOON), reply(200, failed)).result
    assert judged.outcomes == (JudgeFailure("ill", 0), JudgeFailure("ill", 1))
    assert judged.rewards == [None, None]


@pytest.mark.parametrize("body", [{}, {"outcomes": 5}, {"outcomes": [5]}, {"outcomes": [{}]}, {"outcomes": []}])
def test_a_group_without_outcomes_is_no_reply(body: object) -> None:
    """Nothing is made up."""
    with pytest.raises(errors.UnexpectedReply):
        Played(steps.judge(b"b", SOON), reply(200, body))
