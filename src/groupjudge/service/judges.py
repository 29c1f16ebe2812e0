"""From the configuration to a judge and a panel: the one place that knows both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from groupjudge.judging.client import HttpJudge, HttpJudgeOptions
from groupjudge.judging.judge import Judge, JudgeEvents, NoEvents
from groupjudge.judging.local import LocalJudge, LocalJudgeOptions
from groupjudge.judging.panel import Panel, PanelRules
from groupjudge.judging.reading import ReadingRules
from groupjudge.scoring import ScoringRules
from groupjudge.service.host import JudgeGroup
from groupjudge.settings import JudgeSettings, Settings

T = TypeVar("T")


def open_judge(settings: Settings, events: JudgeEvents) -> Judge[Any]:
    """The configured judge, not yet asked anything. Raises ConfigurationError where it cannot be built."""
    rules = _reading_rules(settings)
    if settings.judge.format == "local":
        return LocalJudge(_local_options(settings), rules, events=events)
    options = _options(settings.judge, settings.comparison.use_principle)
    return HttpJudge(options, rules, events=events)


def open_panel(settings: Settings, judge: Judge[Any], events: JudgeEvents) -> Panel[Any]:
    """What judges whole groups with `judge`."""
    rules = PanelRules(
        default_principle=settings.comparison.default_principle,
        strategy=settings.comparison.strategy,
        judges_per_pair=settings.comparison.judges_per_pair,
        use_principle=settings.comparison.use_principle,
        on_unreadable=settings.judge.on_unreadable,
        calls_per_answer=settings.comparison.calls_per_answer,
        both_orders=settings.comparison.both_orders,
        budget_calls=settings.comparison.budget_calls,
        seed=settings.comparison.seed,
        equal_answers=settings.comparison.equal_answers,
        scoring=ScoringRules(**settings.scoring.model_dump(exclude={"score_range", "ranking_range"})),
    )
    return Panel(judge, rules, events)


def _local_options(settings: Settings) -> LocalJudgeOptions:
    judge = settings.judge
    return LocalJudgeOptions(
        model=judge.model,
        template=judge.template,
        max_concurrency=judge.max_concurrency,
        empty_answer_text=judge.empty_answer_text,
        use_principle=settings.comparison.use_principle,
    )


def _options(judge: JudgeSettings, use_principle: bool) -> HttpJudgeOptions:
    assert judge.format != "local"
    return HttpJudgeOptions(
        base_url=judge.base_url,
        format=judge.format,
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
    )


def _reading_rules(settings: Settings) -> ReadingRules:
    return ReadingRules(
        score_range=settings.scoring.score_range,
        ranking_range=settings.scoring.ranking_range,
        default_ranking=settings.scoring.default_ranking,
        on_conflict=settings.judge.on_conflict,
    )


async def judge_with(
    settings: Settings, work: Callable[[JudgeGroup], Awaitable[T]], events: JudgeEvents | None = None
) -> T:
    """Do `work` with the configured judge, which is closed after it. `events` hears what the judge does."""
    events = events or NoEvents()
    judge = open_judge(settings, events)
    try:
        return await work(open_panel(settings, judge, events).judge)
    finally:
        await judge.close()
