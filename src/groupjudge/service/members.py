"""`GET /v1/groups/{id}/{attempt}/{slot}`: the outcome of a member that was sent before (A2)."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import unquote

from starlette.datastructures import Headers, QueryParams
from starlette.types import Receive, Scope, Send

from groupjudge.errors import GroupJudgeError, InvalidRequest
from groupjudge.model import GroupFailure, GroupId, JudgeFailure, Outcome
from groupjudge.service import wire
from groupjudge.service.bodies import Disconnected
from groupjudge.service.callers import told
from groupjudge.service.host import Host, Waiting
from groupjudge.service.metrics import Metrics
from groupjudge.service.reply import send_reply
from groupjudge.service.visits import Episodes, Visit

LONGEST_WAIT_S = 86_400
_SECONDS = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,9})?")
_NUMBER = re.compile(r"[0-9]{1,19}")


def names_in(scope: Scope) -> list[str]:
    """What is behind `/v1/groups/` in a request's path, divided by slashes; an id may hold some, percent-encoded."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    _, _, rest = raw.decode("latin-1").rpartition("/v1/groups/")
    return rest.partition("?")[0].split("/")


def number_in(name: str, what: str) -> int:
    """An attempt or a slot in a path. Raises InvalidRequest."""
    if not _NUMBER.fullmatch(name):
        raise InvalidRequest([{"loc": ["path"], "msg": f"ask for /v1/groups/{what}", "type": "value_error"}])
    return int(name)


class Members:
    """The ASGI endpoint. It asks and changes nothing, but that whoever fetches an outcome in the session that brought
    the member has it, as with `/verify` (C2)."""

    def __init__(self, host: Host, episodes: Episodes, metrics: Metrics) -> None:
        self._host = host
        self._episodes = episodes
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            visit = self._episodes.verifying(scope, Headers(scope=scope))
            try:
                await self._serve(scope, receive, send, visit)
            finally:
                self._episodes.left(visit)
        except Disconnected:
            return
        except GroupJudgeError as error:
            self._metrics.replied("result", error.code)
            await send_reply(send, wire.of_error(error))

    async def _serve(self, scope: Scope, receive: Receive, send: Send, visit: Visit) -> None:
        place, seconds = _place(scope), _seconds(scope)
        waiting, watched = self._host.watch(*place)
        outcome = await self._outcome(waiting, receive, seconds)
        if outcome is None:
            self._metrics.replied("result", "pending")
            await send_reply(send, wire.pending(place, watched.member_id))
        elif isinstance(outcome, GroupFailure):
            self._metrics.replied("result", "group_failed")
            await send_reply(send, wire.of_failure(outcome))
        else:
            self._metrics.replied("result", "judge_failed" if isinstance(outcome, JudgeFailure) else "ok")
            await send_reply(send, wire.member_outcome(place, watched.member_id, outcome))
            if scope["method"] == "GET":  # HEAD delivers nothing
                self._episodes.fetched(visit, watched.backing, place.slot)

    async def _outcome(self, waiting: Waiting[Outcome], receive: Receive, seconds: float) -> Outcome | None:
        """The outcome; None where it is pending after so many seconds. Raises Disconnected."""
        if not waiting.outcome.done() and seconds == 0:
            self._host.leave(waiting)
            return None
        try:
            async with asyncio.timeout(seconds):
                outcome = await told(self._host, waiting, receive)
        except TimeoutError:
            self._host.leave(waiting)
            return None
        if outcome is None:
            raise Disconnected
        return outcome


def _place(scope: Scope) -> wire.Place:
    what = "{id}/{attempt}/{slot}"
    group_id, attempt, slot = names_in(scope)
    return wire.Place(GroupId(unquote(group_id)), number_in(attempt, what), number_in(slot, what))


def _seconds(scope: Scope) -> float:
    """What `?wait=` says."""
    said = QueryParams(scope["query_string"]).get("wait", "0")
    if _SECONDS.fullmatch(said) and (seconds := float(said)) <= LONGEST_WAIT_S:
        return seconds
    msg = f"send a number of seconds from 0 to {LONGEST_WAIT_S}"
    raise InvalidRequest([{"loc": ["query", "wait"], "msg": msg, "type": "value_error"}])
