"""The routes."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from groupjudge.answers.jsontext import parse
from groupjudge.errors import GroupJudgeError, InvalidRequest
from groupjudge.model import GroupId
from groupjudge.service import pages, wire
from groupjudge.service.at_once import AtOnce
from groupjudge.service.bodies import BodyReader, Disconnected
from groupjudge.service.checkpointing import Participant
from groupjudge.service.compare import Compare
from groupjudge.service.control_routes import ControlRoutes
from groupjudge.service.front import Front
from groupjudge.service.host import Host
from groupjudge.service.judge import JudgeWhole
from groupjudge.service.metrics import CONTENT_TYPE, Metrics
from groupjudge.service.readiness import Readiness
from groupjudge.service.verify import Verify
from groupjudge.service.visits import Door, Episodes
from groupjudge.settings import Settings

MAX_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Parts:
    """What the routes stand on."""

    settings: Settings
    host: Host
    reader: BodyReader
    readiness: Readiness
    metrics: Metrics
    verify: Verify
    compare: Compare
    judge: JudgeWhole
    at_once: AtOnce
    episodes: Episodes
    door: Door
    participant: Participant | None
    control: ControlRoutes | None

    async def close(self) -> None:
        """L19: no new work; every caller is answered, all judging cancelled."""
        self.reader.close()
        self.at_once.close()
        self.door.stop()
        if self.participant is not None:
            await self.participant.close()
        await self.host.close()


def build_app(parts: Parts) -> ASGIApp:
    """The ASGI application over `parts`."""
    small = _SmallRoutes(parts)
    routes = [
        Route("/verify", parts.verify, methods=["POST"]),
        Route("/compare", small.compare, methods=["POST"]),
        Route("/v1/judge", parts.judge, methods=["POST"]),
        Route("/seed_session", small.seed_session, methods=["POST"]),
        Route("/close_session", small.close_session, methods=["POST"]),
        *(Route(path, small.alive) for path in ("/healthz", "/livez", "/health")),
        Route("/readyz", small.ready),
        Route("/metrics", small.metrics),
        Route("/v1/groups", small.groups),
        Route("/v1/groups/{rest:anything}", small.group),
        Route("/docs", small.docs),
        Route("/openapi.json", small.openapi),
        *(() if parts.control is None else parts.control.routes()),
    ]
    handlers = {GroupJudgeError: _refused, HTTPException: _no_route, Disconnected: _gone, Exception: _broke}
    app = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]
    app.router.redirect_slashes = False
    return Front(app, parts.settings.server.auth_token, {"/verify": parts.verify})


def _response(reply: wire.Reply) -> Response:
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return Response(reply.body, reply.status, headers, media_type="application/json")


def _refused(request: Request, error: GroupJudgeError) -> Response:
    return _response(wire.of_error(error))


def _gone(request: Request, error: Disconnected) -> Response:
    return Response()  # nobody is there to read it


def _broke(request: Request, error: Exception) -> Response:
    return _response(wire.refusal("internal", f"an internal error ({type(error).__name__})"))


def _no_route(request: Request, error: HTTPException) -> Response:
    if error.status_code == 405:
        reply = wire.refusal("method_not_allowed", f"{request.method} is not allowed here")
    else:
        reply = wire.refusal("not_found", "no such path; see /docs")
    allowed = (error.headers or {}).get("Allow")
    return _response(reply._replace(headers=((b"allow", allowed.encode()),) if allowed else ()))


class _Anything(StringConvertor):
    """A path parameter that takes every character: a group id may hold slashes and line breaks."""

    regex = r"[\s\S]+"


register_url_convertor("anything", _Anything())


class _SmallRoutes:
    """Everything but `/verify`, `/compare` and `/v1/judge`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def compare(self, request: Request) -> ASGIApp:
        """C24: for everybody but a retired episode."""
        self._parts.episodes.refuse_retired(request.scope)
        return self._parts.compare

    async def seed_session(self, request: Request) -> Response:
        episodes = self._parts.episodes
        try:
            await self._read_object(request)
            reply = wire.json_reply({}, headers=await episodes.seed(request.scope, request.headers, request.receive))
        except GroupJudgeError as error:
            reply = wire.of_error(error)
        return _response(reply._replace(headers=(*reply.headers, *episodes.seeding)))

    async def close_session(self, request: Request) -> Response:
        await self._read_object(request)
        headers = await self._parts.episodes.close(request.scope, request.headers)
        return _response(wire.json_reply({}, headers=headers))

    async def _read_object(self, request: Request) -> None:
        reader = self._parts.reader
        async with reader.place(request.headers) as place:
            body = await reader.read(request.headers, request.receive, place)
        body = body.removeprefix(codecs.BOM_UTF8)
        if body.strip() and not isinstance(parse(body), dict):
            raise InvalidRequest.at(msg="send a JSON object, or nothing")

    async def alive(self, request: Request) -> Response:
        return _response(wire.json_reply({"status": "ok"}))

    async def ready(self, request: Request) -> Response:
        if self._parts.reader.closed:
            return _response(wire.json_reply({"status": "stopping", "reason": "the server is stopping"}, 503))
        why = await self._parts.readiness.why_not()
        if why is None:
            return _response(wire.json_reply({"status": "ready"}))
        return _response(wire.json_reply({"status": "not ready", "reason": why[:500]}, 503))

    async def metrics(self, request: Request) -> Response:
        return Response(self._parts.metrics.exposition(), media_type=CONTENT_TYPE)

    async def groups(self, request: Request) -> Response:
        host = self._parts.host
        most = _limit(request)
        active, finished = host.groups()
        now = host.now()
        rows = {
            "active": [wire.group_row(view, now) for view in active[:most]],
            "finished": [wire.group_row(view, now) for view in finished[:most]],
            "active_total": len(active),
            "finished_total": len(finished),
        }
        return _response(wire.json_reply(rows))

    async def group(self, request: Request) -> Response:
        view = self._parts.host.group(*_group_named(request))
        if view is None:
            return _response(wire.refusal("not_found", "no such group and attempt is active or retained"))
        return _response(wire.json_reply(wire.group_details(view, self._parts.host.now())))

    async def docs(self, request: Request) -> Response:
        return Response(pages.docs_page(), media_type="text/html; charset=utf-8")

    async def openapi(self, request: Request) -> Response:
        return Response(pages.openapi_json(), media_type="application/json")


def _group_named(request: Request) -> tuple[GroupId, int]:
    """The percent-encoded id and the attempt in `/v1/groups/{id}/{attempt}`."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    _, _, rest = raw.decode("latin-1").rpartition("/v1/groups/")
    name, _, attempt = rest.partition("?")[0].partition("/")
    if not (attempt.isascii() and attempt.isdigit() and len(attempt) < 20):
        raise InvalidRequest([{"loc": ["path"], "msg": "ask for /v1/groups/{id}/{attempt}", "type": "value_error"}])
    return GroupId(unquote(name)), int(attempt)


def _limit(request: Request) -> int:
    said = request.query_params.get("limit", "1000")
    if not (said.isascii() and said.isdigit() and 1 <= int(said[:9]) <= MAX_ROWS):
        raise InvalidRequest([{"loc": ["query", "limit"], "msg": f"send 1 to {MAX_ROWS}", "type": "value_error"}])
    return int(said[:9])
