"""A whole group arrives in one step (A1), and somebody asks for a member by its place (A2)."""

from __future__ import annotations

import pytest

from groupjudge.core.backing import SessionId
from groupjudge.core.book import Watched
from groupjudge.core.effects import Release, Settle, SettleAll, StartJudging
from groupjudge.core.memory import Exported, Restored
from groupjudge.errors import (
    AnswerConflict,
    GroupClosed,
    GroupFailed,
    GroupJudgeError,
    NotFound,
    Overloaded,
    QuestionMismatch,
    ResultGone,
    ShuttingDown,
    SizeMismatch,
    Superseded,
)
from groupjudge.model import Fingerprint, GroupFailure, GroupId, JudgeFailure, Rewarded, Ticket

from .play import Play, arrival, judgement, kinds

KEY = GroupId("g")
A, B = SessionId("a"), SessionId("b")


def bring_all(play: Play, *answers: str | None, size: int | None = None, **fields: object) -> Ticket:
    """A whole group; an answer that is None is the usual one of its slot."""
    size = size or len(answers) or 2
    answers = answers or (None,) * size
    arrivals = [arrival(slot, size=size, answer=answer, **fields) for slot, answer in enumerate(answers)]  # type: ignore[arg-type]
    ticket = play.book.arrive_all(arrivals, play.now)
    play.book.check()
    return ticket


def watch(play: Play, slot: int = 0, *, attempt: int = 0, key: str = "g") -> Watched:
    watched = play.book.watch(GroupId(key), attempt, slot, play.now)
    play.book.check()
    return watched


def test_a_whole_group_is_judged_at_once_and_told_at_once() -> None:
    """A1: judging starts in the same step; one caller is told every outcome and the judgement behind them."""
    play = Play()
    ticket = bring_all(play)
    (start,) = play.book.drain()
    assert isinstance(start, StartJudging)
    assert start.materials == ("material of answer of 0", "material of answer of 1")
    settle, *released = play.judged(start.run, 4.0, 2.0)
    assert settle == SettleAll(ticket, (Rewarded(4.0), Rewarded(2.0)), judgement(4.0, 2.0))
    assert kinds(released) == ["Release"] * 2


def test_a_whole_group_again_is_an_exact_retry() -> None:
    """A1, L3, L4: while it is judged and afterwards; each answer that came again is let go."""
    play = Play()
    bring_all(play)
    start = play.book.drain()[0]
    second = bring_all(play)
    assert kinds(play.book.drain()) == ["Release"] * 2
    assert isinstance(start, StartJudging)
    told = [effect.ticket for effect in play.judged(start.run, 4.0, 2.0) if isinstance(effect, SettleAll)]
    assert told == [Ticket(1), second]
    third = bring_all(play)
    assert play.book.drain() == [
        SettleAll(third, (Rewarded(4.0), Rewarded(2.0)), judgement(4.0, 2.0)),
        Release("material of answer of 0"),
        Release("material of answer of 1"),
    ]


def test_members_that_are_there_are_joined_and_the_rest_is_taken() -> None:
    """A1: one space with single members; everybody is told its own."""
    play = Play()
    single = play.arrive(1)
    whole = bring_all(play)
    start, release = play.book.drain()
    assert release == Release("material of answer of 1")
    assert isinstance(start, StartJudging)
    effects = play.judged(start.run, 4.0, 2.0)
    assert effects[:2] == [
        Settle(single, 1, Rewarded(2.0)),
        SettleAll(whole, (Rewarded(4.0), Rewarded(2.0)), judgement(4.0, 2.0)),
    ]


def known_with(result: str) -> Play:
    """A book that knows `g` so."""
    play = Play(max_active_groups=1, max_results=1)
    if result == "collecting":
        play.arrive(1)
    elif result == "by member id":
        play.arrive(None, member="m")
    elif result == "judged":
        play.complete()
    elif result == "another is active":
        play.arrive(0, key="h")
    elif result == "gone":
        play.finish()
        play.finish("h")
    elif result == "failed":
        play.spoil()
    elif result == "finished":
        play.finish()
    elif result == "closed":
        play.close()
    play.book.drain()
    return play


@pytest.mark.parametrize(
    ("known", "answers", "fields", "refusal"),
    [
        ("collecting", (None, "other"), {}, AnswerConflict),
        ("collecting", (), {"size": 3}, SizeMismatch),
        ("collecting", (), {"question": "r"}, QuestionMismatch),
        ("by member id", (), {}, GroupClosed),
        ("judged", (None, "other"), {}, AnswerConflict),
        ("finished", ("other", None), {}, AnswerConflict),
        ("finished", (), {"size": 3}, SizeMismatch),
        ("finished", (), {"question": "r", "attempt": 1}, QuestionMismatch),
        ("gone", (), {}, ResultGone),
        ("failed", (), {}, GroupFailed),
        ("failed", (None, "other"), {}, GroupFailed),
        ("another is active", (), {}, Overloaded),
        ("closed", (), {}, ShuttingDown),
    ],
)
def test_a_refused_group_leaves_no_trace(
    known: str, answers: tuple[str | None, ...], fields: dict[str, object], refusal: type[GroupJudgeError]
) -> None:
    """A1, L7: a conflict in the last slot too; nobody is seated, told or renewed."""
    play = known_with(known)
    before = play.state()
    with pytest.raises(refusal):
        bring_all(play, *answers, **fields)  # type: ignore[arg-type]
    assert play.book.drain() == []
    assert play.state() == before


def test_an_older_attempt_is_superseded_and_a_higher_one_takes_over() -> None:
    """A1, L10, L11."""
    play = Play()
    first = bring_all(play, attempt=1)
    with pytest.raises(Superseded):
        bring_all(play, attempt=0)
    play.book.drain()
    bring_all(play, attempt=2)
    stop, settle, *_ = play.book.drain()
    assert kinds([stop]) == ["StopJudging"]
    assert isinstance(settle, SettleAll)
    assert settle.ticket == first
    assert [type(outcome) for outcome in settle.outcomes] == [GroupFailure] * 2


def test_of_a_group_restored_in_part_a_conflict_speaks_before_what_is_missing() -> None:
    """A1, L7, C19: the order of checks holds over all members."""
    play = Play()
    member = Exported(KEY, 0, 2, Fingerprint(b"q"), 1, None, Fingerprint(b"answer of 1"), Rewarded(2.0))
    play.book.install([Restored(A, member)], 0)
    with pytest.raises(AnswerConflict):
        bring_all(play, None, "other")
    with pytest.raises(GroupClosed):
        bring_all(play)


def test_a_whole_group_replays_every_restored_member() -> None:
    """A1, C23: it is an exact retry of each, so none is dropped with its session."""
    play = Play()
    outcomes = (Rewarded(1.0), Rewarded(2.0))
    members = [
        Exported(KEY, 0, 2, Fingerprint(b"q"), slot, None, Fingerprint(b"answer of %d" % slot), outcomes[slot])
        for slot in (0, 1)
    ]
    play.book.install([Restored(A, members[0]), Restored(B, members[1])], 0)
    ticket = bring_all(play)
    assert play.book.drain()[0] == SettleAll(ticket, outcomes, None)
    play.book.session_over(A, dropped=True, now=0)
    assert [view.present for view in play.book.groups()] == [(0, 1)]


def test_a_group_of_one_gets_the_default_score_and_leaves_nothing() -> None:
    """A1, L9."""
    play = Play()
    ticket = bring_all(play, None)
    assert play.book.drain() == [
        SettleAll(ticket, (Rewarded(3.0),), None),
        Release("material of answer of 0"),
    ]
    assert (list(play.book.groups()), list(play.book.records())) == ([], [])


def test_whoever_asks_is_one_more_caller_of_the_member() -> None:
    """A2: told with the others, in the order they came; one that leaves is told nothing."""
    play = Play()
    play.arrive(0)
    asks, leaves = watch(play), watch(play)
    assert play.book.slot_of(asks.ticket) == 0
    play.book.leave(leaves.ticket)
    play.arrive(1)
    (start,) = play.book.drain()
    assert isinstance(start, StartJudging)
    told = [effect for effect in play.judged(start.run, 4.0, 2.0) if isinstance(effect, Settle)]
    assert told[1] == Settle(asks.ticket, 0, Rewarded(4.0))
    assert [effect.slot for effect in told] == [0, 0, 1]
    again = watch(play, 1)
    assert play.book.drain() == [Settle(again.ticket, 1, Rewarded(2.0))]


def test_a_judge_failure_is_told_and_a_group_failure_is_raised() -> None:
    """A2, L4: as to an exact retry."""
    play = Play()
    play.finish_without_judge()
    watched = watch(play)
    assert play.book.drain() == [Settle(watched.ticket, 0, JudgeFailure("the judge is ill"))]
    play.spoil("h")
    with pytest.raises(GroupFailed, match="not finite"):
        watch(play, key="h")


def test_a_held_outcome_is_pending() -> None:
    """A2, C15: until the release."""
    play = Play()
    run = play.complete()
    play.book.hold()
    play.judged(run, 4.0, 2.0)
    watched = watch(play, 1)
    assert play.book.drain() == []
    assert Settle(watched.ticket, 1, Rewarded(2.0)) in play.release()


@pytest.mark.parametrize(
    ("known", "what", "refusal"),
    [
        ("nothing", {}, NotFound),
        ("collecting", {"slot": 0}, NotFound),
        ("collecting", {"slot": 2}, NotFound),
        ("collecting", {"slot": 1, "attempt": 1}, NotFound),
        ("finished", {"slot": 2}, NotFound),
        ("finished", {"attempt": 1}, NotFound),
        ("gone", {}, ResultGone),
        ("gone", {"attempt": 1}, NotFound),
        ("failed", {}, GroupFailed),
        ("closed", {}, ShuttingDown),
    ],
)
def test_what_nobody_can_be_told_is_refused(known: str, what: dict[str, int], refusal: type[GroupJudgeError]) -> None:
    """A2: an id, an attempt or a slot that is not known, and what is known to be gone; nothing changes."""
    play = known_with(known)
    before = play.state()
    with pytest.raises(refusal):
        watch(play, **what)
    assert play.state() == before


@pytest.mark.parametrize("finished", [True, False])
def test_an_older_attempt_is_superseded_for_whoever_asks(finished: bool) -> None:
    """A2, L10."""
    play = Play()
    play.finish(attempt=1) if finished else play.arrive(0, attempt=1)
    with pytest.raises(Superseded):
        watch(play, attempt=0)


def test_asking_renews_no_record_and_makes_none_again() -> None:
    """A2, L13, L18: it is no exact retry."""
    play = Play(max_attempt_records=2, ttl_s=60)
    play.finish("g")
    play.advance(10)
    play.finish("h")
    watch(play)
    assert play.records() == [("g", 0), ("h", 0)]
    play.finish("i")
    watch(play)
    assert play.records() == [("h", 0), ("i", 0)]
    play.arrive(0)
    assert play.records() == [("i", 0), ("g", 0)]


def test_asking_is_no_replay_of_a_restored_member() -> None:
    """A2, C23: the member still goes with the last session that backs it."""
    play = Play()
    member = Exported(KEY, 0, 2, Fingerprint(b"q"), 1, None, Fingerprint(b"answer of 1"), Rewarded(2.0))
    play.book.install([Restored(A, member)], 0)
    watched = watch(play, 1)
    assert watched.backing is not None
    assert watched.backing.sessions == {A: 1}
    play.book.session_over(A, dropped=True, now=0)
    assert list(play.book.groups()) == []


def test_a_member_id_is_told_to_whoever_asks() -> None:
    """A2, A3: by the slot that it was given."""
    play = Play()
    ticket = play.arrive(None, member="m")
    assert play.book.slot_of(ticket) == 0
    assert watch(play, 0).member_id == "m"
