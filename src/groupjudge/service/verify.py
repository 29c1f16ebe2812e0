"""`POST /verify`: one member in, its outcome out (H1-H4), or a place to fetch it from (A2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, cast

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from groupjudge.answers.echo import Piece, failure_reply, reward_reply
from groupjudge.answers.spool import length_of, size_of
from groupjudge.errors import GroupJudgeError, InvalidRequest
from groupjudge.model import GroupFailure, GroupId, JudgeFailure, Outcome
from groupjudge.service import wire
from groupjudge.service.analyst import Analyst, Caller
from groupjudge.service.bodies import BodyReader, Disconnected
from groupjudge.service.callers import told
from groupjudge.service.host import Host, Waiting
from groupjudge.service.metrics import Metrics
from groupjudge.service.prefer import wants_async, wants_minimal
from groupjudge.service.protocol import IS_SLOW
from groupjudge.service.reply import send_pieces, send_reply
from groupjudge.service.visits import Episodes, Visit

_APPLIED = ((b"preference-applied", b"return=minimal"),)


class _Exchange(NamedTuple):
    """One request, and the way back to its caller."""

    headers: Headers
    receive: Receive
    send: Send
    is_slow: Callable[[], bool]


def _never() -> bool:
    return False


class Verify:
    """The ASGI endpoint."""

    def __init__(self, host: Host, reader: BodyReader, analyst: Analyst, episodes: Episodes, metrics: Metrics) -> None:
        self._host = host
        self._episodes = episodes
        self._reader = reader
        self._analyst = analyst
        self._metrics = metrics
        self._turn = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(Headers(scope=scope), receive, send, scope.get("state", {}).get(IS_SLOW, _never))
        try:
            visit = self._episodes.verifying(scope, exchange.headers)
        except GroupJudgeError as error:
            await self._refuse(send, error)
            return
        try:
            await self._visit(visit, exchange)
        finally:
            self._episodes.left(visit)

    async def _visit(self, visit: Visit, exchange: _Exchange) -> None:
        try:
            caller = await self._caller(exchange.headers, exchange.receive)
        except Disconnected:
            return
        except GroupJudgeError as error:
            await self._refuse(exchange.send, error)
            return
        try:
            await self._serve(caller, visit, exchange)
        finally:
            caller.close()

    async def _caller(self, headers: Headers, receive: Receive) -> Caller:
        """Read the request; what waits for the outcome is then on disk, or small."""
        body = await self._reader.read(headers, receive)
        self._metrics.read(size_of(body))
        return await self._analyst.caller(body, echo=not wants_minimal(headers))

    async def _serve(self, caller: Caller, visit: Visit, exchange: _Exchange) -> None:
        send = exchange.send
        put_off = wants_async(exchange.headers)
        try:
            if put_off and caller.request.is_unnamed:
                raise _needs_id()
            waiting = self._host.arrive(caller.request.arrival, self._episodes.session_of(visit))
        except GroupJudgeError as error:
            await self._refuse(send, error, unnamed=caller.request.is_unnamed)
            return
        if put_off and not waiting.outcome.done():
            await self._put_off(caller, visit, waiting, send)
            return
        outcome = await told(self._host, waiting, exchange.receive)
        if isinstance(outcome, GroupFailure):
            self._metrics.replied("verify", "group_failed")
            await send_reply(send, wire.of_failure(outcome, unnamed=caller.request.is_unnamed))
        elif outcome is not None:
            self._metrics.replied("verify", "judge_failed" if isinstance(outcome, JudgeFailure) else "ok")
            await self._echo(exchange, caller, outcome, waiting.slot)
            self._episodes.answered(visit)

    async def _put_off(self, caller: Caller, visit: Visit, waiting: Waiting[Outcome], send: Send) -> None:
        """A2: the member stays with its group; nobody waits for it here."""
        arrival = caller.request.arrival
        place = wire.Place(cast(GroupId, arrival.key), arrival.attempt, self._host.slot_of(waiting))
        self._host.leave(waiting)
        self._episodes.put_off(visit)
        self._metrics.replied("verify", "pending")
        await send_reply(send, wire.pending(place, arrival.member_id, applied=True))

    async def _echo(self, exchange: _Exchange, caller: Caller, outcome: Outcome, slot: int) -> None:
        if caller.kept is None:
            whole = b"".join(piece for piece in _pieces(caller, outcome, slot) if isinstance(piece, bytes))
            await send_reply(exchange.send, wire.Reply(200, whole, _APPLIED))
            return
        if isinstance(outcome, JudgeFailure):
            async with self._turn:  # it reads the body once more, and a group's members come all at once
                pieces = _pieces(caller, outcome, slot)
                await asyncio.sleep(0)
        else:
            pieces = _pieces(caller, outcome, slot)
        chunks = caller.kept.chunks(pieces)
        await send_pieces(exchange.send, length_of(pieces), chunks, self._turn, exchange.is_slow)

    async def _refuse(self, send: Send, error: GroupJudgeError, *, unnamed: bool = False) -> None:
        self._metrics.replied("verify", error.code)
        await send_reply(send, wire.of_error(error, unnamed=unnamed))


def _needs_id() -> InvalidRequest:
    msg = "is required with Prefer: respond-async: the outcome is fetched by the group's id"
    return InvalidRequest.at("_ng_group_id", msg=f"_ng_group_id {msg}", type="missing")


def _pieces(caller: Caller, outcome: Outcome, slot: int) -> list[Piece]:
    """The reply that an outcome becomes."""
    request, kept = caller
    minimal = kept is None
    if not isinstance(outcome, JudgeFailure):
        assert not isinstance(outcome, GroupFailure)
        return reward_reply(request, outcome, slot, minimal=minimal)
    body = None if kept is None else kept.whole()
    reason = wire.judge_failure_reason(outcome.reason, unnamed=request.is_unnamed)
    return failure_reply(request, reason, slot, body, minimal=minimal, judged=outcome.group_size_judged)
