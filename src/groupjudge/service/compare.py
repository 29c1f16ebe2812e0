"""`POST /compare`: a whole group at once (H6)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from groupjudge.answers.compare import CompareRequest, read_compare
from groupjudge.errors import GroupJudgeError, InvalidRequest, JudgeFailed, ShuttingDown
from groupjudge.model import AnswerTexts, Judgement, Topic
from groupjudge.service import wire
from groupjudge.service.bodies import BodyReader, Disconnected
from groupjudge.service.callers import wait_until_gone
from groupjudge.service.host import JudgeGroup
from groupjudge.service.metrics import Metrics
from groupjudge.service.reply import send_reply
from groupjudge.settings import Settings

log = structlog.get_logger(__name__)


class Compare:
    """The ASGI endpoint. A caller that disconnects cancels its judging, and so does `close`."""

    def __init__(self, settings: Settings, judge: JudgeGroup, reader: BodyReader, metrics: Metrics) -> None:
        self._judge = judge
        self._reader = reader
        self._metrics = metrics
        self._default_score = settings.scoring.default_score
        self._timeout_s = settings.group.judging_timeout_s
        self._max_size = settings.limits.max_group_size
        self._judging: set[asyncio.Task[Judgement]] = set()
        self._closed = False

    def close(self) -> None:
        """Cancel all judging; its callers are told that the server is stopping."""
        self._closed = True
        for task in self._judging:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            request = await self._request(Headers(scope=scope), receive)
            reply = await self._judged(Topic(request.conversation, request.principle), request.texts, receive)
        except Disconnected:
            return
        except GroupJudgeError as error:
            self._metrics.replied("compare", error.code)
            await send_reply(send, wire.of_error(error))
            return
        self._metrics.replied("compare", "ok")
        await send_reply(send, reply)

    async def _request(self, headers: Headers, receive: Receive) -> CompareRequest:
        async with self._reader.place(headers) as place:
            body = await self._reader.read(headers, receive, place)
            self._metrics.read(len(body))
            request = read_compare(body)
        self._check_size(len(request.texts))
        return request

    def _check_size(self, size: int) -> None:
        if size > self._max_size:
            limit = f"limits.max_group_size ({self._max_size})"
            raise InvalidRequest.at("response_objs", msg=f"{size} answers are more than {limit}")

    async def _judged(self, topic: Topic, texts: Sequence[AnswerTexts], receive: Receive) -> wire.Reply:
        if len(texts) < 2:
            return wire.comparison(None, [self._default_score] * len(texts))
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
            await asyncio.gather(task, return_exceptions=True)

    async def _first(self, task: asyncio.Task[Judgement], watcher: asyncio.Task[None]) -> wire.Reply:
        """The judgement, unless the caller leaves, the deadline passes or the server stops before it."""
        done, _ = await asyncio.wait({task, watcher}, timeout=self._timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise JudgeFailed(f"the judging deadline of {self._timeout_s:g} s passed", "deadline")
        if task not in done:
            raise Disconnected
        if task.cancelled():
            raise ShuttingDown("the server is stopping")
        judgement = task.result()
        return wire.comparison(judgement, judgement.rewards)
