"""The table of open sessions, retired episodes and requests in flight (C2, C19, C21, C24). Cookies: `test_cookies`."""

from __future__ import annotations

import pytest

from groupjudge.checkpoints.records import Episode
from groupjudge.core.backing import SessionId
from groupjudge.errors import StaleAttempt
from groupjudge.service.sessions import Cookies, SessionTable, newest_attempts

A, B = SessionId("a"), SessionId("b")
R, R1, R2, OTHER = Episode("r"), Episode("r", 1), Episode("r", 2), Episode("other")


COOKIES = Cookies("s" * 64)


@pytest.fixture
def table() -> SessionTable:
    return SessionTable()


def used(table: SessionTable, session: SessionId, episode: Episode | None) -> bool:
    """Whether a request of the episode with the session's cookie is in it."""
    entry = table.named(COOKIES.value_of(session), None if episode is None else episode.key, COOKIES)
    if entry is None:
        return False
    assert (entry.session, entry.episode) == (session, episode)
    table.use(entry)
    return True


def test_a_session_is_that_of_its_episode_and_of_no_other(table: SessionTable) -> None:
    """C2: nor of another attempt, nor without a prefix."""
    table.seed(R, A)
    assert used(table, A, R)
    for episode in (R1, OTHER, None):
        assert not used(table, A, episode)
    assert not used(table, B, R)


@pytest.mark.parametrize("again", [False, True])
def test_a_cookie_of_another_signature_is_no_session(table: SessionTable, again: bool) -> None:
    """C2: neither before the right one was shown nor after; anything may come as a cookie."""
    table.seed(R, A)
    right = COOKIES.value_of(A)
    if again:
        assert used(table, A, R)
    for value in (
        "",
        A,
        f"{A}.",
        right[:-1],
        f"{right}x",
        right.swapcase(),
        Cookies("t" * 64).value_of(A),
        f"{A}.\xff",
        ".",
    ):
        assert table.named(value, R.key, COOKIES) is None
    assert used(table, A, R)


def test_a_session_is_open_until_it_ends(table: SessionTable) -> None:
    """C2: ending it again does nothing."""
    table.seed(R, A)
    table.seed(R1, B)
    assert (len(table), table.is_open(A), table.is_open(B)) == (2, True, True)
    assert table.end(A)
    assert not table.end(A)
    assert (len(table), table.is_open(A), table.is_open(B)) == (1, False, True)
    assert [each.session for each in table.sessions_of({"r": 9})] == [B]
    assert table.end(B)
    assert table.sessions_of({"r": 9}) == []
    assert not used(table, B, R1)
    assert not table._of_rollout, "something grows with the length of a run"


def test_the_table_may_change_while_somebody_goes_through_it(table: SessionTable) -> None:
    """C16: a commit looks at it slice by slice."""
    table.seed(R, A)
    table.seed(R, B)
    for entry in table:
        table.end(entry.session)
    assert len(table) == 0


def test_only_a_table_without_sessions_past_or_present_is_fresh(table: SessionTable) -> None:
    """C19."""
    assert table.is_fresh
    table.restore(A, R)
    assert not table.is_fresh
    table.end(A)
    assert table.is_fresh
    table.restore(A, R)
    used(table, A, R)
    table.end(A)
    assert not table.is_fresh
    seeded = SessionTable()
    seeded.seed(R, A)
    seeded.end(A)
    assert not seeded.is_fresh


def test_a_restored_session_is_unused_until_a_request_of_its_episode_comes(table: SessionTable) -> None:
    """C21, C23."""
    table.restore(A, R1)
    table.seed(R, B)
    entries = {each.session: each for each in table}
    assert (entries[A].restored, entries[A].used) == (True, False)
    assert (entries[B].restored, entries[B].used) == (False, True)
    used(table, A, R)
    assert not entries[A].used
    assert used(table, A, R1)
    assert entries[A].used


def test_a_retired_episode_is_refused_with_its_earlier_attempts_until_it_is_forgotten(table: SessionTable) -> None:
    """C24."""
    table.retire([R1])
    for episode in (R, R1):
        with pytest.raises(StaleAttempt, match=episode.key):
            table.refuse_retired(episode)
    for episode in (R2, OTHER, None):
        table.refuse_retired(episode)
    table.retire([R])
    with pytest.raises(StaleAttempt):
        table.refuse_retired(R1)
    table.forget(["other", "r"])
    table.refuse_retired(R)


def test_the_sessions_of_an_episode_are_those_of_its_earlier_attempts_too(table: SessionTable) -> None:
    """C24."""
    for session, episode in zip("abcd", (R, R1, R2, OTHER), strict=True):
        table.seed(episode, SessionId(session))
    assert {each.session for each in table.sessions_of({"r": 1})} == {"a", "b"}
    assert {each.session for each in table.sessions_of({"r": 0, "other": 5, "unknown": 1})} == {"a", "d"}


def test_requests_in_flight_are_counted_for_each_episode(table: SessionTable) -> None:
    """C24."""
    for episode in (R, R, R2):
        table.enter(episode)
    assert table.in_flight({"r": 1}) == [R]
    assert table.in_flight({"r": 2}) == [R, R2]
    assert table.in_flight({"other": 9}) == []
    table.leave(R)
    assert table.in_flight({"r": 1}) == [R]
    table.leave(R)
    assert table.in_flight({"r": 1}) == []


def test_of_each_rollout_the_newest_attempt_counts() -> None:
    """C24."""
    assert newest_attempts([R1, R2, R, OTHER]) == {"r": 2, "other": 0}
