"""Of a group id the newest attempt counts (L10 to L14)."""

import pytest

from groupjudge.core.effects import Release, Settle, StopJudging
from groupjudge.errors import AnswerConflict, GroupClosed, GroupFailed, QuestionMismatch, ResultGone, Superseded
from groupjudge.model import GroupFailure, Rewarded, Run

from .play import Play, arrival, judgement, outcomes, rewards, started


@pytest.mark.parametrize("attempt", [0, 2])
@pytest.mark.parametrize("phase", ["collecting", "complete", "finish", "finish_without_judge", "spoil"])
def test_a_lower_attempt_is_superseded_whatever_phase_the_newest_is_in(phase: str, attempt: int) -> None:
    """L10: the newest attempt of an id is remembered."""
    play = Play()
    if phase == "collecting":
        play.arrive(0, attempt=3)
    else:
        getattr(play, phase)(attempt=3)
    with pytest.raises(Superseded, match=f"attempt {attempt} is older than .* attempt 3"):
        play.arrive(0, attempt=attempt)


def test_the_newest_attempt_is_the_higher_of_record_and_result() -> None:
    """L10: a record of a higher attempt than the result's hides the result (a restore can bring that about)."""
    play = Play()
    play.finish(attempt=1)
    ((key, record),) = list(play.book._memory.records)
    play.book._memory.records.put(key, record._replace(attempt=2))
    with pytest.raises(Superseded):
        play.arrive(0, attempt=1)
    with pytest.raises(ResultGone, match="attempt 2"):
        play.arrive(0, attempt=2)


def test_a_result_of_a_higher_attempt_than_the_record_counts_too() -> None:
    """L10: the higher of both, whichever it is."""
    play = Play()
    play.finish(attempt=2)
    ((key, record),) = list(play.book._memory.records)
    play.book._memory.records.put(key, record._replace(attempt=1))
    with pytest.raises(Superseded):
        play.arrive(0, attempt=1)
    ticket = play.arrive(0, attempt=2)
    assert rewards(play.book.drain()) == {ticket: 1.0}
    assert play.records() == [("g", 2)]


def test_a_higher_attempt_fails_a_collecting_one_and_tells_its_callers_by_what() -> None:
    """L11: every caller of it gets a failure that names the newer attempt; its answers are let go."""
    play = Play()
    first, retry = play.arrive(0, attempt=1, material="m"), play.arrive(0, attempt=1, material="m again")
    play.book.drain()
    play.arrive(0, attempt=2)
    failure = GroupFailure("superseded", "attempt 1 was superseded by attempt 2")
    assert play.book.drain() == [Settle(first, 0, failure), Settle(retry, 0, failure), Release("m")]


def test_a_higher_attempt_cancels_judging_before_anyone_is_told() -> None:
    """L11: judging is stopped first, then the callers hear of it, then the answers are let go."""
    play = Play()
    run = play.complete(attempt=1)
    play.arrive(0, attempt=2)
    effects = play.book.drain()
    assert [type(effect) for effect in effects] == [StopJudging, Settle, Settle, Release, Release]
    assert effects[0] == StopJudging(run)


def test_a_higher_attempt_of_a_collecting_group_has_no_judging_to_stop() -> None:
    """L11: nothing was begun."""
    play = Play()
    play.arrive(0, attempt=1)
    play.arrive(0, attempt=2)
    assert not [effect for effect in play.book.drain() if isinstance(effect, StopJudging)]


@pytest.mark.parametrize("finish", [Play.finish, Play.finish_without_judge, Play.spoil])
def test_a_higher_attempt_drops_a_finished_ones_result(finish) -> None:
    """L11: the older attempt is superseded from then on, and its result holds no place (L18)."""
    play = Play()
    finish(play, attempt=1)
    play.arrive(0, attempt=2)
    assert [(view.attempt, view.phase) for view in play.book.groups()] == [(2, "collecting")]
    assert play.records() == [("g", 2)]
    with pytest.raises(Superseded):
        play.arrive(0, attempt=1)


def test_a_verdict_of_the_older_attempt_does_not_reach_the_newer() -> None:
    """L11: not even one that was already on its way; both attempts are being judged here."""
    play = Play()
    old = play.complete(attempt=1)
    new = play.complete(attempt=2, answer="new")
    assert play.judged(old, 9.0, 9.0) == []
    assert play.judge_failed(old) == []
    assert [effect.outcome for effect in play.judged(new, 1.0, 2.0)[:2]] == [Rewarded(1.0), Rewarded(2.0)]


def test_a_late_verdict_never_reaches_a_group_that_formed_again_under_the_same_name() -> None:
    """L11, L24: an id and attempt can form twice (L14, L20); a run's number never does."""
    play = Play(ttl_s=5.0, judging_timeout_s=10.0)
    old = play.complete(attempt=1)
    play.advance(10.0)
    play.advance(15.0)
    new = play.complete(attempt=1)
    assert new != old
    assert play.judged(old, 9.0, 9.0) == []
    assert play.phases() == {"g": "judging"}


def test_an_attempt_may_skip_numbers_and_begins_a_group_of_its_own() -> None:
    """L11: another size and other answers are fine; the question is not free."""
    play = Play()
    play.complete(attempt=1)
    play.complete(attempt=7, size=3, answer="new")
    assert play.phases() == {"g": "judging"}
    with pytest.raises(QuestionMismatch):
        play.arrive(0, attempt=8, question="other")


def evicted_but_recorded() -> Play:
    play = Play(max_results=1)
    play.finish(attempt=1)
    play.finish("another")
    return play


def test_a_finished_attempt_without_its_result_is_gone_at_once() -> None:
    """L12: no group, no judge call, and nothing is kept alive by asking."""
    play = evicted_but_recorded()
    before = play.state()
    for request in ({}, {"answer": "new"}, {"size": 3}, {"member": "zoe"}):
        with pytest.raises(ResultGone, match="attempt 1 finished"):
            play.arrive(0, attempt=1, **request)
    assert play.state() == before


def test_a_higher_attempt_of_a_gone_one_begins() -> None:
    """L12, L11: that is the remedy."""
    play = evicted_but_recorded()
    play.complete(attempt=2)
    assert play.records()[0] == ("g", 2)


def with_result_but_no_record() -> Play:
    """g's record was pushed out by count: another's was made later, and only one is kept."""
    play = Play(max_attempt_records=1)
    play.finish(attempt=1)
    play.finish("another")
    assert play.records() == [("another", 0)]
    assert set(play.phases()) == {"g", "another"}
    return play


def test_a_retry_is_answered_from_the_result_alone_and_makes_the_record_again() -> None:
    """L13: and the record made again is the newest, so that another one must go."""
    play = with_result_but_no_record()
    ticket = play.arrive(1, attempt=1)
    assert rewards(play.book.drain()) == {ticket: 2.0}
    assert play.records() == [("g", 1)]


def test_a_judge_failure_is_answered_from_the_result_alone_too() -> None:
    """L13, L4: the masked reply is a 200 as well."""
    play = Play(max_attempt_records=1)
    play.finish_without_judge()
    play.finish("another")
    ticket = play.arrive(0)
    assert list(outcomes(play.book.drain())) == [ticket]
    assert play.records() == [("g", 0)]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"question": "other"}, QuestionMismatch),
        ({"question": "other", "attempt": 2}, QuestionMismatch),
        ({"attempt": 0}, Superseded),
        ({"answer": "x"}, AnswerConflict),
        ({"member": "zoe"}, GroupClosed),
    ],
)
def test_a_refused_request_makes_no_record_again(request_: dict, error: type[Exception]) -> None:
    """L13, L7: only an exact retry does."""
    play = with_result_but_no_record()
    before = play.state()
    with pytest.raises(error):
        play.arrive(0, **{"attempt": 1, **request_})
    assert play.state() == before


def test_a_group_failure_makes_no_record_again() -> None:
    """L13, L7: a 503 `group_failed` is a rejection."""
    play = Play(max_attempt_records=1)
    play.spoil()
    play.finish("another")
    with pytest.raises(GroupFailed):
        play.arrive(0)
    assert play.records() == [("another", 0)]


@pytest.mark.parametrize("attempt", [0, 1, 2])
@pytest.mark.parametrize("known_by", ["group", "result and record", "record", "result"])
def test_an_id_keeps_its_question_at_any_attempt(known_by: str, attempt: int) -> None:
    """L14: while its group is active, or its record or its result is retained."""
    if known_by == "group":
        play = Play()
        play.arrive(0, attempt=1)
    elif known_by == "result and record":
        play = Play()
        play.finish(attempt=1)
    else:
        play = evicted_but_recorded() if known_by == "record" else with_result_but_no_record()
    with pytest.raises(QuestionMismatch):
        play.arrive(0, attempt=attempt, question="other")


def test_an_id_that_was_forgotten_is_free_for_anything() -> None:
    """L14: another question, a lower attempt, another size."""
    play = Play(ttl_s=10.0)
    play.finish(attempt=5)
    play.advance(10.0)
    play.complete(attempt=0, question="other", size=3)
    assert play.phases() == {"g": "judging"}


def test_ids_do_not_touch_each_other() -> None:
    """L24: the same answers under two ids are two groups with rewards of their own."""
    play = Play()
    a, b = play.complete("a"), play.complete("b")
    assert (a, b) == (Run(1), Run(2))
    play.judged(b, 7.0, 8.0)
    play.judged(a, 1.0, 2.0)
    tickets = [play.arrive(slot, key=key) for key in "ab" for slot in (0, 1)]
    assert rewards(play.book.drain()) == dict(zip(tickets, [1.0, 2.0, 7.0, 8.0], strict=True))


def test_a_run_is_never_numbered_twice() -> None:
    """L24: nor is a ticket."""
    play = Play(ttl_s=1.0)
    runs, tickets = [], []
    for day in range(5):
        play.now = 10.0 * day
        tickets += [play.book.arrive(arrival(slot), play.now) for slot in (0, 1)]
        runs += started(play.book.drain())
        play.book.judged(runs[-1], judgement(1.0, 2.0), play.now)
        play.book.drain()
    assert len(set(runs)) == 5
    assert len(set(tickets)) == 10
