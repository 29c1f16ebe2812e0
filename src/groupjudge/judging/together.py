"""What is asked of a judge for one group at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from groupjudge.errors import JudgeFailed

T = TypeVar("T")


async def together(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What each of the calls gives, in their order; they begin in it too. As soon as one fails the others are
    cancelled, and its failure is raised. However it ends, it leaves no task behind.

    A failure knows the frames that it passed. Where one of these knows the failure, through a task (those of the calls,
    or the one that all this is in) or a group of failures, they hold each other, and with them the texts of the group,
    until the garbage collector looks.
    """
    tasks: list[asyncio.Task[T]] = []
    group = asyncio.TaskGroup()
    failure: BaseException | None = None
    try:
        async with group:
            tasks = [group.create_task(call) for call in calls]
    except BaseExceptionGroup as failures:
        failure = the_one_to_report(failures.exceptions)
        failures.__traceback__ = None
    except BaseException as cancelled:
        cancelled.__traceback__ = None  # asyncio's own frame holds it
        del tasks, group
        raise
    if failure is None:
        return [task.result() for task in tasks]
    try:
        raise failure
    finally:
        del failure, tasks, group


def the_one_to_report(failures: Sequence[BaseException]) -> BaseException:
    """Of failures that came together, one that is no judge's fault: it is a defect, and must not hide."""
    return next((failure for failure in failures if not isinstance(failure, JudgeFailed)), failures[0])
