"""The routes."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from groupjudge.answers.jsontext import parse
from groupjudge.errors import GroupJudgeError, InvalidRequest, NotFound
from groupjudge.model import GroupId, Run
from groupjudge.service import description, static, wire
from groupjudge.service.at_once import AtOnce
from groupjudge.service.bodies import BodyReader, Disconnected
from groupjudge.service.checkpointing import Participant
from groupjudge.service.compare import Compare
from groupjudge.service.control_routes import ControlRoutes
from groupjudge.service.extras import ExtraRoute, starlette_routes
from groupjudge.service.front import Front
from groupjudge.service.host import Host
from groupjudge.service.judge import JudgeWhole
from groupjudge.service.login import LoginRoutes, Logins
from groupjudge.service.members import Members, names_in, number_in
from groupjudge.service.metrics import CONTENT_TYPE, Metrics
from groupjudge.service.readiness import Readiness
from groupjudge.service.status import Status
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
    status: Status
    logins: Logins | None
    verify: Verify
    compare: Compare
    judge: JudgeWhole
    at_once: AtOnce
    members: Members
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
        await self.readiness.close()


def build_app(parts: Parts, extras: Sequence[ExtraRoute] = ()) -> ASGIApp:
    """The ASGI application over `parts`, with `extras` beside our own routes."""
    small, server = _SmallRoutes(parts), parts.settings.server
    login = LoginRoutes(parts.logins, server.body_timeout_s)
    routes = [
        Route("/", static.page),
        Route("/pages/{name}", static.asset),
        Route("/login", login.login, methods=["GET", "POST"]),
        Route("/logout", login.logout, methods=["POST"]),
        Route("/verify", parts.verify, methods=["POST"]),
        Route("/compare", small.compare, methods=["POST"]),
        Route("/v1/judge", parts.judge, methods=["POST"]),
        Route("/seed_session", small.seed_session, methods=["POST"]),
        Route("/close_session", small.close_session, methods=["POST"]),
        *(Route(path, small.alive) for path in ("/healthz", "/livez", "/health")),
        Route("/readyz", small.ready),
        Route("/metrics", small.metrics),
        Route("/v1/status", small.status),
        Route("/v1/status/texts/{run}", small.texts),
        Route("/v1/groups", small.groups),
        Route("/v1/groups/{rest:anything}", small.group),
        Route("/docs", small.docs),
        Route("/openapi.json", small.openapi),
        *(() if parts.control is None else parts.control.routes()),
        *starlette_routes(extras, parts.reader),
    ]
    refused = partial(parts.metrics.replied, "other")
    handlers = {
        GroupJudgeError: _counted(_refused, refused),
        HTTPException: _counted(_no_route, refused),
        Disconnected: _gone,
        Exception: _counted(_broke, refused),
    }
    app = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]
    app.router.redirect_slashes = False
    return Front(app, server.auth_token, {"/verify": parts.verify}, parts.logins, refused)


def _uncached(reply: wire.Reply) -> Response:
    return _response(reply._replace(headers=(*reply.headers, (b"cache-control", b"no-store"))))


def _response(reply: wire.Reply) -> Response:
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return Response(reply.body, reply.status, headers, media_type="application/json")


def _counted(
    handler: Callable[[Request, Any], wire.Reply], refused: Callable[[str], None]
) -> Callable[[Request, Exception], Response]:
    def handle(request: Request, error: Exception) -> Response:
        reply = handler(request, error)
        refused(msgspec.json.decode(reply.body)["code"])
        return _response(reply)

    return handle


def _refused(request: Request, error: GroupJudgeError) -> wire.Reply:
    return wire.of_error(error)


def _gone(request: Request, error: Disconnected) -> Response:
    return Response()  # nobody is there to read it


def _broke(request: Request, error: Exception) -> wire.Reply:
    return wire.refusal("internal", f"an internal error ({type(error).__name__})")


def _no_route(request: Request, error: HTTPException) -> wire.Reply:
    if error.status_code == 405:
        reply = wire.refusal("method_not_allowed", f"{request.method} is not allowed here")
    else:
        reply = wire.refusal("not_found", "no such path; see /docs")
    allowed = (error.headers or {}).get("Allow")
    return reply._replace(headers=((b"allow", allowed.encode()),) if allowed else ())


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
        visit = self._parts.episodes.passing(request.scope)

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await self._parts.compare(scope, receive, send)
            finally:
                self._parts.episodes.left(visit)

        return counted

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
        body = await self._parts.reader.read_into_memory(request.headers, request.receive)
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
        active, finished = host.groups(most)
        now = host.now()
        rows = {
            "active": [wire.group_row(view, now) for view in active],
            "finished": [wire.group_row(view, now) for view in finished],
            "active_total": host.active,
            "finished_total": host.kept().results,
        }
        return _response(wire.json_reply(rows))

    async def group(self, request: Request) -> ASGIApp:
        names = names_in(request.scope)
        if len(names) == 3:
            return self._parts.members
        view = self._parts.host.group(*_group_named(names))
        if view is None:
            raise NotFound("no such group and attempt is active or retained")
        return _response(wire.json_reply(wire.group_details(view, self._parts.host.now(), self._texts(view.run))))

    def _texts(self, run: Run) -> dict[str, Any] | None:
        """F5: the texts of an active group, where `server.show_texts` is on."""
        said = self._parts.host.texts(run) if self._parts.settings.server.show_texts else None
        return None if said is None else wire.texts(*said)

    async def texts(self, request: Request) -> Response:
        run = request.path_params["run"]
        shown = self._texts(Run(int(run[:19]))) if run.isascii() and run.isdigit() else None
        if shown is None:
            raise NotFound("no such group is active, or server.show_texts is off")
        return _uncached(wire.json_reply(shown))

    async def status(self, request: Request) -> Response:
        return _uncached(wire.json_reply(self._parts.status.now()))

    async def docs(self, request: Request) -> Response:
        return Response(description.docs_page(), media_type="text/html; charset=utf-8")

    async def openapi(self, request: Request) -> Response:
        return Response(description.openapi_json(), media_type="application/json")


def _group_named(names: list[str]) -> tuple[GroupId, int]:
    """The percent-encoded id and the attempt in `/v1/groups/{id}/{attempt}`."""
    what = "{id}/{attempt} or {id}/{attempt}/{slot}"
    return GroupId(unquote(names[0])), number_in(names[1] if len(names) == 2 else "", what)


def _limit(request: Request) -> int:
    said = request.query_params.get("limit", "1000")
    if not (said.isascii() and said.isdigit() and 1 <= int(said[:9]) <= MAX_ROWS):
        raise InvalidRequest([{"loc": ["query", "limit"], "msg": f"send 1 to {MAX_ROWS}", "type": "value_error"}])
    return int(said[:9])
