"""Which session brought which member, and what that keeps (C4, C18, C23)."""

from __future__ import annotations

import pytest

from groupjudge.core.backing import SessionId
from groupjudge.core.memory import Exported, Restored
from groupjudge.errors import AnswerConflict, GroupClosed, ResultGone
from groupjudge.model import GroupId, Rewarded

from .play import Play, arrival

A, B, C = SessionId("a"), SessionId("b"), SessionId("c")


def finished(play: Play, key: str = "g", *sessions: SessionId | None, **fields: object) -> None:
    """A group of two with rewards 1.0 and 2.0; the sessions brought slots 0 and 1."""
    for slot in (0, 1):
        session = sessions[slot] if slot < len(sessions) else None
        play.book.arrive(arrival(slot, key=key, **fields), play.now, session)  # type: ignore[arg-type]
    run = play.book.drain()[-1].run  # type: ignore[union-attr]
    play.judged(run, 1.0, 2.0)


def over(play: Play, session: SessionId, *, dropped: bool = False) -> None:
    play.book.session_over(session, dropped=dropped, now=play.now)
    play.book.check()


def known(play: Play) -> tuple[set[object], list[object]]:
    """Ids of the retained results, and of the records."""
    return set(play.phases()), [key for key, _ in play.records()]


@pytest.mark.parametrize("by", ["age", "count"])
def test_a_result_that_an_open_session_needs_is_spared_with_its_record_until_the_session_ends(by: str) -> None:
    """C18: by age and by count; the test is made at once when nobody needs it any more."""
    play = Play(ttl_s=60, max_results=1, max_attempt_records=1)
    finished(play, "g", A, B)
    if by == "age":
        play.advance(1000)
    finished(play, "h")
    assert known(play) == ({"g", "h"}, ["g", "h"])
    play.arrive(1)
    over(play, A)
    assert known(play)[0] == {"g", "h"}
    assert play.book.exported(B) is not None
    over(play, B)
    assert "g" not in known(play)[0]
    assert play.book.exported(B) is None


def test_at_shutdown_nothing_is_remembered_of_sessions() -> None:
    """C4: nor retained for them."""
    play = Play(max_results=1, max_attempt_records=1)
    finished(play, "g", A, B)
    finished(play, "h", C)
    play.book.close(play.now)
    assert [play.book.exported(session) for session in (A, B, C)] == [None] * 3
    assert not len(play.book._memory.backings)
    assert known(play) == ({"h"}, ["h"])
    over(play, A)
    play.book.check()


def test_a_spared_result_counts_as_one_of_the_newer_ones_for_those_behind_it() -> None:
    """C18: so the one before it goes as if nothing was spared."""
    play = Play(max_results=2, max_attempt_records=2)
    finished(play, "first")
    finished(play, "spared", A)
    finished(play, "third")
    assert known(play) == ({"spared", "third"}, ["spared", "third"])
    finished(play, "fourth")
    assert known(play)[0] == {"spared", "third", "fourth"}
    finished(play, "fifth")
    assert known(play)[0] == {"spared", "fourth", "fifth"}


def test_a_session_that_brings_another_member_lets_the_first_go() -> None:
    """C4: the last one counts."""
    play = Play(max_results=1, max_attempt_records=1)
    finished(play, "g", A)
    finished(play, "h", A)
    assert known(play)[0] == {"h"}
    exported = play.book.exported(A)
    assert exported is not None
    assert exported.key == "h"


def test_an_exact_retry_that_is_answered_binds_its_session_and_a_refused_one_does_not() -> None:
    """C4."""
    play = Play()
    finished(play)
    with pytest.raises(AnswerConflict):
        play.book.arrive(arrival(0, answer="another"), 0.0, A)
    assert play.book.exported(A) is None
    play.book.arrive(arrival(1), 0.0, A)
    exported = play.book.exported(A)
    assert exported is not None
    assert exported.outcome == Rewarded(2.0)


def test_nothing_is_exported_of_a_session_whose_group_has_no_outcome_that_a_row_records() -> None:
    """C16: collecting, judging, held, failed as a group, superseded, without an id, alone."""
    play = Play()
    play.book.arrive(arrival(0), 0.0, A)
    assert play.book.exported(A) is None
    play.book.arrive(arrival(1), 0.0, B)
    run = play.book.drain()[-1].run  # type: ignore[union-attr]
    play.book.hold()
    play.judged(run, 1.0, 2.0)
    assert play.book.exported(A) is None
    play.release()
    assert play.book.exported(A) is not None
    play.book.arrive(arrival(0, attempt=1), 0.0, C)
    assert [play.book.exported(each) for each in (A, B, C)] == [None] * 3
    play.advance(5000)
    assert play.book.exported(C) is None
    play.book.arrive(arrival(0, key="alone", size=1), 5000.0, A)
    assert play.book.exported(A) is None
    assert len(play.book._memory.backings) == 0


def restored(play: Play, *slots: tuple[SessionId, int], attempt: int = 0) -> None:
    """Take up members of group `g` of two."""
    members = [
        Exported(GroupId("g"), attempt, 2, each.question, slot, None, each.answer, Rewarded(10.0 + slot))
        for _, slot in slots
        for each in [arrival(slot)]
    ]
    play.book.install([Restored(session, m) for (session, _), m in zip(slots, members, strict=True)], play.now)
    play.book.check()


def test_a_restored_member_is_dropped_with_the_last_session_that_backs_it() -> None:
    """C23: another session of the same member keeps it; the other member stays; the last one takes the record along."""
    play = Play()
    restored(play, (A, 0), (B, 0), (C, 1))
    over(play, A, dropped=True)
    play.arrive(0)
    restored_again = Play()
    restored(restored_again, (A, 0), (B, 0), (C, 1))
    for session in (A, B):
        over(restored_again, session, dropped=True)
    with pytest.raises(GroupClosed):
        restored_again.arrive(0)
    restored_again.arrive(1)
    over(restored_again, C, dropped=True)
    assert known(restored_again) == ({"g"}, ["g"])


def test_a_group_without_members_is_gone_and_can_form_anew_under_the_same_attempt() -> None:
    """C23."""
    play = Play()
    restored(play, (A, 0), (B, 1), attempt=3)
    over(play, A, dropped=True)
    over(play, B, dropped=True)
    assert known(play) == (set(), [])
    play.arrive(0, attempt=3, answer="another")


@pytest.mark.parametrize("how", ["closed", "replayed", "replayed by nobody's request"])
def test_a_restored_member_that_was_replayed_or_closed_is_an_ordinary_result(how: str) -> None:
    """C23."""
    play = Play()
    restored(play, (A, 0), (B, 1))
    if how == "closed":
        over(play, A)
    else:
        play.book.arrive(arrival(0), 0.0, A if how == "replayed" else None)
    over(play, A, dropped=True)
    over(play, B, dropped=True)
    play.arrive(0)
    with pytest.raises(GroupClosed):
        play.arrive(1)


def test_a_restored_result_is_retained_as_if_it_had_finished_now() -> None:
    """C21."""
    play = Play(now=500.0, ttl_s=60)
    restored(play, (A, 0))
    over(play, A)
    play.advance(559.0)
    play.arrive(0)
    play.advance(560.0)
    with pytest.raises(ResultGone):
        play.arrive(0)


def test_a_restore_never_lowers_an_attempt() -> None:
    """C21, L10: what is known with a higher one stays, and the session is bound to nothing."""
    play = Play()
    finished(play, attempt=5)
    restored(play, (A, 0), attempt=4)
    assert play.records() == [("g", 5)]
    assert play.book.exported(A) is None
