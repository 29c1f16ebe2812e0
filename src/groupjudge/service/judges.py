"""From the configuration to judges that judge whole groups: the one place that knows both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

from groupjudge.judging.client import HttpJudge, HttpJudgeOptions
from groupjudge.judging.desk import Desk
from groupjudge.judging.early import EarlyGroup, EarlyJuror, EarlyRules, JudgeSlots
from groupjudge.judging.judge import Comparer, Judge, JudgeEvents, NoEvents
from groupjudge.judging.jury import AllJury, Tally, TurnsJury
from groupjudge.judging.listwise import ListwiseJudge
from groupjudge.judging.listwise_panel import ListPanel
from groupjudge.judging.local import LocalJudge, LocalJudgeOptions
from groupjudge.judging.panel import Panel, PanelRules
from groupjudge.judging.reading import ReadingRules
from groupjudge.judging.turns import turns
from groupjudge.judging.usage import Budget, Meter, Prices, group_accounts, usages_of
from groupjudge.model import AnswerTexts, Judgement, JudgeUsage, Slot, Topic
from groupjudge.scoring import ListRules, ScoringRules
from groupjudge.settings import ComparisonSettings, JudgeSettings, Settings, juror_name, jurors_of, name_of

T = TypeVar("T")
Listed: TypeAlias = Sequence[tuple[str, JudgeSettings]]
"""Judges' sections with the keys where they stand."""


class Judges:
    """All judges that are configured, not yet asked anything. Raises ConfigurationError where one cannot be built."""

    def __init__(self, settings: Settings, events: JudgeEvents | None = None) -> None:
        """`events` hears what the judges do; `tally` is what the jurors of a panel did."""
        events = events or NoEvents()
        self._jurors = [_open_juror(settings, listed, events) for listed in _jurors(settings)]
        early = [EarlyJuror(juror) for juror in self._jurors] if settings.comparison.start == "eager" else None
        self._panel, self.tally = _open_panel(settings, early or self._jurors, events)
        self._early = None if early is None else _early_rules(settings, early, self._panel.judge)

    async def judge(self, topic: Topic, texts: Sequence[AnswerTexts], slots: Sequence[Slot] | None = None) -> Judgement:
        """Judge the answers of one group; see `Panel.judge`. The judgement says what it cost."""
        with group_accounts() as accounts:
            judgement = await self._panel.judge(topic, texts, slots)
        return replace(judgement, usage=usages_of(accounts))

    @property
    def open_early(self) -> Callable[[Topic, int], EarlyGroup] | None:
        """Opens a group, of a topic and a size, that is judged as its members come (F7); None where none is."""
        return None if self._early is None else partial(EarlyGroup, self._early)

    async def reachable(self) -> str | None:
        """None where a juror can be asked (H8), else why none can."""
        refusals = await asyncio.gather(*(juror.reachable() for juror in self._jurors))
        return None if None in refusals else "; ".join(refusal for refusal in refusals if refusal is not None)

    async def close(self) -> None:
        """Let go of connections, threads and models."""
        for juror in self._jurors:
            await juror.close()

    @property
    def in_flight(self) -> int:
        """How many calls are under way."""
        return sum(juror.gate.in_flight for juror in self._jurors)

    @property
    def waiting(self) -> int:
        """How many calls wait for a place."""
        return sum(juror.gate.waiting for juror in self._jurors)

    @property
    def places(self) -> int:
        """How many calls there may be at once."""
        return sum(juror.gate.places for juror in self._jurors)

    def addresses(self) -> Iterator[tuple[Meter, Desk]]:
        """What each judge of the configuration cost, and what the gate knows of it."""
        for juror in self._jurors:
            yield from zip(juror.meters, juror.gate.desks, strict=True)

    def usage(self) -> list[JudgeUsage]:
        """What each judge of the configuration has cost so far."""
        return [meter.usage(meter.total) for meter, _ in self.addresses()]


async def judge_with(
    settings: Settings, work: Callable[[Judges], Awaitable[T]], events: JudgeEvents | None = None
) -> T:
    """Do `work` with the configured judges, which are closed after it. `events` hears what they do."""
    judges = Judges(settings, events)
    try:
        return await work(judges)
    finally:
        await judges.close()


def most_calls(settings: Settings) -> int:
    """How many calls to judges there may be at once."""
    return sum(judge.max_concurrency for judge in settings.all_judges.values())


def rules_of(settings: Settings) -> str:
    """What rewards hang on, as a text that is the same where that is the same. Where a judge is found is no part, nor
    when it is asked."""
    shared: dict[str, Any] = {"comparison": set(ComparisonSettings.model_fields) - {"start"}, "scoring": True}
    kept = [] if settings.judges is None else [numbers[0] for numbers in jurors_of(settings.judges).values()]
    if settings.judges is not None and len(kept) > 1:
        items: Any = {number: {"format", "model", "juror"} for number in kept}
        return settings.model_dump_json(include={"judges": items, **shared})
    (judge, *_) = settings.all_judges.values()
    keys = {"format", "model", *(("list_size", "list_overlap") if judge.format == "listwise" else ())}
    same = settings.model_copy(update={"judge": JudgeSettings(**{key: getattr(judge, key) for key in keys})})
    return same.model_dump_json(include={"judge": keys, **shared})


def _jurors(settings: Settings) -> list[Listed]:
    """The judges that are one juror each."""
    if settings.judges is None:
        return [[("judge", settings.judge)]]
    jurors = jurors_of(settings.judges).values()
    return [[(f"judges.{number}", settings.judges[number]) for number in numbers] for numbers in jurors]


def _open_juror(settings: Settings, listed: Listed, events: JudgeEvents) -> Judge[Any]:
    key, judge = listed[0]
    rules = _reading_rules(settings, judge)
    if judge.format == "local":
        meter = Meter(name_of(judge, key), budget=Budget(**judge.budget.model_dump()), key=key)
        return LocalJudge(_local_options(settings, judge), rules, meter=meter, events=events)
    first, *others = (_options(key, judge, settings.comparison.use_principle) for key, judge in listed)
    opened = ListwiseJudge if judge.format == "listwise" else HttpJudge
    return opened(first, rules, others=others, events=events)


def _early_rules(settings: Settings, jurors: Sequence[EarlyJuror], judge: JudgeSlots) -> EarlyRules:
    """Of jurors that take turns, the first one is asked early."""
    rules = _panel_rules(settings, _jurors(settings)[0][0][1])
    in_turn = len(jurors) > 1 and settings.comparison.jurors == "in_turn"
    first_asked = (lambda pair: turns(pair, len(jurors))[:1]) if in_turn else (lambda _: range(len(jurors)))
    return EarlyRules(jurors, rules, first_asked, judge)


def _open_panel(
    settings: Settings, jurors: Sequence[Comparer[Any]], events: JudgeEvents
) -> tuple[Panel[Any] | AllJury | TurnsJury, Tally]:
    """What judges whole groups with these jurors, and what they do."""
    firsts = [listed[0] for listed in _jurors(settings)]
    names = [juror_name(judge, key) for key, judge in firsts]
    rules = [_panel_rules(settings, judge) for _, judge in firsts]
    if len(jurors) == 1:
        return _single_panel(settings, firsts[0][1], jurors[0], events), Tally(names)
    if settings.comparison.jurors == "all":
        everybody = AllJury(names, jurors, rules, events)
        return everybody, everybody.tally
    # A call that no juror's tries could read has default scores where any juror is for them.
    lenient = next((rule for rule in rules if rule.on_unreadable == "default_scores"), rules[0])
    in_turn = TurnsJury(names, jurors, lenient, events)
    return in_turn, in_turn.tally


def _single_panel(settings: Settings, judge: JudgeSettings, juror: Comparer[Any], events: JudgeEvents) -> Panel[Any]:
    rules = _panel_rules(settings, judge)
    if not isinstance(juror, ListwiseJudge):
        return Panel(juror, rules, events)
    lists = ListRules(judge.list_size, judge.list_overlap, settings.comparison.judges_per_pair)
    return ListPanel(juror, rules, lists, events)


def _panel_rules(settings: Settings, judge: JudgeSettings) -> PanelRules:
    return PanelRules(
        default_principle=settings.comparison.default_principle,
        strategy=settings.comparison.strategy,
        judges_per_pair=settings.comparison.judges_per_pair,
        use_principle=settings.comparison.use_principle,
        on_unreadable=judge.on_unreadable,
        calls_per_answer=settings.comparison.calls_per_answer,
        both_orders=settings.comparison.both_orders,
        budget_calls=settings.comparison.budget_calls,
        seed=settings.comparison.seed,
        equal_answers=settings.comparison.equal_answers,
        scoring=ScoringRules(**settings.scoring.model_dump(exclude={"score_range", "ranking_range"})),
    )


def _local_options(settings: Settings, judge: JudgeSettings) -> LocalJudgeOptions:
    return LocalJudgeOptions(
        model=judge.model,
        template=judge.template,
        max_concurrency=judge.max_concurrency,
        empty_answer_text=judge.empty_answer_text,
        use_principle=settings.comparison.use_principle,
    )


def _options(key: str, judge: JudgeSettings, use_principle: bool) -> HttpJudgeOptions:
    assert judge.format != "local"
    return HttpJudgeOptions(
        base_url=judge.base_url,
        format="template" if judge.format == "listwise" else judge.format,
        model=judge.model,
        api_key=judge.api_key,
        params=judge.params,
        template=judge.template,
        structured_output=judge.structured_output,
        request_timeout_s=judge.request_timeout_s,
        retries=judge.retries,
        retry_sleep_s=judge.retry_sleep_s,
        max_concurrency=judge.max_concurrency,
        min_concurrency=judge.min_concurrency,
        requests_per_minute=judge.requests_per_minute,
        tokens_per_minute=judge.tokens_per_minute,
        empty_answer_text=judge.empty_answer_text,
        trust_env=judge.trust_env,
        use_principle=use_principle,
        prices=Prices(**judge.price.model_dump()),
        budget=Budget(**judge.budget.model_dump()),
        name=name_of(judge, key),
        key=key,
    )


def _reading_rules(settings: Settings, judge: JudgeSettings) -> ReadingRules:
    return ReadingRules(
        score_range=settings.scoring.score_range,
        ranking_range=settings.scoring.ranking_range,
        default_ranking=settings.scoring.default_ranking,
        on_conflict=judge.on_conflict,
    )
