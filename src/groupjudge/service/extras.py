"""Routes that a host of the server adds to ours, each a plain function from JSON to JSON."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groupjudge.answers.jsontext import parse
from groupjudge.service.bodies import BodyReader


class ExtraRoute(NamedTuple):
    """`answer` gets the JSON value of a POST's body (None for a GET) and gives the JSON value of the reply; bytes are
    taken for JSON as they are. It runs in a thread, several at a time, and may raise `InvalidRequest`."""

    method: Literal["GET", "POST"]
    path: str
    answer: Callable[[Any], Any]


def starlette_routes(extras: Sequence[ExtraRoute], reader: BodyReader) -> Iterator[Route]:
    """`extras` as routes whose bodies are read within the limits of all others."""
    for extra in extras:
        yield Route(extra.path, _Endpoint(extra, reader).respond, methods=[extra.method])


class _Endpoint:
    def __init__(self, extra: ExtraRoute, reader: BodyReader) -> None:
        self._extra = extra
        self._reader = reader

    async def respond(self, request: Request) -> Response:
        body = None
        if self._extra.method == "POST":
            body = await self._reader.read_into_memory(request.headers, request.receive)
        reply = await asyncio.to_thread(self._reply, body)
        return Response(reply, media_type="application/json")

    def _reply(self, body: bytes | None) -> bytes:
        value = self._extra.answer(None if body is None else parse(body.removeprefix(codecs.BOM_UTF8)))
        return value if isinstance(value, bytes) else msgspec.json.encode(value)
