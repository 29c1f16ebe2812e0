"""A panel of several models before a whole group (F10): every juror judges every pair, or they take turns.

**What a juror's failure means.** Where all judge, a juror that fails on one pair is left out of the whole group: its
other calls are cancelled and its verdicts dropped, so the rewards are bit for bit those of the panel without it. (Were
only that pair dropped, the two answers on it would be worth more or less than the others by how lenient the juror is.)
Where they take turns, the next juror is asked for the pair. Either way it is counted, and never a vote. Where no juror
is left, J13 holds: a judge failure, or default scores where they are switched on and a juror replied.

A verdict's judge index says whose it is: index modulo the number of jurors, in the order of the configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from groupjudge.errors import BudgetSpent, JudgeFailed
from groupjudge.judging.judge import Comparer, JudgeEvents
from groupjudge.judging.panel import Asked, Panel, PanelRules, computed
from groupjudge.judging.together import together
from groupjudge.judging.turns import Turns
from groupjudge.model import AnswerTexts, Judgement, JurorReport, Slot, Topic
from groupjudge.scoring.disagreement import Compared, disagreement

log = structlog.get_logger(__name__)

_SHOWN = 400
_QUICK = 4096
"""Up to so many verdicts are compared on the event loop (H11)."""


class Tally:
    """What the jurors of a server did, for its metrics: by juror, in how many cases it was left out (groups where all
    judge, calls where they take turns); over all, how many verdicts of two jurors on one pair there were."""

    def __init__(self, names: Sequence[str]) -> None:
        self.left_out = dict.fromkeys(names, 0)
        self.pairs = 0
        self.differing = 0

    def compared(self, said: Compared) -> None:
        """One group's."""
        self.pairs += said.pairs
        self.differing += said.differing


class AllJury:
    """Every juror judges every pair, each at its own pace."""

    def __init__(
        self, names: Sequence[str], jurors: Sequence[Comparer[Any]], rules: Sequence[PanelRules], events: JudgeEvents
    ) -> None:
        """`rules` are each juror's; they differ only in `on_unreadable`."""
        self.tally = Tally(names)
        self._names = names
        self._panels = [Panel(juror, rule, events) for juror, rule in zip(jurors, rules, strict=True)]

    async def judge(self, topic: Topic, texts: Sequence[AnswerTexts], slots: Sequence[Slot] | None = None) -> Judgement:
        """See `Panel.judge`. Raises JudgeFailed where every juror failed."""
        heard = await self._hear(topic, texts, slots)
        replied = {n: asked for n, asked in enumerate(heard) if isinstance(asked, list)}
        whole = {n: asked for n, asked in replied.items() if all(each.call.reading for each in asked)}
        if not replied:
            raise self._nobody([failed for failed in heard if isinstance(failed, JudgeFailed)])
        counted = whole or replied  # with default scores only where there is nothing better
        why = {n: "" if n in counted else _why(said) for n, said in enumerate(heard)}
        for n in set(why) - set(counted):
            self.tally.left_out[self._names[n]] += 1
            log.warning("juror_left_out", juror=self._names[n], why=why[n])
        asked = [_by(n, len(heard), each) for n, all_of in counted.items() for each in all_of]
        asked.sort(key=lambda each: each.pair.judge)
        judgement = await self._panels[0].judgement(texts, asked, slots)
        return await _reported(judgement, self._names, {n: said for n, said in why.items() if said}, self.tally)

    async def _hear(
        self, topic: Topic, texts: Sequence[AnswerTexts], slots: Sequence[Slot] | None
    ) -> list[list[Asked] | JudgeFailed]:
        """What each juror was asked and replied, or why it failed."""
        return await together(_heard(panel, topic, texts, slots) for panel in self._panels)

    def _nobody(self, failures: Sequence[JudgeFailed]) -> JudgeFailed:
        reasons = "; ".join(f"{name}: {f.reason[:_SHOWN]}" for name, f in zip(self._names, failures, strict=True))
        summaries = "; ".join(f"{name}: {f.summary}" for name, f in zip(self._names, failures, strict=True))
        kind = BudgetSpent if all(isinstance(failed, BudgetSpent) for failed in failures) else JudgeFailed
        return kind(f"all {len(failures)} jurors failed: {reasons}", f"all jurors failed: {summaries}")


class TurnsJury:
    """Each pair is judged by one juror."""

    def __init__(
        self, names: Sequence[str], jurors: Sequence[Comparer[Any]], rules: PanelRules, events: JudgeEvents
    ) -> None:
        self.tally = Tally(names)
        self._names = names
        self._panel = Panel(Turns(jurors, self._left_out), rules, events)

    async def judge(self, topic: Topic, texts: Sequence[AnswerTexts], slots: Sequence[Slot] | None = None) -> Judgement:
        """See `Panel.judge`. Raises JudgeFailed where every juror failed on a pair."""
        asked = await self._panel.ask(topic, texts, slots)
        asked = [_by(each.call.juror, len(self._names), each) for each in asked]
        asked.sort(key=lambda each: each.pair.judge)
        return await _reported(await self._panel.judgement(texts, asked, slots), self._names, {}, self.tally)

    def _left_out(self, number: int, failed: JudgeFailed) -> None:
        name = self._names[number]
        self.tally.left_out[name] += 1
        log.warning("juror_left_out", juror=name, why=failed.summary)


async def _heard(
    panel: Panel[Any], topic: Topic, texts: Sequence[AnswerTexts], slots: Sequence[Slot] | None
) -> list[Asked] | JudgeFailed:
    try:
        return await panel.ask(topic, texts, slots)
    except JudgeFailed as failed:
        return failed


def _why(said: list[Asked] | JudgeFailed) -> str:
    """Without any text of a judge (L26)."""
    return said.summary if isinstance(said, JudgeFailed) else "unreadable verdict"


def _by(number: int, jurors: int, asked: Asked) -> Asked:
    """The call as one of juror `number`."""
    judge = asked.pair.judge * jurors + number
    return Asked(asked.pair._replace(judge=judge), asked.call, asked.verdict._replace(judge=judge))


async def _reported(judgement: Judgement, names: Sequence[str], why: dict[int, str], tally: Tally) -> Judgement:
    """With what each juror did."""
    verdicts = Counter(verdict.judge % len(names) for verdict in judgement.verdicts)
    compare = partial(disagreement, judgement.verdicts, len(names))
    over_all, each = await computed(compare, len(judgement.verdicts) <= _QUICK)
    tally.compared(over_all)
    jurors = tuple(JurorReport(name, verdicts[n], why.get(n), each[n].share) for n, name in enumerate(names))
    return replace(judgement, jurors=jurors, disagreement=over_all.share)
