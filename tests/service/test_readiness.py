"""Whether the judge can be reached, asked seldom (H8)."""

from __future__ import annotations

import asyncio

from groupjudge.service import readiness
from groupjudge.service.readiness import FRESH_NO_S, FRESH_S, Readiness


class Judge:
    """Says what it is told to say, and counts how often it is asked."""

    def __init__(self, says: str | None = None) -> None:
        self.says = says
        self.asked = 0

    async def __call__(self) -> str | None:
        self.asked += 1
        await asyncio.sleep(0)
        return self.says


async def test_the_judge_is_asked_once_however_many_want_to_know() -> None:
    """H8: at the same time, and soon after."""
    judge, now = Judge("no"), [0.0]
    ready = Readiness(judge, clock=lambda: now[0])
    assert await asyncio.gather(*(ready.why_not() for _ in range(5))) == ["no"] * 5
    now[0] = FRESH_NO_S - 0.001
    judge.says = None
    assert await ready.why_not() == "no"
    assert judge.asked == 1


async def test_a_no_does_not_last_as_long_as_a_yes() -> None:
    """H8: a judge that loads its model is soon there."""
    judge, now = Judge("loading"), [0.0]
    ready = Readiness(judge, clock=lambda: now[0])
    assert await ready.why_not() == "loading"
    now[0], judge.says = FRESH_NO_S, None
    assert await ready.why_not() is None
    now[0], judge.says = FRESH_NO_S + FRESH_S - 0.001, "gone"
    assert await ready.why_not() is None


async def test_what_it_said_does_not_last() -> None:
    """H8: in both directions."""
    judge, now = Judge("no"), [0.0]
    ready = Readiness(judge, clock=lambda: now[0])
    for says in ("no", None, "again"):
        judge.says = says
        assert await ready.why_not() == says
        now[0] += FRESH_S


async def test_a_judge_that_does_not_answer(monkeypatch) -> None:
    """H8: is not ready."""
    monkeypatch.setattr(readiness, "PATIENCE_S", 0.01)

    async def never() -> str | None:
        await asyncio.Event().wait()

    assert "did not answer" in str(await Readiness(never).why_not())


async def test_a_caller_that_leaves_does_not_keep_the_others_from_asking() -> None:
    """A cancelled probe leaves no answer behind."""
    judge = Judge()
    ready = Readiness(judge)
    first = asyncio.ensure_future(ready.why_not())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert await ready.why_not() is None
    assert judge.asked == 2


async def test_a_glance_waits_for_nothing_and_asks_meanwhile() -> None:
    """H8: at first nothing is known; what is known is told until there is news; however often, it is asked once."""
    judge, now = Judge("no"), [0.0]
    ready = Readiness(judge, clock=lambda: now[0])
    assert [ready.glance() for _ in range(3)] == [(None, None)] * 3
    assert await ready.why_not() == "no"
    assert ready.glance() == (False, "no")
    now[0], judge.says = FRESH_NO_S, None
    assert ready.glance() == (False, "no")
    assert await ready.why_not() is None
    assert ready.glance() == (True, None)
    assert judge.asked == 2
    await ready.close()


async def test_nothing_is_asked_after_the_end() -> None:
    """L19: a judge that does not answer keeps no server from stopping, and no task is left."""
    over: list[str] = []

    async def silent() -> str | None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            over.append("cancelled")
            raise
        return None

    ready = Readiness(silent)
    ready.glance()
    await asyncio.sleep(0)
    await ready.close()
    assert over == ["cancelled"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await Readiness(silent).close()
