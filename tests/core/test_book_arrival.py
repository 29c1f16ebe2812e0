"""A member arrives, once or again (L1 to L9, and member ids of A3)."""

import pytest

from groupjudge.core.effects import Release, Settle, StartJudging
from groupjudge.errors import (
    AnswerConflict,
    GroupClosed,
    GroupFailed,
    Overloaded,
    ResultGone,
    SizeMismatch,
    Superseded,
)
from groupjudge.model import GroupFailure, JudgeFailure, Judgement, Rewarded, Run

from .play import Play, arrival, kinds, outcomes, rewards, started


def test_an_accepted_answer_stays_whatever_comes_after_it() -> None:
    """L1: nothing replaces the first accepted answer of a slot; it is the one that is judged."""
    play = Play()
    play.arrive(0, answer="first")
    with pytest.raises(AnswerConflict):
        play.arrive(0, answer="second")
    play.arrive(1)
    (start,) = play.book.drain()
    assert isinstance(start, StartJudging)
    assert start.materials == ("material of first", "material of answer of 1")


def test_judging_starts_with_the_last_member_and_in_slot_order() -> None:
    """L2: at the moment of the N-th member, exactly once, with the answers in slot order."""
    play = Play()
    effects = []
    for slot in (2, 0, 1):
        assert started(effects) == []
        play.arrive(slot, size=3)
        effects += play.book.drain()
    assert effects == [
        StartJudging(
            Run(1),
            arrival().key,
            0,
            "topic of q",
            ("material of answer of 0", "material of answer of 1", "material of answer of 2"),
            (0, 1, 2),
            3,
        )
    ]


def test_a_retry_does_not_start_judging_again() -> None:
    """L2: exactly once, retries or not."""
    play = Play()
    play.complete()
    play.arrive(1)
    play.arrive(0)
    assert started(play.book.drain()) == []


@pytest.mark.parametrize("complete", [False, True], ids=["collecting", "judging"])
def test_an_exact_retry_of_an_active_groups_member_waits_with_the_first(complete: bool) -> None:
    """L3: one more caller of the same member; each gets the outcome, each by its own ticket."""
    play = Play()
    tickets = [play.arrive(0)]
    if complete:
        play.arrive(1)
    tickets.append(play.arrive(0))
    if not complete:
        play.arrive(1)
    told = rewards(play.judged(Run(1), 4.0, 2.0))
    assert [told[ticket] for ticket in tickets] == [4.0, 4.0]
    assert len(told) == 3


def test_a_retrys_own_answer_is_let_go_at_once() -> None:
    """L3, L17: the first one's is judged, so the second copy is not needed."""
    play = Play()
    play.arrive(0, material="first")
    assert play.book.drain() == []
    play.arrive(0, material="retry")
    assert play.book.drain() == [Release("retry")]


def test_a_retry_of_a_completed_groups_member_gets_the_saved_reward_at_once() -> None:
    """L4: no judge call; the outcome, then the release of what the retry brought."""
    play = Play()
    play.finish()
    ticket = play.arrive(1, material="retry")
    assert play.book.drain() == [Settle(ticket, 1, Rewarded(2.0)), Release("retry")]


def test_a_retry_of_a_judge_failure_gets_the_same_failure() -> None:
    """L4: the masked reply again, and no second try at the judge."""
    play = Play()
    play.judge_failed(play.complete(), "the judge is ill")
    ticket = play.arrive(0, material="retry")
    assert play.book.drain() == [Settle(ticket, 0, JudgeFailure("the judge is ill")), Release("retry")]


def test_a_retry_of_a_group_failure_gets_the_same_failure() -> None:
    """L4: the same words as the callers that waited."""
    play = Play()
    ticket = play.arrive(0)
    failure = outcomes(play.advance(1800.0))[ticket]
    assert isinstance(failure, GroupFailure)
    with pytest.raises(GroupFailed) as error:
        play.arrive(0)
    assert str(error.value) == failure.reason


def test_the_note_of_default_scores_is_saved_with_the_reward() -> None:
    """L4: a replay says as much as the first reply did (J13)."""
    play = Play()
    run = play.complete()
    play.book.judged(run, Judgement((3.0, 3.0), (), None, "unreadable", "one verdict was unreadable"), play.now)
    play.book.drain()
    ticket = play.arrive(0)
    assert outcomes(play.book.drain()) == {ticket: Rewarded(3.0, "unreadable", "one verdict was unreadable")}


def collecting(play: Play) -> None:
    play.arrive(0)


@pytest.mark.parametrize("prepare", [collecting, Play.complete, Play.finish, Play.finish_without_judge])
def test_another_answer_for_an_occupied_slot_is_a_conflict(prepare) -> None:
    """L5: while the group is active, completed or failed by its judge."""
    play = Play()
    prepare(play)
    with pytest.raises(AnswerConflict):
        play.arrive(0, answer="another")


def test_a_held_group_is_still_active() -> None:
    """L5, C15: its slots are taken, its members may come again."""
    play = Play()
    run = play.complete()
    play.book.hold()
    play.judged(run, 1.0, 2.0)
    with pytest.raises(AnswerConflict):
        play.arrive(0, answer="another")
    play.arrive(0)
    assert kinds(play.book.drain()) == ["Release"]


@pytest.mark.parametrize("answer", [None, "another"])
@pytest.mark.parametrize("size", [2, 3])
def test_a_group_failure_answers_every_request_for_its_attempt(answer: str | None, size: int) -> None:
    """L5: whatever it asks, be it an exact retry, another answer or another size."""
    play = Play()
    play.spoil()
    with pytest.raises(GroupFailed):
        play.arrive(1, answer=answer, size=size)


@pytest.mark.parametrize("phase", ["judging", "held", "completed"])
def test_a_stranger_finds_a_complete_group_closed(phase: str) -> None:
    """L6, A3: no slot is left for an N+1st member id, before the outcome, while it is held (C15) and after."""
    play = Play()
    for name in ("a", "b"):
        play.arrive(None, member=name)
    if phase == "held":
        play.book.hold()
    if phase != "judging":
        play.judged(Run(1), 1.0, 2.0)
    assert play.phases() == {"g": phase}
    with pytest.raises(GroupClosed):
        play.arrive(None, member="c")


def test_member_ids_get_slots_as_they_come_and_keep_them() -> None:
    """A3: the slot is said in the reply, and a retry is told its own reward."""
    play = Play()
    play.arrive(None, member="zoe", answer="same")
    play.arrive(None, member="abe", answer="same")
    told = [effect for effect in play.judged(Run(1), 1.0, 2.0) if isinstance(effect, Settle)]
    assert [(effect.slot, effect.outcome) for effect in told] == [(0, Rewarded(1.0)), (1, Rewarded(2.0))]
    ticket = play.arrive(None, member="abe", answer="same")
    assert play.book.drain()[0] == Settle(ticket, 1, Rewarded(2.0))


def test_a_caller_that_leaves_takes_only_itself_away() -> None:
    """L8: its member stays, and its sibling and fellow caller are told."""
    play = Play()
    gone, fellow = play.arrive(0), play.arrive(0)
    play.book.leave(gone)
    sibling = play.arrive(1)
    assert rewards(play.judged(Run(1), 4.0, 2.0)) == {fellow: 4.0, sibling: 2.0}


def test_a_group_whose_callers_have_all_gone_is_judged_and_retained() -> None:
    """L8: a retry after the outcome finds it."""
    play = Play()
    for slot in (0, 1):
        play.book.leave(play.arrive(slot))
    assert outcomes(play.judged(Run(1), 4.0, 2.0)) == {}
    ticket = play.arrive(0)
    assert rewards(play.book.drain()) == {ticket: 4.0}


def test_a_caller_that_left_may_attach_again() -> None:
    """L8: by an exact retry, with a new ticket."""
    play = Play()
    play.book.leave(play.arrive(0))
    ticket = play.arrive(0)
    play.book.leave(play.arrive(1))
    assert rewards(play.judged(Run(1), 4.0, 2.0)) == {ticket: 4.0}


def test_leaving_twice_or_after_the_reply_does_nothing() -> None:
    """L8: the host need not know whether the reply was already on its way."""
    play = Play()
    ticket = play.arrive(0)
    play.arrive(1)
    play.judged(Run(1), 4.0, 2.0)
    before = play.state()
    play.book.leave(ticket)
    play.book.leave(ticket)
    assert play.state() == before


def test_a_group_of_one_gets_the_default_score_at_once_and_leaves_nothing() -> None:
    """L9: no group, no judge call, no record; asked again, it is answered alike."""
    play = Play(default_score=2.5)
    for material in ("first", "again"):
        ticket = play.arrive(0, size=1, material=material)
        assert play.book.drain() == [Settle(ticket, 0, Rewarded(2.5)), Release(material)]
    assert list(play.book.groups()) == []
    assert list(play.book.records()) == []
    assert play.book.next_deadline() is None


def test_a_group_of_one_without_an_index_sits_in_slot_0() -> None:
    """L9: none is needed."""
    play = Play()
    ticket = play.arrive(None, size=1, material="m")
    assert play.book.drain()[0] == Settle(ticket, 0, Rewarded(3.0))


@pytest.mark.parametrize("prepare", [collecting, Play.complete, Play.finish, Play.finish_without_judge])
def test_a_group_of_one_at_a_known_attempt_of_another_size_is_refused(prepare) -> None:
    """L9: the id is known with another N."""
    play = Play()
    prepare(play)
    with pytest.raises(SizeMismatch):
        play.arrive(0, size=1)


def test_a_group_of_one_is_bound_by_what_is_known_of_its_id() -> None:
    """L9, L10, L12: an older attempt is superseded, a gone one is gone."""
    play = Play(max_results=1)
    play.finish("g", attempt=3)
    play.finish("pushes g out")
    with pytest.raises(Superseded):
        play.arrive(0, size=1, attempt=2)
    with pytest.raises(ResultGone):
        play.arrive(0, size=1, attempt=3)


def test_a_group_of_one_at_a_higher_attempt_retires_nothing() -> None:
    """L9: it needs no group and makes no record, so the recorded attempt goes on."""
    play = Play()
    first = play.arrive(0)
    alone = play.arrive(0, size=1, attempt=1)
    assert rewards(play.book.drain()) == {alone: 3.0}
    second = play.arrive(1)
    assert rewards(play.judged(Run(1), 1.0, 2.0)) == {first: 1.0, second: 2.0}


def test_a_group_of_one_needs_no_place_among_the_active_groups() -> None:
    """L7, L9: the limit counts where a group would be formed."""
    play = Play(max_active_groups=1)
    play.arrive(0, key="the one")
    ticket = play.arrive(0, key="alone", size=1)
    assert rewards(play.book.drain()) == {ticket: 3.0}


def test_the_limit_on_active_groups_is_exact() -> None:
    """L7: as many as the limit says, and the next only when one has finished."""
    play = Play(max_active_groups=2)
    play.arrive(0, key="a")
    run = play.complete("b")
    with pytest.raises(Overloaded, match="2 groups"):
        play.arrive(0, key="c")
    play.arrive(1, key="a")
    play.judged(run, 1.0, 2.0)
    play.arrive(0, key="c")
    assert play.phases() == {"a": "judging", "c": "collecting", "b": "completed"}
