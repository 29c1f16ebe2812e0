"""The files of the server's page, as they lie in `pages/`, with headers that let a browser run nothing else."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_TYPES = {"css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg+xml"}
ASSETS = frozenset(("icon.svg", "style.css", "page.js", "charts.js", "format.js"))
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_GUARDS = {
    "content-security-policy": _CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}
_MESSAGE = "<!-- message -->"


@cache
def _file(name: str) -> bytes:
    return files("groupjudge.service").joinpath("pages", name).read_bytes()


def _response(name: str, body: bytes, status: int = 200) -> Response:
    """What is shown may be somebody's login or its end, so no page is kept; the other files are asked for again."""
    kind = name.rpartition(".")[2]
    kept = "no-store" if kind == "html" else "no-cache"
    headers = {**_GUARDS, "cache-control": kept, "content-type": f"{_TYPES[kind]}; charset=utf-8"}
    return Response(body, status, headers)


async def page(request: Request) -> Response:
    """`GET /`."""
    return _response("index.html", _file("index.html"))


async def asset(request: Request) -> Response:
    """`GET /pages/{name}`."""
    name = request.path_params["name"]
    if name not in ASSETS:
        raise HTTPException(404)
    return _response(name, _file(name))


def login_page(message: str = "", status: int = 200) -> Response:
    """The form that asks for the token, and why it does again."""
    shown = f'<p class="problem" role="alert">{escape(message)}</p>' if message else ""
    return _response("login.html", _file("login.html").replace(_MESSAGE.encode(), shown.encode()), status)
