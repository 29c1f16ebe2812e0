"""`POST /compare`: a whole group at once (H6)."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from groupjudge.answers.compare import CompareRequest, read_compare
from groupjudge.answers.spool import size_of
from groupjudge.errors import GroupJudgeError, InvalidRequest
from groupjudge.model import Topic
from groupjudge.service import wire
from groupjudge.service.analyst import Analyst
from groupjudge.service.at_once import AtOnce
from groupjudge.service.bodies import BodyReader, Disconnected
from groupjudge.service.metrics import Metrics
from groupjudge.service.reply import send_reply
from groupjudge.settings import Settings


class Compare:
    """The ASGI endpoint."""

    def __init__(
        self, settings: Settings, at_once: AtOnce, reader: BodyReader, analyst: Analyst, metrics: Metrics
    ) -> None:
        self._at_once = at_once
        self._reader = reader
        self._analyst = analyst
        self._metrics = metrics
        self._default_score = settings.scoring.default_score
        self._max_size = settings.limits.max_group_size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            request = await self._request(Headers(scope=scope), receive)
            reply = await self._judged(request, receive)
        except Disconnected:
            return
        except GroupJudgeError as error:
            self._metrics.replied("compare", error.code)
            await send_reply(send, wire.of_error(error))
            return
        self._metrics.replied("compare", "ok")
        await send_reply(send, reply)

    async def _request(self, headers: Headers, receive: Receive) -> CompareRequest:
        body = await self._reader.read(headers, receive)
        self._metrics.read(size_of(body))
        request = await self._analyst.read(body, read_compare)
        self._check_size(len(request.texts))
        return request

    def _check_size(self, size: int) -> None:
        if size > self._max_size:
            limit = f"limits.max_group_size ({self._max_size})"
            raise InvalidRequest.at("response_objs", msg=f"{size} answers are more than {limit}")

    async def _judged(self, request: CompareRequest, receive: Receive) -> wire.Reply:
        if len(request.texts) < 2:
            return wire.comparison(None, [self._default_score] * len(request.texts))
        judgement = await self._at_once.judged(Topic(request.conversation, request.principle), request.texts, receive)
        return wire.comparison(judgement, judgement.rewards)
