"""What every request passes before its route: the rollout prefix, the bearer token, and the net below it all."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groupjudge.service.login import Logins
from groupjudge.service.reply import send_reply
from groupjudge.service.wire import Reply, refusal

log = structlog.get_logger(__name__)

OPEN_PATHS = frozenset(("/healthz", "/livez", "/health", "/login", "/logout"))
ASSETS_PREFIX = "/pages/"
"""The files of the page hold nothing of anybody, and the login needs some of them."""
PAGES = frozenset(("/", "/docs"))
"""What a browser without a login is shown the login for."""
CONTROL_PREFIX = "/ng-control/"
_PREFIX = re.compile(r"/ng-rollout/([A-Za-z0-9][A-Za-z0-9._-]*)(/.*)", re.DOTALL)


class Front:
    """ASGI middleware: H9 (the episode's key goes to `scope["state"]["episode"]`), `server.auth_token`, and 500 for
    what nobody caught, without a word of the request in the log."""

    def __init__(
        self,
        app: ASGIApp,
        auth_token: str | None,
        posted: Mapping[str, ASGIApp] | None = None,
        logins: Logins | None = None,
        refused: Callable[[str], object] = lambda code: None,
    ) -> None:
        """`posted`: applications that POST requests to a path are given at once, past the layers of `app`. They answer
        their own refusals. `logins` stand for the token where something is only read; `refused` is told the code of
        what is refused here."""
        self._app = app
        self._posted = dict(posted or {})
        self._logins = logins
        self._refused = refused
        self._token = None if auth_token is None else auth_token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self._strip_prefix(scope)
        if not self._may_pass(scope):
            self._refused("unauthorized")
            await send_reply(send, _unauthorized(scope))
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._route(scope)(scope, receive, watched)
        except Exception as error:
            log.error("request_broke", path=scope["path"][:200], error=type(error).__name__, where=_where(error))
            self._refused("internal")
            if not started:
                await send_reply(send, refusal("internal", f"an internal error ({type(error).__name__})"))

    def _route(self, scope: Scope) -> ASGIApp:
        return self._posted.get(scope["path"], self._app) if scope["method"] == "POST" else self._app

    def _strip_prefix(self, scope: Scope) -> None:
        match = _PREFIX.fullmatch(scope["path"])
        if match and not match[2].startswith(CONTROL_PREFIX):
            scope["path"] = match[2]
            scope.setdefault("state", {})["episode"] = match[1]

    def _may_pass(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if self._token is None or path in OPEN_PATHS or path.startswith((CONTROL_PREFIX, ASSETS_PREFIX)):
            return True
        headers = Headers(scope=scope)
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token):
            return True
        return self._logins is not None and scope["method"] in ("GET", "HEAD") and self._logins.holds(headers)


def _unauthorized(scope: Scope) -> Reply:
    """401; who looks at a page in a browser is shown the way to the login."""
    reply = refusal("unauthorized", "this server wants its bearer token (server.auth_token)")
    if scope["path"] in PAGES and scope["method"] == "GET" and "text/html" in Headers(scope=scope).get("accept", ""):
        return reply._replace(status=303, headers=((b"location", b"login"), (b"cache-control", b"no-store")))
    return reply


def _where(error: BaseException) -> str:
    """The innermost place of the traceback, by function and line: no values."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}" if trace else ""
