"""`POST /v1/judge`: a whole group at once, in plain form (A1)."""

from __future__ import annotations

from functools import partial

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from groupjudge.answers.judge import JudgeRequest, read_judge
from groupjudge.answers.spool import size_of
from groupjudge.errors import GroupJudgeError, JudgeFailed
from groupjudge.model import GroupFailure, JudgeFailure, Judgement, Outcome, Rewarded
from groupjudge.service import wire
from groupjudge.service.analyst import Analyst
from groupjudge.service.at_once import AtOnce
from groupjudge.service.bodies import BodyReader, Disconnected
from groupjudge.service.callers import told
from groupjudge.service.host import MAX_REASON, Host
from groupjudge.service.metrics import Metrics
from groupjudge.service.reply import send_reply
from groupjudge.service.visits import Episodes
from groupjudge.settings import Settings


class JudgeWhole:
    """The ASGI endpoint. A group with an id is the core's, as if its members had come to `/verify` at the same moment;
    one without is judged for its caller alone, and nothing of it stays."""

    def __init__(
        self,
        settings: Settings,
        host: Host,
        at_once: AtOnce,
        reader: BodyReader,
        analyst: Analyst,
        episodes: Episodes,
        metrics: Metrics,
    ) -> None:
        self._host = host
        self._at_once = at_once
        self._reader = reader
        self._analyst = analyst
        self._episodes = episodes
        self._metrics = metrics
        self._default = Rewarded(settings.scoring.default_score)
        self._read = partial(read_judge, max_size=settings.limits.max_group_size)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        try:
            visit = self._episodes.verifying(scope, headers)
            try:
                code, reply = await self._reply(headers, receive)
            finally:
                self._episodes.left(visit)
        except Disconnected:
            return
        except GroupJudgeError as error:
            code, reply = error.code, wire.of_error(error)
        self._metrics.replied("judge", code)
        await send_reply(send, reply)

    async def _reply(self, headers: Headers, receive: Receive) -> tuple[str, wire.Reply]:
        """The reply, and the code by which it is counted."""
        request = await self._request(headers, receive)
        if request.arrivals:
            outcomes, judgement = await self._named(request, receive)
        else:
            outcomes, judgement = await self._nameless(request, receive)
        first = outcomes[0] if outcomes else None
        if isinstance(first, GroupFailure):
            return "group_failed", wire.of_failure(first)
        code = "judge_failed" if isinstance(first, JudgeFailure) else "ok"
        return code, wire.judged_group(outcomes, judgement)

    async def _request(self, headers: Headers, receive: Receive) -> JudgeRequest:
        body = await self._reader.read(headers, receive)
        self._metrics.read(size_of(body))
        return await self._analyst.read(body, self._read)

    async def _named(self, request: JudgeRequest, receive: Receive) -> tuple[tuple[Outcome, ...], Judgement | None]:
        """A group with an id: idempotent, and its caller may leave."""
        settled = await told(self._host, self._host.arrive_all(request.arrivals), receive)
        if settled is None:
            raise Disconnected
        return settled.outcomes, settled.judgement

    async def _nameless(self, request: JudgeRequest, receive: Receive) -> tuple[tuple[Outcome, ...], Judgement | None]:
        """A group without an id: whoever leaves cancels its judging."""
        size = len(request.texts)
        if size < 2:
            return (self._default,) * size, None
        try:
            judgement = await self._at_once.judged(request.topic, request.texts, receive)
        except JudgeFailed as error:
            return (JudgeFailure(error.reason[:MAX_REASON]),) * size, None
        note = (judgement.failure_kind, judgement.failure_reason)
        return tuple(Rewarded(reward, *note) for reward in judgement.rewards), judgement
