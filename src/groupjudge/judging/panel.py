"""All pairs of a group before one judge: planned, asked at once, scored (J1-J3, J10, J13)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal

from groupjudge.errors import JudgeFailed
from groupjudge.judging.judge import Judge, JudgeCall, JudgeEvents, NoEvents, Prepared
from groupjudge.model import AnswerTexts, Judgement, Pair, Reading, Topic, Verdict
from groupjudge.scoring import ScoringRules, planned_pairs, score_group

DEFAULTED = "groupjudge:default_scores"
"""The `failure_kind` of a group in which default scores stood in for verdicts (J13)."""
_REASON_SHOWN = 2000


@dataclass(frozen=True, slots=True)
class PanelRules:
    """What is compared, by which principle, and what an unreadable comparison means; names as in the configuration."""

    default_principle: str
    strategy: str = "circular"
    judges_per_pair: int = 1
    use_principle: bool = False
    on_unreadable: Literal["fail", "default_scores"] = "fail"
    scoring: ScoringRules = field(default_factory=ScoringRules)


class Panel(Generic[Prepared]):
    """Judges whole groups. Holds nothing between them, so one panel serves any number at once."""

    def __init__(self, judge: Judge[Prepared], rules: PanelRules, events: JudgeEvents | None = None) -> None:
        self._judge = judge
        self._rules = rules
        self._events: JudgeEvents = events or NoEvents()

    async def judge(self, topic: Topic, texts: Sequence[AnswerTexts]) -> Judgement:
        """Judge the answers of one group, in slot order: every planned pair once, all of them at once as far as the
        judge has places.

        Raises JudgeFailed as soon as one pair has failed for good, and scoring's NotFinite. However it ends, it leaves
        no task and no call behind.
        """
        pairs = planned_pairs(len(texts), self._rules.strategy, self._rules.judges_per_pair)
        calls = await self._ask(topic, texts, pairs) if pairs else []
        verdicts = tuple(self._verdict(pair, call) for pair, call in zip(pairs, calls, strict=True))
        scored = score_group(texts, verdicts, self._rules.scoring)
        note = _default_note(pairs, calls)
        return Judgement(scored.rewards, verdicts, scored.metrics, DEFAULTED if note else None, note)

    async def _ask(self, topic: Topic, texts: Sequence[AnswerTexts], pairs: Iterable[Pair]) -> list[JudgeCall]:
        prepared = self._judge.prepare(Topic(topic.conversation, self._principle(topic)), texts)
        try:
            # Its tasks start in the order in which they are made, so they queue at the gate as the pairs are planned.
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._compare(prepared, pair)) for pair in pairs]
        except BaseExceptionGroup as failures:
            raise _the_one_to_report(failures.exceptions) from None
        return [task.result() for task in tasks]

    async def _compare(self, prepared: Prepared, pair: Pair) -> JudgeCall:
        call = await self._judge.compare(prepared, pair)
        if call.reading is None:
            if self._rules.on_unreadable == "fail":
                raise JudgeFailed(f"answers {pair.i} and {pair.j}: {call.problem}", "unreadable verdict")
            self._events.defaulted()
        return call

    def _principle(self, topic: Topic) -> str | None:
        """J10: the request's, else the configured one; None where principles are off."""
        if not self._rules.use_principle:
            return None
        return self._rules.default_principle if topic.principle is None else topic.principle

    def _verdict(self, pair: Pair, call: JudgeCall) -> Verdict:
        scoring = self._rules.scoring
        default = Reading(scoring.default_score, scoring.default_score, scoring.default_ranking)
        return Verdict(*pair, *(call.reading or default))


def _the_one_to_report(failures: Sequence[BaseException]) -> BaseException:
    """Of failures that came together, one that is no judge's fault: it is a defect, and must not hide."""
    return next((failure for failure in failures if not isinstance(failure, JudgeFailed)), failures[0])


def _default_note(pairs: Sequence[Pair], calls: Sequence[JudgeCall]) -> str | None:
    """What is said to the members of a group in which default scores stood in; None where none did."""
    defaulted = [(pair, call) for pair, call in zip(pairs, calls, strict=True) if call.reading is None]
    if not defaulted:
        return None
    pair, call = defaulted[0]
    note = (
        f"the default scores stood in for {len(defaulted)} of {len(calls)} verdicts that could not be read; "
        f"answers {pair.i} and {pair.j}: {call.problem}"
    )
    return note[:_REASON_SHOWN]
