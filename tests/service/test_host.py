"""The host over a real book: futures, tasks, one timer; and what is left when things are cut short (L2, L8, L11, L15,
L16, L19)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from groupjudge.core.book import Book, Limits
from groupjudge.errors import AnswerConflict, JudgeFailed, ShuttingDown
from groupjudge.model import (
    AnswerTexts,
    Arrival,
    Fingerprint,
    GroupFailure,
    GroupId,
    JudgeFailure,
    Judgement,
    Outcome,
    Rewarded,
    Topic,
)
from groupjudge.scoring import NotFinite
from groupjudge.service.host import Host, Waiting

from .asgi import until

TOPIC = Topic(())
Verdict = Callable[[Sequence[AnswerTexts]], Awaitable[Judgement]]


async def outcome_of(waiting: Waiting) -> Outcome | None:
    """A caller's outcome, which must not be long in coming."""
    return await asyncio.wait_for(asyncio.shield(waiting.outcome), 20)


class Bench:
    """A host, a judge that waits to be told, and all that was counted."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.cancelled = 0
        self.ended: list[str] = []
        self.rewards: list[tuple[float, ...]] = []
        self.failures: list[tuple[str, int, str]] = []
        self.judge: Verdict = self.by_length
        self.free = asyncio.Event()
        self.book = Book(limits or Limits())
        self.host = Host(self.book, self._judge, self)

    def group_ended(self, kind: str, seconds: float) -> None:
        assert seconds >= 0
        self.ended.append(kind)

    def rewarded(self, rewards: Sequence[float]) -> None:
        self.rewards.append(tuple(rewards))

    def failed(self, group: str, attempt: int, why: str) -> None:
        self.failures.append((group, attempt, why))

    async def _judge(self, topic: Topic, texts: Sequence[AnswerTexts]) -> Judgement:
        assert topic is TOPIC
        self.asked.append(tuple(text.answer for text in texts))
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return await self.judge(texts)

    @staticmethod
    async def by_length(texts: Sequence[AnswerTexts]) -> Judgement:
        return Judgement(tuple(float(len(text.answer)) for text in texts), (), None)

    def come(self, slot: int, text: str = "", *, group: str = "g", attempt: int = 0, size: int = 2) -> Waiting:
        text = text or "x" * (slot + 1)
        print_ = Fingerprint(text.encode())
        question = Fingerprint(b"q")
        material = AnswerTexts(text, "")
        return self.host.arrive(Arrival(GroupId(group), attempt, size, slot, question, print_, material, TOPIC))

    def nothing_is_left(self) -> None:
        """No caller, no task of judging, no text that is held."""
        assert (self.host.callers, self.host.judging, self.host.texts_held) == (0, 0, 0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert [task for task in others if task.get_name().startswith("judging")] == []
        self.book.check()


async def test_a_group_is_judged_once_with_its_answers_in_slot_order() -> None:
    """L2, L24: callers of one member share its outcome, whatever order they came in."""
    bench = Bench()
    waiting = [bench.come(2, size=3), bench.come(0, size=3), bench.come(2, size=3)]
    assert bench.asked == []
    waiting.append(bench.come(1, size=3))
    bench.free.set()
    outcomes = [await outcome_of(each) for each in waiting]
    assert outcomes == [Rewarded(3.0), Rewarded(1.0), Rewarded(3.0), Rewarded(2.0)]
    assert [each.slot for each in waiting] == [2, 0, 2, 1]
    assert bench.asked == [("x", "xx", "xxx")]
    await until(lambda: not bench.host.judging)
    assert bench.ended == ["rewarded"]
    bench.nothing_is_left()


async def test_a_known_outcome_is_there_at_once() -> None:
    """L4: the future is done before anybody waits."""
    bench = Bench()
    bench.free.set()
    await asyncio.gather(outcome_of(bench.come(0)), outcome_of(bench.come(1)))
    again = bench.come(1)
    assert again.outcome.done()
    assert again.outcome.result() == Rewarded(2.0)
    assert bench.come(0, size=1, group="alone").outcome.result() == Rewarded(3.0)
    assert len(bench.asked) == 1


async def test_a_refusal_leaves_nobody_waiting_and_no_text_held() -> None:
    """L5, L7."""
    bench = Bench()
    bench.come(0)
    with pytest.raises(AnswerConflict):
        bench.come(0, "another")
    assert (bench.host.callers, bench.host.texts_held) == (1, 1)


async def test_a_caller_that_leaves_detaches_only_itself() -> None:
    """L8: before and while its group is judged; one that leaves late changes nothing."""
    bench = Bench()
    first, twin = bench.come(0), bench.come(0)
    first.gone()
    assert await outcome_of(first) is None
    bench.host.leave(first)
    last = bench.come(1)
    await until(lambda: bench.asked != [])
    last.gone()
    bench.host.leave(last)
    assert bench.host.callers == 1
    bench.free.set()
    assert await outcome_of(twin) == Rewarded(1.0)
    twin.gone()
    bench.host.leave(twin)
    assert bench.come(1).outcome.result() == Rewarded(2.0)
    await until(lambda: not bench.host.judging)
    bench.nothing_is_left()


async def test_a_caller_that_is_gone_but_not_yet_known_to_the_core_is_settled_without_harm() -> None:
    """L8: its future was done by its leaving; the outcome does not fall on it again."""
    bench = Bench()
    first, second = bench.come(0), bench.come(1)
    first.gone()
    bench.free.set()
    assert await outcome_of(second) == Rewarded(2.0)
    assert first.outcome.result() is None
    bench.host.leave(first)
    await until(lambda: not bench.host.judging)
    bench.nothing_is_left()


async def test_a_newer_attempt_cancels_judging() -> None:
    """L11: and a verdict that was on its way reaches nobody."""
    bench = Bench()
    old = [bench.come(0), bench.come(1)]
    await until(lambda: bench.asked != [])
    new = [bench.come(0, "abc", attempt=1), bench.come(1, "abcd", attempt=1)]
    for each in old:
        outcome = await outcome_of(each)
        assert isinstance(outcome, GroupFailure)
        assert outcome.kind == "superseded"
    await until(lambda: bench.cancelled == 1)
    bench.free.set()
    assert [await outcome_of(each) for each in new] == [Rewarded(3.0), Rewarded(4.0)]
    await until(lambda: not bench.host.judging)
    assert sorted(bench.ended) == ["cancelled", "rewarded"]
    bench.nothing_is_left()


async def test_a_judge_that_does_not_let_itself_be_cancelled_changes_nothing() -> None:
    """L11, L24: its late verdict is of a run that is over."""
    bench, late = Bench(), asyncio.Event()

    async def stubborn(texts: Sequence[AnswerTexts]) -> Judgement:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await late.wait()
        return await bench.by_length(texts)

    bench.free.set()
    bench.judge = stubborn
    old = [bench.come(0), bench.come(1)]
    await until(lambda: len(bench.asked) == 1)
    await asyncio.sleep(0)
    bench.judge = bench.by_length
    new = [bench.come(0, "abc", attempt=1), bench.come(1, "abcd", attempt=1)]
    assert [await outcome_of(each) for each in new] == [Rewarded(3.0), Rewarded(4.0)]
    late.set()
    await until(lambda: not bench.host.judging)
    assert all(isinstance(each.outcome.result(), GroupFailure) for each in old)
    assert bench.come(0, "abc", attempt=1).outcome.result() == Rewarded(3.0)


@pytest.mark.parametrize(
    ("error", "kind", "outcome"),
    [
        (JudgeFailed("because " * 1000, "status 400"), "judge_failed", JudgeFailure(("because " * 1000)[:2000])),
        (NotFinite("slot 1 came out as inf"), "internal", GroupFailure("internal", "slot 1 came out as inf")),
    ],
)
async def test_what_a_judge_raises(error: Exception, kind: str, outcome: JudgeFailure | GroupFailure) -> None:
    """H4, J19: every caller gets it; the reason is bounded."""
    bench = Bench()

    async def raises(texts: Sequence[AnswerTexts]) -> Judgement:
        raise error

    bench.judge = raises
    bench.free.set()
    waiting = [bench.come(0), bench.come(1)]
    assert [await outcome_of(each) for each in waiting] == [outcome] * 2
    await until(lambda: not bench.host.judging)
    assert bench.ended == [kind]
    bench.nothing_is_left()


async def test_an_error_of_our_own_is_told_by_its_class_only(capsys: pytest.CaptureFixture[str]) -> None:
    """L26: its text may quote an answer."""
    bench = Bench()

    async def raises(texts: Sequence[AnswerTexts]) -> Judgement:
        raise KeyError("the text of an answer")

    bench.judge = raises
    bench.free.set()
    outcome = await asyncio.gather(outcome_of(bench.come(0)), outcome_of(bench.come(1)))
    assert outcome == [GroupFailure("internal", "an internal error while judging (KeyError)")] * 2
    logged = capsys.readouterr()
    assert "the text of an answer" not in logged.out + logged.err


@pytest.mark.parametrize("rewards", [(1.0,), (1.0, float("nan")), (float("inf"), 1.0), ()])
async def test_rewards_that_are_none_are_never_published(rewards: tuple[float, ...]) -> None:
    """J19."""
    bench = Bench()

    async def odd(texts: Sequence[AnswerTexts]) -> Judgement:
        return Judgement(rewards, (), None)

    bench.judge = odd
    bench.free.set()
    for outcome in await asyncio.gather(outcome_of(bench.come(0)), outcome_of(bench.come(1))):
        assert isinstance(outcome, GroupFailure)


async def test_the_timer_wakes_the_core_at_its_deadlines() -> None:
    """L15, L16: the one that is set later, but due earlier, too; nothing else happens meanwhile."""
    bench = Bench(Limits(collection_timeout_s=0.06, judging_timeout_s=0.02))
    collecting = bench.come(0, group="c")
    judged = [bench.come(0), bench.come(1)]
    outcomes = [await outcome_of(each) for each in judged]
    assert all(isinstance(outcome, JudgeFailure) for outcome in outcomes)
    outcome = await outcome_of(collecting)
    assert isinstance(outcome, GroupFailure)
    assert "1 of 2" in outcome.reason
    await until(lambda: bench.cancelled == 1 and not bench.host.judging)
    bench.nothing_is_left()


async def test_closing_settles_everybody_and_waits_for_judging_to_end() -> None:
    """L19: nothing is left, and nobody comes in any more."""
    bench = Bench()
    waiting = [bench.come(0), bench.come(1), bench.come(0, group="c")]
    await until(lambda: bench.asked != [])
    await bench.host.close()
    for each in waiting:
        outcome = each.outcome.result()
        assert isinstance(outcome, GroupFailure)
        assert outcome.kind == "shutting_down"
    assert bench.cancelled == 1
    bench.nothing_is_left()
    with pytest.raises(ShuttingDown):
        bench.come(0, group="later")
    await bench.host.close()


async def test_groups_are_shown_in_order() -> None:
    """H8: the active ones by age, the finished ones the newest first."""
    bench = Bench()
    bench.free.set()
    for name in ("a", "b"):
        await asyncio.gather(outcome_of(bench.come(0, group=name)), outcome_of(bench.come(1, group=name)))
    for name in ("c", "d"):
        bench.come(0, group=name)
    active, finished = bench.host.groups(9)
    assert [view.key for view in active] == ["c", "d"]
    assert [view.key for view in finished] == ["b", "a"]
    assert [view.callers for view in active] == [1, 1]
