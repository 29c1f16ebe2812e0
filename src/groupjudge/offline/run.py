"""Judging all groups of a file: many at a time, each written as soon as it is judged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from groupjudge.errors import BudgetSpent, JudgeFailed
from groupjudge.model import AnswerTexts, Judgement, Topic
from groupjudge.offline import usage
from groupjudge.offline.groups import BadLine, FileGroup
from groupjudge.offline.results import Output
from groupjudge.offline.tally import Tally
from groupjudge.scoring import NotFinite

JudgeGroup = Callable[[Topic, Sequence[AnswerTexts]], Awaitable[Judgement]]
Tell = Callable[[Tally, str | None], None]
AT_ONCE = 64
_SHOWN = 300


async def judge_all(
    groups: Iterable[FileGroup | BadLine],
    output: Output,
    judge: JudgeGroup,
    tell: Tell,
    *,
    tally: Tally | None = None,
    limit: int | None = None,
    give_up_after: int = 0,
    at_once: int = AT_ONCE,
) -> Tally:
    """Judge the groups that `output` does not hold yet, at most `limit` of them, `at_once` at a time. `tell` hears of
    every step, with a line for people where something went wrong. A failed group is not written: the next run judges it
    again. No further group is begun once `give_up_after` (0: never) groups in a row have failed. `tally` is what is
    counted in and given back: who hands one over knows it however judging ends."""
    tally = tally or Tally()
    try:
        async with asyncio.TaskGroup() as running:
            places = asyncio.Semaphore(at_once)
            for group in _wanted(groups, output, tally, tell, limit):
                await places.acquire()
                if tally.spent or 0 < give_up_after <= tally.failures.in_a_row:
                    tally.gave_up = True
                    break
                task = running.create_task(_judge_one(group, output, judge, tally, tell))
                task.add_done_callback(lambda _: places.release())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return tally


def _wanted(
    groups: Iterable[FileGroup | BadLine],
    output: Output,
    tally: Tally,
    tell: Tell,
    limit: int | None,
) -> Iterator[FileGroup]:
    """The groups that are to be judged now."""
    begun = 0
    for group in groups:
        if isinstance(group, BadLine):
            tally.bad_lines += 1
            tell(tally, f"line {group.line}: {group.reason}")
        elif output.holds(group):
            tally.skipped += 1
            tell(tally, None)
        elif limit is not None and begun >= limit:
            return
        else:
            begun += 1
            yield group


async def _judge_one(group: FileGroup, output: Output, judge: JudgeGroup, tally: Tally, tell: Tell) -> None:
    used = usage.begin()
    started = time.perf_counter()
    try:
        judgement = await judge(group.topic, group.texts)
    except (JudgeFailed, NotFinite) as error:
        tally.spent |= isinstance(error, BudgetSpent)
        kind = error.summary if isinstance(error, JudgeFailed) else "a reward that is not finite"
        tally.failures.add(group.line, kind, str(error), used)
        tell(tally, f"line {group.line}: the judge failed: {str(error)[:_SHOWN]}")
        return
    used.seconds = time.perf_counter() - started
    output.write(group, judgement, used)
    tally.judged += 1
    tally.verdicts += len(judgement.verdicts)
    tally.defaulted += used.defaulted
    tally.failures.in_a_row = 0
    tell(tally, None)
