"""Calls that are made before a group is complete (F7, `comparison.start: eager`).

An `EarlyGroup` asks for each planned pair as soon as both of its members are there. Once the group is complete it is
judged by the same panel and the same rules as any other, but for one thing: where the panel asks an `EarlyJuror` for a
pair that was begun, it gets that call. So the verdicts and what follows from them are the same. Pairs that cannot be
known early (later rounds of `adaptive`, the next juror's turn) are asked then; a call that failed early is told then.
Where not all members came (F8), what is planned for those that came is taken from what was begun, where it was.

**Whose turn it is.** Early calls take places that no complete group's call waits for. With its last member the group
takes its turn like any other, with what still waits (F13).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from groupjudge.judging.gate import Line
from groupjudge.judging.judge import Judge, JudgeCall
from groupjudge.judging.panel import PanelRules
from groupjudge.judging.usage import Accounts, group_accounts, usages_of
from groupjudge.model import AnswerTexts, Judgement, Pair, Slot, Topic
from groupjudge.scoring import PairRules, first_pairs

MOST_CALLS = 20_000
"""Groups with more planned calls are judged when they are complete: listing the pairs takes some 10 ms at most."""

JudgeSlots: TypeAlias = Callable[[Topic, Sequence[AnswerTexts], Sequence[Slot] | None], Awaitable[Judgement]]
_completing: ContextVar[EarlyGroup | None] = ContextVar("_completing", default=None)


class Early(NamedTuple):
    """What an early juror prepared for a complete group: the juror's own, and the calls that were begun."""

    prepared: Any
    group: EarlyGroup | None


class EarlyJuror:
    """A juror as panels ask it. For a group that was opened early it gives the calls that were begun then."""

    def __init__(self, judge: Judge[Any]) -> None:
        self.judge = judge

    def prepare(self, topic: Topic, texts: Sequence[AnswerTexts]) -> Early:
        """See `Comparer.prepare`."""
        group = _completing.get()
        line = None if group is None else group.lines[self]
        return Early(self.judge.prepare(topic, texts, line), group)

    async def compare(self, prepared: Early, pair: Pair) -> JudgeCall:
        """See `Comparer.compare`."""
        begun = None if prepared.group is None else prepared.group.taken(self, pair)
        try:
            return await (self.judge.compare(prepared.prepared, pair) if begun is None else begun)
        finally:
            del begun  # it holds the failure that it raised, and that this frame


class EarlyRules(NamedTuple):
    """Who is asked what of an early group. `first_asked` says which of the jurors are asked for a pair at first."""

    jurors: Sequence[EarlyJuror]
    rules: PanelRules
    first_asked: Callable[[Pair], Iterable[int]]
    judge: JudgeSlots


class EarlyGroup:
    """The calls of one group, from its first member on. It ends with `judge` or with `cancel`; after `cancel`, `ended`
    says when nothing of it is left."""

    def __init__(self, of: EarlyRules, topic: Topic, size: int) -> None:
        self._of = of
        self._topic = topic
        self._pairs = _pairs_of(size, of.rules.pairs)
        self._texts: dict[Slot, AnswerTexts] = {}
        self._begun: dict[tuple[EarlyJuror, Pair], asyncio.Task[JudgeCall]] = {}
        self._slots: Sequence[Slot] | None = None
        self._is_complete = self._is_over = False
        self._needless = 0
        self.lines: Mapping[EarlyJuror, Line] = {each: each.judge.gate.line(early=True) for each in of.jurors}
        self._accounts: Accounts = {}
        with group_accounts(self._accounts):
            self._context = copy_context()

    def add(self, slot: Slot, texts: AnswerTexts) -> None:
        """A member has come: ask for every pair of it and one that is there."""
        self._texts[slot] = texts
        for pair in self._pairs.get(slot, ()):
            if pair.i in self._texts and pair.j in self._texts:
                for number in self._of.first_asked(pair):
                    self._begin(self._of.jurors[number], pair)

    def _begin(self, juror: EarlyJuror, pair: Pair) -> None:
        call = self._call(juror, (self._texts[pair.i], self._texts[pair.j]), pair.judge)
        # Each in a context of its own, in which the judge finds the group's account.
        task = asyncio.get_running_loop().create_task(call, context=self._context.copy())
        task.add_done_callback(_looked_at)
        self._begun[juror, pair] = task

    async def _call(self, juror: EarlyJuror, both: Sequence[AnswerTexts], judge: int) -> JudgeCall:
        prepared = juror.judge.prepare(self._of.rules.shown(self._topic), both, self.lines[juror])
        return await juror.judge.compare(prepared, Pair(0, 1, judge))

    def taken(self, juror: EarlyJuror, pair: Pair) -> asyncio.Task[JudgeCall] | None:
        """The call of this pair of places, where it was begun; it is given once."""
        named = pair if self._slots is None else pair._replace(i=self._slots[pair.i], j=self._slots[pair.j])
        return self._begun.pop((juror, named), None)

    async def judge(self, texts: Sequence[AnswerTexts], slots: Sequence[Slot] | None = None) -> Judgement:
        """Judge those that came, as `Panel.judge` does. However it ends, it leaves no task and no call behind."""
        self._slots, self._is_complete = slots, True
        for juror, line in self.lines.items():
            juror.judge.gate.complete(line)
        asked = set(self._begun.values())
        before = _completing.set(self)
        try:
            with group_accounts(self._accounts):
                judgement = await self._of.judge(self._topic, texts, slots)
            self._needless = sum(1 for call in self._begun.values() if call.done())
            return replace(judgement, usage=usages_of(self._accounts))
        finally:
            _completing.reset(before)
            try:
                await _cancelled(asked)
            finally:
                del asked  # a failure of theirs holds the frames that it passed

    def cancel(self) -> int:
        """Stop what is under way. Says how many calls were made in vain: all requests of a group that never came to be
        judged; of one that has rewards, the calls that these did not need. Again: 0."""
        made = sum(account.calls for account in self._accounts.values())
        wasted = 0 if self._is_over else self._needless if self._is_complete else made
        self._is_over = True
        for task in self._begun.values():
            task.cancel()
        self._texts.clear()
        return wasted

    async def ended(self) -> None:
        """Return once no call is under way."""
        await _cancelled(self._begun.values())
        self._begun.clear()  # a failure of theirs holds the frames that it passed, and those this group


def _looked_at(task: asyncio.Task[JudgeCall]) -> None:
    """Its failure is told when the group is complete, or never: either way nobody need be warned of it."""
    if not task.cancelled():
        task.exception()


async def _cancelled(tasks: Iterable[asyncio.Task[JudgeCall]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@lru_cache(maxsize=64)
def _pairs_of(size: int, rules: PairRules) -> Mapping[Slot, tuple[Pair, ...]]:
    """The planned pairs of each slot; none where there are too many."""
    by_slot: dict[Slot, list[Pair]] = {}
    for pair in first_pairs(size, rules) if _may_be_early(size, rules) else ():
        by_slot.setdefault(pair.i, []).append(pair)
        by_slot.setdefault(pair.j, []).append(pair)
    return MappingProxyType({slot: tuple(pairs) for slot, pairs in by_slot.items()})


def _may_be_early(size: int, rules: PairRules) -> bool:
    """Without listing the pairs of a group that has too many."""
    of_each = {"circular": 1, "adaptive": 1, "circulant": rules.calls_per_answer}.get(rules.strategy, size // 2)
    return size * of_each * rules.calls_a_pair <= MOST_CALLS
