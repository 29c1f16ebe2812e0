"""Which session a request is in, whether it may pass, and what its reply ends (C2-C4, C9, C15, C24)."""

from __future__ import annotations

import asyncio

import pytest

from groupjudge.errors import ShuttingDown, StaleAttempt
from groupjudge.model import Rewarded
from groupjudge.service.bodies import Disconnected
from groupjudge.service.sessions import Cookies
from groupjudge.service.visits import CLOSE_FOLLOWS, NoEpisodes, episode_in

from .asgi import GONE, Caller, headers
from .room import SECRET, Room, scope_of, session_given, settled


async def test_a_seeded_session_is_open_and_its_episodes() -> None:
    """C2, C3: 2xx binds it; every reply promises that a verify may be replayed."""
    room = Room()
    session = await room.seed("r-a2")
    assert room.table.get(session).episode == ("r", 2)  # type: ignore[arg-type, union-attr]
    assert room.episodes.seeding == ((b"x-ng-checkpoint-verify", b"replay"),)


@pytest.mark.parametrize("episode", [None, "r-a1-a2"])
async def test_without_an_episode_a_session_is_its_cookie_alone(episode: str | None) -> None:
    """C2: no prefix, or one that names none; it is in no checkpoint."""
    room = Room()
    session = await room.seed(episode)
    assert session
    assert len(room.table) == 0
    assert not room.table.is_fresh
    assert room.verify(0, session, episode).visit.entry is None


async def test_seeding_again_with_its_cookie_keeps_a_session_and_any_other_cookie_gets_a_new_one() -> None:
    """C2: another episode's, an ended one's, a forged one."""
    room = Room()
    session = await room.seed("r")
    assert await room.seed("r", session) == session
    assert len(room.table) == 1
    for episode in ("other", "r-a1"):
        assert await room.seed(episode, session) != session
    forged = await room.episodes.seed(
        scope_of("r"), headers({"cookie": Room.cookie(_Other(), session)["cookie"]}), Caller().receive
    )
    assert session_given(room.cookies, forged) != session
    await room.close(session)
    assert await room.seed("r", session) != session


class _Other:
    """Somebody who signs with another key."""

    cookies = Cookies("t" * 64)


@pytest.mark.parametrize("episode", ["other", "r-a1", None])
async def test_nobody_brings_a_member_or_ends_a_session_with_anothers_cookie(episode: str | None) -> None:
    """C2, and the security of it: under another prefix it is no session."""
    room = Room()
    session = await room.seed("r")
    call = room.verify(0, session, episode, close_follows=False)
    assert call.visit.entry is None
    await room.close(session, episode)
    room.verify(1, None, None)
    await settled()
    assert call.is_told
    assert room.table.is_open(session)  # type: ignore[arg-type]
    assert room.host.exported(session) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "stays"),
    [
        ({CLOSE_FOLLOWS: "1"}, True),
        ({CLOSE_FOLLOWS: " 1 "}, True),
        ({CLOSE_FOLLOWS: "0"}, False),
        ({CLOSE_FOLLOWS: ""}, False),
        ({}, False),
    ],
)
async def test_a_verify_ends_its_session_unless_a_close_follows(said: dict[str, str], stays: bool) -> None:
    """C2."""
    room = Room()
    session = await room.seed("r")
    visit = room.episodes.verifying(scope_of("r"), headers({**room.cookie(session), **said}))
    room.episodes.answered(visit)
    assert room.table.is_open(session) == stays  # type: ignore[arg-type]
    room.episodes.answered(visit)


async def test_a_close_ends_the_session() -> None:
    """C2, C4: and what was remembered of it."""
    room = Room()
    session, _ = await room.finished()
    assert room.host.exported(session) is not None  # type: ignore[arg-type]
    await room.close(session, "g0")
    assert room.host.exported(session) is None  # type: ignore[arg-type]
    room.book.check()


async def test_a_group_failure_ends_no_session() -> None:
    """C2: only a 200 does."""
    room = Room()
    session = await room.seed("r")
    call = room.verify(0, session, close_follows=False)
    await room.clock.moves(2000)
    assert call.is_told
    assert room.table.is_open(session)  # type: ignore[arg-type]


async def test_while_a_checkpoint_is_open_a_verify_ends_its_session_at_the_resume() -> None:
    """C2: the commit still exports it."""
    room = Room()
    sessions = [await room.seed(f"r{slot}") for slot in (0, 1)]
    room.prepare()
    for slot, session in enumerate(sessions):
        room.verify(slot, session, f"r{slot}", close_follows=False)
    await settled()
    late = room.verify(0, sessions[0], "r0", close_follows=False)
    assert not late.is_told
    assert len(room.table) == 2
    await room.participant.resume("ck")
    await settled()
    assert late.is_told
    assert len(room.table) == 0


async def test_a_replay_while_a_checkpoint_is_open_ends_its_session_at_the_resume() -> None:
    """C2: its outcome was there before, so it is told at once."""
    room = Room()
    sessions = await room.finished()
    room.prepare()
    call = room.verify(0, sessions[0], "g0", close_follows=False)
    await settled()
    assert call.outcome == Rewarded(1.0)
    assert room.table.is_open(sessions[0])  # type: ignore[arg-type]
    await room.participant.resume("ck")
    assert not room.table.is_open(sessions[0])  # type: ignore[arg-type]
    assert room.table.is_open(sessions[1])  # type: ignore[arg-type]


async def test_a_session_that_ends_while_a_body_comes_brings_nothing() -> None:
    """C4, C18: else it would keep its group for ever."""
    room = Room()
    session = await room.seed("r")
    late = room.verify(0, session, arrives=False)
    await room.close(session)
    late.arrive()
    room.verify(1)
    await settled()
    assert late.outcome == Rewarded(1.0)
    assert room.host.exported(session) is None  # type: ignore[arg-type]
    assert len(room.book._memory.backings) == 0


async def test_a_retired_episode_may_do_nothing_but_close() -> None:
    """C24: verify, seed and the others; earlier attempts too."""
    room = Room()
    session = await room.seed("r")
    room.table.retire([("r", 1)])  # type: ignore[list-item]
    for episode in ("r", "r-a1"):
        with pytest.raises(StaleAttempt):
            room.verify(0, None, episode)
        with pytest.raises(StaleAttempt):
            await room.seed(episode)
        with pytest.raises(StaleAttempt):
            room.episodes.passing(scope_of(episode))
    assert room.table.in_flight({"r": 9}) == []
    room.verify(0, None, "r-a2")
    room.episodes.left(room.episodes.passing(scope_of("r-a2")))
    await room.close(session)
    assert len(room.table) == 0


async def test_a_stopping_server_says_so_before_it_looks_at_episodes() -> None:
    """L7."""
    room = Room()
    room.table.retire([("r", 0)])  # type: ignore[list-item]
    room.door.stop()
    with pytest.raises(ShuttingDown):
        room.verify(0, None, "r")
    with pytest.raises(ShuttingDown):
        await room.seed("r")


# -- the door --------------------------------------------------------------------------------------------------------


async def test_seeds_and_closes_wait_for_the_resume() -> None:
    """C9: they are neither refused nor counted."""
    room = Room()
    session = await room.seed("r")
    room.prepare()
    waiting = [asyncio.ensure_future(room.seed("s")), asyncio.ensure_future(room.close(session))]
    await settled()
    assert [each.done() for each in waiting] == [False, False]
    assert room.participant.status()["report"]["counts"] == {"inflight": 0, "sessions": 1}
    await room.participant.resume("ck")
    await asyncio.gather(*waiting)
    assert {each.episode for each in room.table} == {("s", 0)}
    await room.seed("t")


async def test_a_seed_of_an_episode_that_is_retired_meanwhile_is_refused_at_the_resume() -> None:
    """C9, C24."""
    room = Room()
    room.episodes.begin()
    waiting = asyncio.ensure_future(room.seed("r"))
    await settled()
    room.table.retire([("r", 0)])  # type: ignore[list-item]
    room.episodes.resume()
    with pytest.raises(StaleAttempt):
        await waiting


async def test_a_seed_whose_caller_leaves_while_it_waits_opens_nothing() -> None:
    """C4: nobody would ever end that session."""
    room = Room()
    room.prepare()
    caller = Caller()
    waiting = asyncio.ensure_future(room.episodes.seed(scope_of("r"), headers(), caller.receive))
    await settled()
    caller.says(GONE)
    with pytest.raises(Disconnected):
        await waiting
    await room.participant.resume("ck")
    await settled()
    assert len(room.table) == 0
    assert len(asyncio.all_tasks()) == 1


async def test_a_close_whose_caller_leaves_while_it_waits_is_done_nevertheless() -> None:
    """C9: it is what that one wanted."""
    room = Room()
    session = await room.seed("r")
    room.prepare()
    waiting = asyncio.ensure_future(room.close(session))
    await settled()
    await room.participant.resume("ck")
    await waiting
    assert len(room.table) == 0


async def test_whoever_waits_at_the_door_is_told_when_the_server_stops() -> None:
    """L19."""
    room = Room()
    session = await room.seed("r")
    room.prepare()
    waiting = [asyncio.ensure_future(room.seed("s")), asyncio.ensure_future(room.close(session))]
    await settled()
    room.door.stop()
    for each in waiting:
        with pytest.raises(ShuttingDown):
            await each


async def test_a_door_that_is_shut_again_at_once_lets_nobody_slip_through() -> None:
    """C9: a resume and the next prepare in one breath."""
    room = Room()
    room.prepare()
    waiting = asyncio.ensure_future(room.seed("s"))
    await settled()
    await room.participant.resume("ck")
    room.prepare("ck2")
    await settled()
    assert not waiting.done()
    assert len(room.table) == 0
    await room.participant.resume("ck2")
    await waiting


async def test_waiting_for_requests_ends_at_its_deadline() -> None:
    """C24."""
    room = Room()
    loop = asyncio.get_running_loop()
    asked = []

    def holds() -> bool:
        asked.append(1)
        return len(asked) > 3

    waiting = asyncio.ensure_future(room.episodes.until(holds, loop.time() + 100))
    for _ in range(2):
        await settled()
        room.episodes.left(room.episodes.verifying(scope_of("r"), headers()))
    await settled()
    assert not waiting.done()
    await room.clock.moves(101)
    assert await waiting
    assert not await room.episodes.until(lambda: False, loop.time() - 1)


# -- without checkpoints ---------------------------------------------------------------------------------------------


async def test_without_checkpoints_sessions_are_cookies_and_no_more() -> None:
    """H7, C3."""
    cookies = Cookies(SECRET)
    off = NoEpisodes(cookies)
    first = session_given(cookies, await off.seed(scope_of("r"), headers(), Caller().receive))
    second = session_given(cookies, await off.seed(scope_of("r"), headers(), Caller().receive))
    assert first != second
    assert off.seeding == ()
    visit = off.verifying(scope_of("r"), headers())
    assert off.session_of(visit) is None
    off.left(off.passing(scope_of("r")))
    off.answered(visit)
    off.left(visit)
    ((name, value),) = await off.close(scope_of("r"), headers())
    assert (name, b"Max-Age=0" in value) == (b"set-cookie", True)


def test_the_episode_of_a_request_is_that_of_its_prefix() -> None:
    """C2."""
    assert episode_in(scope_of("r-a3")) == ("r", 3)
    assert episode_in({"type": "http"}) is None
