"""Judging for one caller who holds all answers, without the core: nothing is remembered of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.types import Receive

from groupjudge.errors import JudgeFailed, ShuttingDown
from groupjudge.model import AnswerTexts, Judgement, Topic
from groupjudge.service.bodies import Disconnected
from groupjudge.service.callers import wait_until_gone
from groupjudge.service.host import HostEvents, JudgeGroup


class AtOnce:
    """A caller that disconnects cancels its judging, and so does `close`."""

    def __init__(self, judge: JudgeGroup, timeout_s: float, events: HostEvents) -> None:
        self._judge = judge
        self._events = events
        self._timeout_s = timeout_s
        self._judging: set[asyncio.Task[Judgement]] = set()
        self._closed = False

    @property
    def judging(self) -> int:
        """How many groups are being judged."""
        return len(self._judging)

    def close(self) -> None:
        """Cancel all judging; its callers are told that the server is stopping."""
        self._closed = True
        for task in self._judging:
            task.cancel()

    async def judged(self, topic: Topic, texts: Sequence[AnswerTexts], receive: Receive) -> Judgement:
        """The judgement of two answers or more. Raises JudgeFailed (also at the deadline), ShuttingDown,
        Disconnected."""
        if self._closed:
            raise ShuttingDown("the server is stopping")
        task = asyncio.ensure_future(self._judge(topic, texts))
        self._judging.add(task)
        task.add_done_callback(self._judging.discard)
        watcher = asyncio.create_task(wait_until_gone(receive))
        try:
            return await self._first(task, watcher)
        finally:
            watcher.cancel()
            task.cancel()
            try:
                await asyncio.gather(task, return_exceptions=True)
            finally:
                del task  # it holds the error that it raised, and that this frame

    async def _first(self, task: asyncio.Task[Judgement], watcher: asyncio.Task[None]) -> Judgement:
        """The judgement, unless the caller leaves, the deadline passes or the server stops before it."""
        done, _ = await asyncio.wait({task, watcher}, timeout=self._timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise JudgeFailed(f"the judging deadline of {self._timeout_s:g} s passed", "deadline")
        if task not in done:
            raise Disconnected
        if task.cancelled():
            raise ShuttingDown("the server is stopping")
        try:
            judgement = task.result()
        finally:
            del task, done  # as above
        self._events.rewarded(judgement.rewards)
        return judgement
