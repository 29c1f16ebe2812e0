"""What is remembered of finished groups, and for how long (L17, L18)."""

import pytest

from groupjudge.core.effects import Release
from groupjudge.errors import GroupFailed, QuestionMismatch, ResultGone
from groupjudge.model import GroupFailure, Run

from .play import Play, arrival, frozen, kinds, outcomes, rewards


def released(effects: list) -> list[object]:
    return [effect.material for effect in effects if isinstance(effect, Release)]


def test_every_answer_is_let_go_exactly_once_at_the_outcome() -> None:
    """L17: after the callers were told; not before, since the judge needs it, and not later."""
    play = Play()
    play.arrive(0, material="m0")
    play.arrive(1, material="m1")
    assert kinds(play.book.drain()) == ["StartJudging"]
    effects = play.judged(Run(1), 1.0, 2.0)
    assert kinds(effects) == ["Settle", "Settle", "Release", "Release"]
    assert released(effects) == ["m0", "m1"]


@pytest.mark.parametrize("end", ["timeout", "superseded", "shutdown", "judge failure", "own error"])
def test_every_answer_is_let_go_however_the_group_ends(end: str) -> None:
    """L17: a failed group holds nothing either."""
    play = Play(collection_timeout_s=10.0)
    play.arrive(0, material="m0", size=3)
    play.arrive(2, material="m2", size=3)
    expected = ["m0", "m2"]
    if end in ("judge failure", "own error"):
        play.arrive(1, material="m1", size=3)
        expected.insert(1, "m1")
    play.book.drain()
    if end == "timeout":
        effects = play.advance(10.0)
    elif end == "superseded":
        play.arrive(0, attempt=1, material="new")
        effects = play.book.drain()
    elif end == "shutdown":
        effects = play.close()
    elif end == "judge failure":
        effects = play.judge_failed(Run(1))
    else:
        effects = play.judged(Run(1), 1.0)
    assert released(effects) == expected


def test_a_result_holds_no_answer_no_question_and_no_caller() -> None:
    """L17: fingerprints, identities and outcomes only."""
    play = Play()
    play.arrive(None, member="zoe", material="THE ANSWER")
    play.arrive(None, member="abe", material="THE ANSWER")
    play.judged(Run(1), 1.0, 2.0)
    kept = repr(frozen(list(play.book._memory.results)))
    assert "zoe" in kept
    assert "THE ANSWER" not in kept
    assert "topic of" not in kept
    assert "callers" not in kept


def test_results_and_records_are_in_the_order_in_which_groups_finished() -> None:
    """L18: not in the order in which they began."""
    play = Play()
    runs = {key: play.complete(key) for key in "abc"}
    for key in "cab":
        play.now += 1.0
        play.judged(runs[key], 1.0, 2.0)
    assert [view.key for view in play.book.groups()] == ["c", "a", "b"]
    assert [key for key, _ in play.records()] == ["c", "a", "b"]


def test_the_oldest_result_goes_when_as_many_newer_ones_are_retained_as_the_limit_says() -> None:
    """L18: and its record stays."""
    play = Play(max_results=2)
    for key in "abc":
        play.finish(key)
    assert [view.key for view in play.book.groups()] == ["b", "c"]
    assert [key for key, _ in play.records()] == ["a", "b", "c"]


def test_the_oldest_record_goes_when_there_are_too_many() -> None:
    """L18: and its result stays."""
    play = Play(max_attempt_records=2)
    for key in "abc":
        play.finish(key)
    assert [key for key, _ in play.records()] == ["b", "c"]
    assert [view.key for view in play.book.groups()] == ["a", "b", "c"]


def test_a_result_of_exactly_the_age_limit_is_gone_and_nothing_renews_it() -> None:
    """L18, L12: a retry was answered at 9.9; a moment later only the record is left."""
    play = Play(ttl_s=10.0)
    play.finish()
    play.now = 9.9
    ticket = play.arrive(0)
    assert rewards(play.book.drain()) == {ticket: 1.0}
    play.now = 10.0
    with pytest.raises(ResultGone):
        play.arrive(0)
    assert play.phases() == {}


def test_a_record_lives_from_the_last_exact_retry_that_was_answered() -> None:
    """L18: by time it outlives its result, and ends at exactly its own limit."""
    play = Play(ttl_s=10.0)
    play.finish()
    play.now = 9.0
    play.arrive(0)
    play.advance(18.999)
    assert play.records() == [("g", 0)]
    play.advance(19.0)
    assert play.records() == []


def test_a_renewed_record_is_the_newest_in_the_order_too() -> None:
    """L18: so that another's goes first, by count."""
    play = Play(max_attempt_records=2)
    play.finish("a")
    play.finish("b")
    play.arrive(0, key="a")
    assert [key for key, _ in play.records()] == ["b", "a"]
    play.finish("c")
    assert [key for key, _ in play.records()] == ["a", "c"]


def test_a_masked_reply_renews_the_record() -> None:
    """L18: it is answered 200."""
    play = Play()
    play.finish_without_judge()
    play.now = 5.0
    play.arrive(0)
    assert [since for *_, since in play.book.records()] == [5.0]


@pytest.mark.parametrize("request_", [{"question": "other"}, {"answer": "x"}, {"size": 3}, {"member": "zoe"}])
def test_a_refused_request_renews_nothing(request_: dict) -> None:
    """L7, L18: only an exact retry that was answered 200 does."""
    play = Play()
    play.finish()
    play.now = 5.0
    with pytest.raises(Exception, match="group"):
        play.arrive(0, **request_)
    assert [since for *_, since in play.book.records()] == [0.0]


def test_a_group_failure_renews_nothing() -> None:
    """L7, L18: an exact retry of it is a 503."""
    play = Play(ttl_s=10.0)
    play.spoil()
    play.now = 5.0
    with pytest.raises(GroupFailed):
        play.arrive(0)
    play.advance(10.0)
    assert play.records() == []


def test_asking_for_a_gone_result_keeps_nothing_alive() -> None:
    """L12, L18: the record ends when it would have."""
    play = Play(ttl_s=10.0, max_results=1)
    play.finish()
    play.finish("another")
    play.now = 9.0
    with pytest.raises(ResultGone):
        play.arrive(0)
    play.advance(10.0)
    assert play.records() == []


def test_records_of_active_groups_are_in_no_order_never_expire_and_do_not_count() -> None:
    """L18: however long a group takes, its attempt and question are known."""
    play = Play(ttl_s=10.0, max_attempt_records=1, collection_timeout_s=1e6)
    play.arrive(0, key="a", attempt=4)
    play.arrive(0, key="b")
    play.finish("done")
    assert play.records() == [("a", 4), ("b", 0), ("done", 0)]
    play.advance(1e5)
    assert play.records() == [("a", 4), ("b", 0)]
    with pytest.raises(QuestionMismatch):
        play.arrive(0, key="a", attempt=9, question="other")


def test_a_newer_attempt_takes_its_record_out_of_the_order() -> None:
    """L18, L11: while it is active nothing of the idle id is left, and it comes back at the end."""
    play = Play(max_attempt_records=2)
    play.finish("a")
    play.finish("b")
    run = play.complete("a", attempt=1)
    play.finish("c")
    assert play.records() == [("a", 1), ("b", 0), ("c", 0)]
    play.judged(run, 1.0, 2.0)
    assert play.records() == [("c", 0), ("a", 1)]


def test_active_groups_never_push_finished_ones_out() -> None:
    """L18: a thousand of them are no reason to forget one result."""
    play = Play(max_results=1, max_attempt_records=1)
    play.finish("done")
    for number in range(1000):
        play.book.arrive(arrival(key=f"active {number}"), play.now)
    ticket = play.arrive(0, key="done")
    assert rewards(play.book.drain()) == {ticket: 1.0}


def test_a_superseded_result_holds_no_place() -> None:
    """L18: g's is dropped with its attempt, so that two others' fit beside it."""
    play = Play(max_results=2)
    play.finish("g")
    play.finish("a")
    play.arrive(0, key="g", attempt=1)
    play.finish("b")
    assert play.phases() == {"g": "collecting", "a": "completed", "b": "completed"}


def test_a_superseded_active_group_is_not_retained() -> None:
    """L11, L18: nobody may ask for it again."""
    play = Play(max_results=1)
    play.finish("a")
    play.complete("g")
    play.arrive(0, key="g", attempt=1)
    assert play.phases() == {"g": "collecting", "a": "completed"}


def test_judge_failures_and_group_failures_are_results_too() -> None:
    """L18: they count and age like completed groups."""
    play = Play(max_results=2)
    play.finish("a")
    play.finish_without_judge("b")
    play.spoil("c")
    assert play.phases() == {"b": "judge_failed", "c": "group_failed"}


@pytest.mark.parametrize("end", [Play.finish, Play.finish_without_judge, Play.spoil])
def test_whatever_finishes_pushes_the_oldest_out_at_once(end) -> None:
    """L18: not only when the next input comes; nothing over the limit is ever seen."""
    play = Play(max_results=1, max_attempt_records=1)
    play.finish("oldest")
    end(play, "newest")
    assert list(play.phases()) == ["newest"]
    assert play.records() == [("newest", 0)]


def test_what_the_host_calls_a_defect_of_its_own_pushes_the_oldest_out_too() -> None:
    """L18: a group failure that is reported, not found."""
    play = Play(max_results=1)
    play.finish("oldest")
    run = play.complete("newest")
    play.book.judging_failed(run, GroupFailure("internal", "a defect"), play.now)
    assert play.phases() == {"newest": "group_failed"}


def test_several_results_at_one_moment_leave_in_the_order_they_came() -> None:
    """L18: a tie goes by the order in which groups finished."""
    play = Play(collection_timeout_s=10.0, max_results=2)
    for key in "cab":
        play.arrive(0, key=key)
    play.advance(10.0)
    assert [view.key for view in play.book.groups()] == ["a", "b"]


def test_without_a_time_limit_results_stay() -> None:
    """L18, H12: `ttl_s: null`."""
    play = Play(ttl_s=None)
    play.finish()
    assert play.book.next_deadline() is None
    play.advance(1e12)
    ticket = play.arrive(0)
    assert list(outcomes(play.book.drain())) == [ticket]
