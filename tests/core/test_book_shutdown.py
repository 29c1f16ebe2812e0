"""The server stops (L19)."""

import pytest

from groupjudge.core.effects import StopJudging
from groupjudge.errors import ShuttingDown
from groupjudge.model import GroupFailure

from .play import Play, kinds, outcomes


def test_every_waiting_caller_is_told_and_judging_is_cancelled() -> None:
    """L19: group by group in the order they began: stop its judging, tell its callers, let its answers go."""
    play = Play()
    collecting = play.arrive(0, key="collecting")
    run = play.complete("judging")
    effects = play.close()
    assert kinds(effects) == ["Settle", "Release", "StopJudging", "Settle", "Settle", "Release", "Release"]
    assert effects[2] == StopJudging(run)
    told = outcomes(effects)
    assert next(iter(told)) == collecting
    assert set(told.values()) == {GroupFailure("shutting_down", "the server is stopping")}
    assert len(told) == 3


def test_nothing_is_active_any_more() -> None:
    """L19: and nothing has a deadline but the age of what is retained."""
    play = Play(ttl_s=None)
    play.arrive(0)
    play.complete("judging")
    play.close()
    assert set(play.phases().values()) == {"group_failed"}
    assert play.book.next_deadline() is None


@pytest.mark.parametrize("request_", [{}, {"key": "new"}, {"size": 1, "key": "new"}], ids=["retry", "new", "alone"])
def test_later_requests_are_told_that_the_server_stops(request_: dict) -> None:
    """L19, L7: before anything else, exact retries of completed groups included."""
    play = Play()
    play.finish()
    play.close()
    with pytest.raises(ShuttingDown):
        play.arrive(0, **request_)


def test_a_late_verdict_after_the_shutdown_is_dropped() -> None:
    """L19, L24: its callers have their reply."""
    play = Play()
    run = play.complete()
    play.close()
    assert play.judged(run, 1.0, 2.0) == []


def test_a_deadline_that_was_due_by_the_shutdown_comes_first() -> None:
    """L19, L15: the caller hears the truth about it."""
    play = Play(collection_timeout_s=10.0)
    play.arrive(0)
    play.now = 10.0
    (outcome,) = outcomes(play.close()).values()
    assert outcome.kind == "collection_timeout"


def test_stopping_twice_is_stopping_once() -> None:
    """L19: a second signal finds nothing to do."""
    play = Play()
    play.arrive(0)
    play.close()
    assert play.close() == []


def test_a_caller_that_left_before_is_not_told() -> None:
    """L19, L8."""
    play = Play()
    play.book.leave(play.arrive(0))
    assert kinds(play.close()) == ["Release"]


def test_what_a_stopped_group_leaves_fits_into_the_limits() -> None:
    """L19, L18: many groups that fail at once are retained like any others."""
    play = Play(max_results=2, max_attempt_records=1)
    for number in range(5):
        play.arrive(0, key=f"g{number}")
    play.close()
    assert list(play.phases()) == ["g3", "g4"]
    assert play.records() == [("g4", 0)]
