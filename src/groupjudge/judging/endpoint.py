"""One address of a judge: sends one request there, and says what became of it in the words of J12."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

from groupjudge.judging.desk import Desk
from groupjudge.judging.formats import Api
from groupjudge.judging.http.transport import DeadlineError, Response, Transport, TransportError
from groupjudge.judging.judge import JudgeEvents
from groupjudge.judging.options import HttpJudgeOptions
from groupjudge.judging.pauses import retry_after_s
from groupjudge.judging.reading import ReadingRules, ReadResult, read_verdict
from groupjudge.judging.replies import ErrorInside, Misshapen, Reply
from groupjudge.judging.usage import Meter

_LOCATION_SHOWN = 200
_PROBLEM_SHOWN = 300
_LONG_REPLY = 1 << 14
"""From so many characters on, reading a reply may take longer than a few milliseconds."""
_TRIED_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_TOO_MANY = frozenset({408, 429, 503, 504, 529})
_NO_FAULT = _TRIED_AGAIN
_ITS_OWN_FAULT = frozenset({401, 403, 404})


Reader = Callable[[str], ReadResult[tuple[float, ...]]]
"""From a reply's text to the numbers in it. Slow where the text is long."""


class Try(NamedTuple):
    """How one try ended. `result` is a word of `JudgeEvents.tried`; `reason` is for the caller and may quote the judge,
    `summary` is for logs and does not. `retry_after` is the pause in seconds that the judge asked for; `tokens` is how
    many it counted, None where nobody knows."""

    result: str
    reason: str = ""
    summary: str = ""
    status: int | None = None
    reading: tuple[float, ...] | None = None
    retry_after: float | None = None
    tokens: int | None = None
    ambiguous: bool = False

    @property
    def is_too_many(self) -> bool:
        """Whether it looks as if the judge had more calls than it bears: it says so, or nothing in time or at all."""
        return self.status in _TOO_MANY or (self.status is None and self.result in ("transport", "deadline"))

    @property
    def is_its_fault(self) -> bool:
        """Whether it hangs on this address, so that the same request may fare better at another one."""
        if self.result == "rejected":
            return self.status in _ITS_OWN_FAULT or (self.status is not None and self.status < 400)
        return self.result == "deadline" or (self.result == "transport" and self.status not in _NO_FAULT)


def desk_of(options: HttpJudgeOptions) -> Desk:
    """What the gate knows of the address of `options`."""
    return Desk(
        options.max_concurrency,
        least=options.min_concurrency,
        requests_per_minute=options.requests_per_minute,
        tokens_per_minute=options.tokens_per_minute,
    )


class Endpoint:
    """An address with its connections, and what asking it cost (`meter`). Made anywhere; its first request binds it to
    the running loop."""

    def __init__(
        self,
        options: HttpJudgeOptions,
        api: Api,
        rules: ReadingRules,
        events: JudgeEvents,
        now: Callable[[], float],
    ) -> None:
        """`now` gives Unix time. Raises ConfigurationError."""
        self.meter = Meter(options.name, options.prices, options.budget, options.key)
        self._options = options
        self._api = api
        self._rules = rules
        self._events = events
        self._now = now
        self._transport = Transport(
            options.base_url,
            options.api_key,
            options.request_timeout_s,
            trust_env=options.trust_env,
            key=options.key,
        )

    async def ask(self, body: bytes, read: Reader | None = None) -> Try:
        """Send one request, and read the reply; `read` in place of `read_verdict`."""
        started = time.perf_counter()
        self.meter.sent()
        ended = await self._request(body, read or partial(read_verdict, rules=self._rules))
        self._events.tried(ended.result, ended.status, time.perf_counter() - started)
        return ended

    async def reachable(self) -> str | None:
        """None where it can be asked, else why not."""
        return self.meter.why_spent() or await self._transport.probe("/models")

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    async def _request(self, body: bytes, read: Reader) -> Try:
        try:
            response = await self._transport.post(self._api.path, body)
        except DeadlineError:
            limit = f"{self._options.request_timeout_s:g} s ({self._options.key}.request_timeout_s)"
            return Try("deadline", f"the judge at {self._transport.shown} did not reply within {limit}", "deadline")
        except TransportError as error:
            return Try("transport", str(error), error.kind)
        if not 200 <= response.status < 300:
            return self._http_error(response, response.status)
        try:
            return await self._read(response, self._api.read_reply(response.body), read)
        except ErrorInside as error:
            return self._http_error(response, error.status)
        except Misshapen as error:
            reason = f"the judge at {self._transport.shown} replied with {error}{self._quoted(response.body)}"
            return Try("transport", reason, f"status {response.status} with {error}", response.status)

    def _http_error(self, response: Response, status: int) -> Try:
        """`status` is the reply's own, or the one that the error object of a 200 names."""
        inside = " in a reply of status 200" if status != response.status else ""
        reason = f"the judge at {self._transport.shown} answered with status {status}{inside}"
        if 300 <= status < 400:
            target = self._transport.scrubber.excerpt(response.location or "nowhere", _LOCATION_SHOWN)
            key = self._options.key
            reason += f", a redirect to {target}: redirects are refused, so set {key}.base_url to the final address"
        is_transient = status in _TRIED_AGAIN or status >= 500
        return Try(
            "transport" if is_transient else "rejected",
            reason + self._quoted(response.body),
            f"status {status}{inside}",
            status,
            retry_after=retry_after_s(response.retry_after, self._now()),
            tokens=0,
        )

    async def _read(self, response: Response, reply: Reply, reader: Reader) -> Try:
        tokens = reply.prompt_tokens + reply.completion_tokens or None
        if tokens:
            self.meter.used(reply.prompt_tokens, reply.completion_tokens)
            self._events.used(reply.prompt_tokens, reply.completion_tokens)
        if reply.unfinished:
            reason = f"the judge's reply is unfinished: {reply.unfinished}"
            return Try("unfinished", reason, "unfinished", response.status, tokens=tokens)
        read = await _read_with(reader, reply.text)
        if read.ambiguous:
            self._events.ambiguous()
        if read.reading is not None:
            ambiguous = read.ambiguous
            return Try("ok", status=response.status, reading=read.reading, tokens=tokens, ambiguous=ambiguous)
        problem = self._transport.scrubber.excerpt(read.problem, _PROBLEM_SHOWN)
        return Try("unreadable", problem + self._quoted(reply.text), "unreadable", response.status, tokens=tokens)

    def _quoted(self, text: str | bytes) -> str:
        excerpt = self._transport.scrubber.excerpt(text).strip()
        return f": {excerpt}" if excerpt else ""


async def _read_with(read: Reader, text: str) -> ReadResult[tuple[float, ...]]:
    """A long text is read in a thread: one that was made to be tangled takes seconds."""
    return read(text) if len(text) <= _LONG_REPLY else await asyncio.to_thread(read, text)
