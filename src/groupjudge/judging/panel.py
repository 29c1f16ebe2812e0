"""All pairs of a group before one judge: planned, asked round by round, scored (J1-J3, J10, J13, F1, F4, F6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Literal, NamedTuple, TypeVar

from groupjudge.errors import JudgeFailed
from groupjudge.judging.judge import Comparer, JudgeCall, JudgeEvents, NoEvents, Prepared
from groupjudge.judging.together import together
from groupjudge.model import AnswerTexts, Judgement, Pair, Reading, Slot, Topic, Verdict
from groupjudge.scoring import PairRules, ScoringRules, first_pairs, next_pairs, planned_calls, score_group
from groupjudge.scoring.measures import measured

T = TypeVar("T")

DEFAULTED = "groupjudge:default_scores"
"""The `failure_kind` of a group in which default scores stood in for verdicts (J13)."""
_REASON_SHOWN = 2000
_QUICK = {"simple_tiebreaker": 4096, "win_rate": 2048}
_QUICK_MODEL = 64
"""Up to so many verdicts are scored on the event loop (by the aggregators named here, and by the others): some 10 ms at
most. More would hold up other callers (H11)."""


@dataclass(frozen=True, slots=True)
class PanelRules:
    """What is compared, by which principle, and what an unreadable comparison means; names as in the configuration."""

    default_principle: str
    strategy: str = "circular"
    judges_per_pair: int = 1
    use_principle: bool = False
    on_unreadable: Literal["fail", "default_scores"] = "fail"
    scoring: ScoringRules = field(default_factory=ScoringRules)
    calls_per_answer: int = 3
    both_orders: bool = False
    budget_calls: int | None = None
    seed: int = 0
    equal_answers: Literal["each", "once"] = "each"

    @property
    def pairs(self) -> PairRules:
        """The part that says which pairs are judged."""
        return PairRules(
            self.strategy,
            self.judges_per_pair,
            calls_per_answer=self.calls_per_answer,
            both_orders=self.both_orders,
            budget_calls=self.budget_calls,
            seed=self.seed,
        )

    def shown(self, topic: Topic) -> Topic:
        """J10: with the principle to send, the request's or else the configured one; None where principles are off."""
        if not self.use_principle:
            return topic._replace(principle=None)
        return topic if topic.principle is not None else topic._replace(principle=self.default_principle)


class Asked(NamedTuple):
    """A pair that was asked (of places among the answers), how the call ended, and the verdict it stands for."""

    pair: Pair
    call: JudgeCall
    verdict: Verdict


class Panel(Generic[Prepared]):
    """Judges whole groups. Holds nothing between them, so one panel serves any number at once."""

    def __init__(self, judge: Comparer[Prepared], rules: PanelRules, events: JudgeEvents | None = None) -> None:
        self._judge = judge
        self._rules = rules
        self._pairs = rules.pairs
        self._events: JudgeEvents = events or NoEvents()

    async def judge(self, topic: Topic, texts: Sequence[AnswerTexts], slots: Sequence[Slot] | None = None) -> Judgement:
        """Judge the answers of one group, in slot order: every planned pair once, all pairs of a round at once as far
        as the judge has places. Where equal answers are judged once, pairs are planned for the distinct ones. `slots`
        is where the answers sit, in case not all members came (F8): verdicts and reasons speak of these.

        Raises JudgeFailed as soon as one pair has failed for good, and scoring's NotFinite. However it ends, it leaves
        no task and no call behind.
        """
        return await self.judgement(texts, await self.ask(topic, texts, slots), slots)

    async def ask(self, topic: Topic, texts: Sequence[AnswerTexts], slots: Sequence[Slot] | None = None) -> list[Asked]:
        """Ask round by round. Listed by judge index, then as the pairs were planned (J2). Raises JudgeFailed."""
        places = self._places(texts)
        pairs = first_pairs(len(places), self._pairs)
        if not pairs:
            return []
        prepared = self._judge.prepare(self._rules.shown(topic), texts)
        asked: list[Asked] = []
        verdicts: list[Verdict] = []  # on places among `places`, which is what rounds are planned in
        while pairs:
            seated = [Pair(places[pair.i], places[pair.j], pair.judge) for pair in pairs]
            calls = await self._ask_round(prepared, seated, slots)
            asked += [Asked(*each, self._verdict(*each)) for each in zip(seated, calls, strict=True)]
            verdicts += [self._verdict(*each) for each in zip(pairs, calls, strict=True)]
            pairs = await self._next_round(len(places), verdicts)
        return sorted(asked, key=lambda each: each.pair.judge)

    async def _next_round(self, size: int, verdicts: Sequence[Verdict]) -> list[Pair]:
        if self._pairs.strategy != "adaptive":
            return []
        return await computed(partial(next_pairs, size, self._pairs, verdicts), len(verdicts) <= _QUICK_MODEL)

    async def _ask_round(
        self, prepared: Prepared, pairs: Iterable[Pair], slots: Sequence[Slot] | None
    ) -> list[JudgeCall]:
        # They begin in this order, so they queue at the gate as the pairs are planned.
        return await together(self._compare(prepared, pair, slots) for pair in pairs)

    async def _compare(self, prepared: Prepared, pair: Pair, slots: Sequence[Slot] | None) -> JudgeCall:
        call = await self._judge.compare(prepared, pair)
        if call.reading is None and self._rules.on_unreadable == "fail":
            raise JudgeFailed(f"{_named(pair, slots)}: {call.problem}", "unreadable verdict")
        return call

    async def judgement(
        self, texts: Sequence[AnswerTexts], asked: Sequence[Asked], slots: Sequence[Slot] | None = None
    ) -> Judgement:
        """What the calls that were `asked` for a group say about it. Raises NotFinite."""
        same = self._same(texts)
        for each in asked:
            if each.call.reading is None:
                self._events.defaulted()
        verdicts = tuple(each.verdict for each in asked)
        rules = self._rules.scoring
        is_quick = len(verdicts) <= _QUICK.get(rules.aggregator, _QUICK_MODEL)
        scored = await computed(partial(score_group, texts, verdicts, rules, same), is_quick)
        measures = await computed(partial(measured, verdicts, scored.rewards), is_quick)
        measures = measures._replace(
            ambiguous_replies=sum(1 for each in asked if each.call.ambiguous),
            default_scores=sum(1 for each in asked if each.call.reading is None),
            calls_saved=self._calls_saved(same) if same else 0,
        )
        self._events.group_scored(calls_saved=measures.calls_saved, is_flat=measures.is_flat)
        note = _default_note(asked, slots)
        kind = DEFAULTED if note else None
        if slots is not None:
            verdicts = tuple(verdict._replace(i=slots[verdict.i], j=slots[verdict.j]) for verdict in verdicts)
        return Judgement(scored.rewards, verdicts, scored.metrics, kind, note, scored.errors, measures)

    def _places(self, texts: Sequence[AnswerTexts]) -> list[Slot]:
        """The places of the answers that the judge is shown."""
        same = self._same(texts)
        return sorted(set(same)) if same else list(range(len(texts)))

    def _same(self, texts: Sequence[AnswerTexts]) -> list[Slot] | None:
        return first_of_equals(texts) if self._rules.equal_answers == "once" else None

    def _calls_saved(self, same: Sequence[Slot]) -> int:
        return self._calls(len(same)) - self._calls(len(set(same)))

    def _calls(self, size: int) -> int:
        """How many calls a group of `size` distinct answers costs."""
        return planned_calls(size, self._pairs)

    def _verdict(self, pair: Pair, call: JudgeCall) -> Verdict:
        scoring = self._rules.scoring
        default = Reading(scoring.default_score, scoring.default_score, scoring.default_ranking)
        return Verdict(*pair, *(call.reading or default))


async def computed(work: Callable[[], T], is_quick: bool) -> T:
    """What `work` gives: on the loop where it is quick, else in a thread. There a cancelled one is finished and thrown
    away: it is arithmetic, and touches nothing."""
    return work() if is_quick else await asyncio.to_thread(work)


def first_of_equals(texts: Sequence[AnswerTexts]) -> list[Slot]:
    """For each slot the lowest one with an equal answer text: all that a judge sees of an answer (F6)."""
    first: dict[str, Slot] = {}
    return [first.setdefault(text.answer, slot) for slot, text in enumerate(texts)]


def _named(pair: Pair, slots: Sequence[Slot] | None) -> str:
    """A pair as people are told of it."""
    i, j = (pair.i, pair.j) if slots is None else (slots[pair.i], slots[pair.j])
    return f"answers {i} and {j}"


def _default_note(asked: Sequence[Asked], slots: Sequence[Slot] | None) -> str | None:
    """What is said to the members of a group in which default scores stood in; None where none did."""
    defaulted = [each for each in asked if each.call.reading is None]
    if not defaulted:
        return None
    pair, call, _ = defaulted[0]
    note = (
        f"the default scores stood in for {len(defaulted)} of {len(asked)} verdicts that could not be read; "
        f"{_named(pair, slots)}: {call.problem}"
    )
    return note[:_REASON_SHOWN]
