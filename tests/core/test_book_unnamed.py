"""Groups without a group id (L20)."""

import pytest

from groupjudge.errors import AnswerConflict, GroupClosed, GroupFailed, SizeMismatch
from groupjudge.model import Fingerprint, JudgeFailure, Run, UnnamedKey

from .play import Play, kinds, outcomes, rewards, unnamed


def test_members_of_one_task_and_question_form_a_group() -> None:
    """L20: all rules of an active group hold."""
    play = Play()
    tickets = [play.arrive(0, key=unnamed()), play.arrive(0, key=unnamed()), play.arrive(1, key=unnamed())]
    assert list(rewards(play.judged(Run(1), 4.0, 2.0))) == tickets


def test_another_label_kind_question_or_attempt_is_another_group() -> None:
    """L20: the key is all of them together; and none of these supersedes another."""
    play = Play()
    question = Fingerprint(b"q")
    keys = [
        unnamed(7),
        unnamed(8),
        unnamed(7, question="other"),
        unnamed(7, attempt=1),
        UnnamedKey("prompt", "7", question, 0),
        UnnamedKey("question", None, question, 0),
    ]
    for key in keys:
        play.arrive(0, key=key, attempt=key.attempt, question=key.question.decode())
    assert play.phases() == dict.fromkeys(keys, "collecting")


def test_attempts_do_not_supersede_each_other() -> None:
    """L20: a lower attempt is as good as a higher one."""
    play = Play()
    for attempt in (5, 2):
        play.finish(unnamed(attempt=attempt), attempt=attempt)
    assert kinds(play.book.drain()) == []


def test_a_completed_one_is_forgotten_at_once() -> None:
    """L20: the next run may use the key again, with other answers and another size."""
    play = Play()
    play.finish(unnamed())
    assert play.phases() == {}
    assert play.records() == []
    assert play.book.next_deadline() is None
    assert play.complete(unnamed(), size=3, answer="new") == Run(2)


def test_a_late_retry_of_a_completed_one_may_take_a_slot_of_the_next_run() -> None:
    """L20: only an id prevents that."""
    play = Play()
    play.finish(unnamed())
    play.arrive(0, key=unnamed())
    with pytest.raises(AnswerConflict):
        play.arrive(0, key=unnamed(), answer="of the next run")


def test_no_record_is_made_of_one() -> None:
    """L20: not while it is active, not when it failed, not by a retry."""
    play = Play()
    play.arrive(0, key=unnamed())
    assert play.records() == []
    play.finish_without_judge(unnamed(8))
    play.arrive(0, key=unnamed(8))
    play.spoil(unnamed(9))
    assert play.records() == []


def test_an_exact_retry_of_a_judge_failure_gets_the_masked_reply() -> None:
    """L20: it keeps answering its key."""
    play = Play()
    play.finish_without_judge(unnamed())
    ticket = play.arrive(1, key=unnamed())
    assert outcomes(play.book.drain()) == {ticket: JudgeFailure("the judge is ill")}


@pytest.mark.parametrize(
    "request_",
    [{"answer": "x"}, {"size": 3}, {"size": 1}, {"member": "zoe"}],
    ids=["answer", "size", "alone", "member"],
)
def test_everything_else_that_asks_for_a_judge_failure_is_told_that_the_group_failed(request_: dict) -> None:
    """L20: 503, where a group with an id would say what differs."""
    play = Play()
    play.finish_without_judge(unnamed())
    with pytest.raises(GroupFailed, match="the judge is ill"):
        play.arrive(0, key=unnamed(), **request_)


@pytest.mark.parametrize("request_", [{}, {"answer": "x"}, {"size": 3}], ids=["exact retry", "answer", "size"])
def test_everything_that_asks_for_a_group_failure_is_told_so(request_: dict) -> None:
    """L20: 503, an exact retry too."""
    play = Play(collection_timeout_s=10.0)
    play.arrive(0, key=unnamed())
    play.advance(10.0)
    with pytest.raises(GroupFailed, match="1 of 2"):
        play.arrive(0, key=unnamed(), **request_)


@pytest.mark.parametrize(("request_", "error"), [({"answer": "x"}, AnswerConflict), ({"size": 3}, SizeMismatch)])
def test_an_active_one_tells_apart_what_differs(request_: dict, error: type[Exception]) -> None:
    """L20, L5: only a failed one answers everything alike."""
    play = Play()
    play.arrive(0, key=unnamed())
    with pytest.raises(error):
        play.arrive(0, key=unnamed(), **request_)


def test_a_failed_one_answers_until_retention_drops_it_by_age() -> None:
    """L20, L18: no retry renews it; then the key is free."""
    play = Play(ttl_s=10.0)
    play.finish_without_judge(unnamed())
    play.now = 9.0
    play.arrive(0, key=unnamed())
    play.advance(10.0)
    assert play.complete(unnamed(), answer="new") == Run(2)


def test_a_failed_one_answers_until_retention_drops_it_by_count() -> None:
    """L20, L18: it has a place among the results, and no more than that."""
    play = Play(max_results=1)
    play.spoil(unnamed())
    play.finish("another")
    assert play.phases() == {"another": "completed"}
    assert play.complete(unnamed()) == Run(3)


def test_a_completed_one_pushes_no_result_out() -> None:
    """L20: it never has a place among them."""
    play = Play(max_results=1)
    play.finish("done")
    play.finish(unnamed())
    assert play.phases() == {"done": "completed"}


def test_a_held_one_is_active_until_the_release_and_forgotten_then() -> None:
    """L20, C15: its key is not free while its callers wait."""
    play = Play()
    run = play.complete(unnamed())
    play.book.hold()
    play.judged(run, 1.0, 2.0)
    with pytest.raises(AnswerConflict):
        play.arrive(0, key=unnamed(), answer="x")
    play.release()
    assert play.phases() == {}


def test_member_ids_work_without_a_group_id() -> None:
    """L20, A3: slots go by arrival."""
    play = Play()
    play.arrive(None, key=unnamed(), member="zoe")
    play.arrive(None, key=unnamed(), member="abe")
    with pytest.raises(GroupClosed):
        play.arrive(None, key=unnamed(), member="eve")
