"""The routes of the control plane (C5, C6, C8): bodies in, calls of the participant, replies and errors out."""

from __future__ import annotations

import asyncio
import codecs
import hmac
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from math import isfinite
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groupjudge.checkpoints.records import MAX_ATTEMPT, Episode, is_rollout_id
from groupjudge.errors import GroupJudgeError, InvalidRequest
from groupjudge.service.bodies import BodyReader, Disconnected
from groupjudge.service.checkpointing import Participant
from groupjudge.service.control import ControlError, Reply
from groupjudge.service.front import CONTROL_PREFIX
from groupjudge.service.wire import STATUS as STATUS_ELSEWHERE

log = structlog.get_logger(__name__)

BASE = f"{CONTROL_PREFIX}v1/checkpoint"
STATUS: Mapping[str, int] = MappingProxyType(
    {
        "stale_checkpoint": 409,
        "checkpoint_conflict": 409,
        "invalid_phase": 409,
        "deadline_exceeded": 409,
        "stale_attempt": 409,
        "unauthorized": 401,
        "invalid_checkpoint_state": 422,
        "invalid_request": 422,
        "write_failed": 500,
    }
)
_MAX_DETAIL = 2000
_LARGE = 1 << 16
_CHECKPOINT_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z"

CheckpointId = Annotated[str, msgspec.Meta(pattern=_CHECKPOINT_ID)]


class EpisodeId(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An episode as it is named in bodies (C1)."""

    rollout_id: str
    attempt: int = 0


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`prepare`, `resume`, `renew`."""

    checkpoint_id: CheckpointId
    deadline_ts: float


class CommitCall(Call, frozen=True):
    """`commit`. `episode_ids` null: all."""

    checkpoint_dir: str
    episode_ids: list[EpisodeId] | None = None
    stop: bool = False


class RestoreCall(Call, frozen=True):
    """`restore`. `episode_ids` null: all."""

    checkpoint_dir: str
    episode_ids: list[EpisodeId] | None


class RetireCall(Call, frozen=True):
    """`retire`."""

    episode_ids: Annotated[list[EpisodeId], msgspec.Meta(min_length=1)]


class ForgetCall(Call, frozen=True):
    """`forget`."""

    rollout_ids: list[str]


C = TypeVar("C", bound=Call)


class ControlRoutes:
    """All of them behind `token`."""

    def __init__(self, participant: Participant, reader: BodyReader, token: str) -> None:
        self._participant = participant
        self._reader = reader
        self._token = token.encode()

    def routes(self) -> list[Route]:
        """The routes, in the order of a checkpoint."""
        calls: dict[str, Callable[[Request], Awaitable[Reply]]] = {
            "prepare": self._prepare,
            "commit": self._commit,
            "restore": self._restore,
            "resume": self._resume,
            "renew": self._renew,
            "retire": self._retire,
            "forget": self._forget,
        }
        posts = [Route(f"{BASE}/{name}", self._guarded(call), methods=["POST"]) for name, call in calls.items()]
        return [Route(f"{BASE}/status", self._guarded(self._status), methods=["GET"]), *posts]

    def _guarded(self, call: Callable[[Request], Awaitable[Reply]]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                self._authorize(request)
                return _response(200, await call(request))
            except GroupJudgeError as error:
                return _refused(error)
            except Disconnected:
                return Response()  # nobody is there to read it
            except Exception as error:
                log.error("control_broke", path=request.url.path[:200], error=type(error).__name__)
                return _error("internal", f"an internal error ({type(error).__name__})")

        return endpoint

    def _authorize(self, request: Request) -> None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self._token):
            raise ControlError("unauthorized", "send checkpoint.auth_token as a bearer token")

    async def _body(self, request: Request, kind: type[C]) -> C:
        body = await self._reader.read_into_memory(request.headers, request.receive)
        call = await _at_once_or_aside(partial(_decoded, body, kind), len(body))
        if not isfinite(call.deadline_ts):
            raise InvalidRequest.at("deadline_ts", msg="must be finite: absolute Unix seconds")
        return call

    async def _status(self, request: Request) -> Reply:
        return self._participant.status()

    async def _prepare(self, request: Request) -> Reply:
        call = await self._body(request, Call)
        return self._participant.prepare(call.checkpoint_id, call.deadline_ts)

    async def _commit(self, request: Request) -> Reply:
        call = await self._body(request, CommitCall)
        scope = None if call.episode_ids is None else await _episodes(call.episode_ids)
        return await self._participant.commit(call.checkpoint_id, call.deadline_ts, call.checkpoint_dir, scope)

    async def _restore(self, request: Request) -> Reply:
        call = await self._body(request, RestoreCall)
        scope = None if call.episode_ids is None else await _episodes(call.episode_ids)
        return await self._participant.restore(call.checkpoint_id, call.deadline_ts, call.checkpoint_dir, scope)

    async def _resume(self, request: Request) -> Reply:
        return await self._participant.resume((await self._body(request, Call)).checkpoint_id)

    async def _renew(self, request: Request) -> Reply:
        call = await self._body(request, Call)
        return self._participant.renew(call.checkpoint_id, call.deadline_ts)

    async def _retire(self, request: Request) -> Reply:
        call = await self._body(request, RetireCall)
        return await self._participant.retire(call.checkpoint_id, call.deadline_ts, await _episodes(call.episode_ids))

    async def _forget(self, request: Request) -> Reply:
        call = await self._body(request, ForgetCall)
        for index, rollout_id in enumerate(call.rollout_ids):
            if not is_rollout_id(rollout_id):
                raise InvalidRequest.at("rollout_ids", index, msg="is no rollout id")
        return self._participant.forget(call.checkpoint_id, call.deadline_ts, call.rollout_ids)


T = TypeVar("T")


async def _at_once_or_aside(work: Callable[[], T], size: int) -> T:
    """Do it here, or, where `size` bytes make it long, in a thread."""
    return work() if size < _LARGE else await asyncio.to_thread(work)


def _decoded(body: bytes, kind: type[C]) -> C:
    try:
        return msgspec.json.decode(body.removeprefix(codecs.BOM_UTF8), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if "matching regex" in str(error):  # one field has a pattern
            allowed = "must be 1 to 128 letters and digits of ASCII, '.', '_' and '-', the first a letter or a digit"
            raise InvalidRequest.at("checkpoint_id", msg=allowed) from None
        raise InvalidRequest.at(msg=str(error)[:300]) from None


async def _episodes(values: list[EpisodeId]) -> frozenset[Episode]:
    return await _at_once_or_aside(partial(_checked, values), 50 * len(values))


def _checked(values: list[EpisodeId]) -> frozenset[Episode]:
    for index, value in enumerate(values):
        if not is_rollout_id(value.rollout_id) or not 0 <= value.attempt < MAX_ATTEMPT:
            raise InvalidRequest.at("episode_ids", index, msg='is no episode: {"rollout_id": ..., "attempt": 0}')
    return frozenset(Episode(value.rollout_id, value.attempt) for value in values)


def _refused(error: GroupJudgeError) -> Response:
    code = error.reason_code if isinstance(error, ControlError) else error.code
    detail = str(error)
    if isinstance(error, InvalidRequest):
        detail = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.problems)
    return _error(code, detail)


def _error(code: str, detail: str) -> Response:
    """C8. What may go wrong with any request has the status that it has elsewhere."""
    status = STATUS.get(code) or STATUS_ELSEWHERE.get(code, 500)
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    detail = detail.encode("utf-8", "replace").decode()[:_MAX_DETAIL]
    return _response(status, {"error": {"code": code, "detail": detail}}, headers)


def _response(status: int, value: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")
