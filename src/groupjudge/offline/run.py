"""Judging all groups of a file: many at a time, each written as soon as it is judged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from groupjudge.errors import JudgeFailed
from groupjudge.model import AnswerTexts, Judgement, Topic
from groupjudge.offline.groups import BadLine, FileGroup
from groupjudge.offline.results import Output
from groupjudge.scoring import NotFinite

JudgeGroup = Callable[[Topic, Sequence[AnswerTexts]], Awaitable[Judgement]]
AT_ONCE = 64


@dataclass(slots=True)
class Tally:
    """What became of a file: groups judged now, found done, and failed with their reasons by line; bad lines."""

    judged: int = 0
    skipped: int = 0
    verdicts: int = 0
    failures: dict[int, str] = field(default_factory=dict)
    bad_lines: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether every line was of use and every group judged."""
        return not self.failures and not self.bad_lines


async def judge_all(
    groups: Iterable[FileGroup | BadLine],
    output: Output,
    judge: JudgeGroup,
    tell: Callable[[Tally, str | None], None],
    *,
    limit: int | None = None,
    at_once: int = AT_ONCE,
) -> Tally:
    """Judge the groups that `output` does not hold yet, at most `limit` of them, `at_once` at a time. `tell` hears of
    every step, with a line for people where something went wrong. A failed group is not written: the next run judges it
    again."""
    tally = Tally()
    try:
        async with asyncio.TaskGroup() as running:
            places = asyncio.Semaphore(at_once)
            for group in _wanted(groups, output, tally, tell, limit):
                await places.acquire()
                task = running.create_task(_judge_one(group, output, judge, tally, tell))
                task.add_done_callback(lambda _: places.release())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return tally


def _wanted(
    groups: Iterable[FileGroup | BadLine],
    output: Output,
    tally: Tally,
    tell: Callable[[Tally, str | None], None],
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


async def _judge_one(
    group: FileGroup, output: Output, judge: JudgeGroup, tally: Tally, tell: Callable[[Tally, str | None], None]
) -> None:
    try:
        judgement = await judge(group.topic, group.texts)
    except (JudgeFailed, NotFinite) as error:
        tally.failures[group.line] = str(error)[:200]
        tell(tally, f"line {group.line}: the judge failed: {str(error)[:300]}")
        return
    output.write(group, judgement)
    tally.judged += 1
    tally.verdicts += len(judgement.verdicts)
    tell(tally, None)
