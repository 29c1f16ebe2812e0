"""A judge behind an HTTP API: one call is up to `1 + retries` tries, and ends as J12 and J13 say.

`request_timeout_s` is the time of one try, from its place at the judge to the last byte of the reply. Waiting for a
place and pausing do not count, or a busy judge would fail calls that it never saw; what bounds all of it is the group's
judging deadline (L16).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple

from groupjudge.errors import JudgeFailed
from groupjudge.judging.formats import FormatName, PreparedGroup, make_format
from groupjudge.judging.gate import Gate
from groupjudge.judging.judge import JudgeCall, JudgeEvents, NoEvents
from groupjudge.judging.pauses import backoff_s, retry_after_s
from groupjudge.judging.reading import ReadingRules, ReadResult, read_verdict
from groupjudge.judging.replies import ErrorInside, Misshapen, Reply
from groupjudge.judging.template import load_template
from groupjudge.judging.texts import clean_group
from groupjudge.judging.transport import DeadlineError, Response, Transport, TransportError
from groupjudge.model import AnswerTexts, Pair, Reading, Topic

_LOCATION_SHOWN = 200
_PROBLEM_SHOWN = 300
_LONG_REPLY = 1 << 14
"""From so many characters on, reading a reply may take longer than a few milliseconds."""
_TRIED_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


@dataclass(frozen=True, slots=True)
class HttpJudgeOptions:
    """Where the judge is and how it is asked; the keys of `judge` in the configuration, by the same names (H12).
    `use_principle` is `comparison.use_principle`. Times are in seconds."""

    base_url: str
    format: FormatName = "template"
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    params: Mapping[str, Any] = field(default_factory=dict)
    template: str | None = None
    structured_output: bool = True
    request_timeout_s: float = 1800.0
    retries: int = 3
    retry_sleep_s: float = 0.2
    max_concurrency: int = 512
    empty_answer_text: str = "None"
    trust_env: bool = False
    use_principle: bool = False


class Try(NamedTuple):
    """How one try ended. `result` is a word of `JudgeEvents.tried`; `reason` is for the caller and may quote the judge,
    `summary` is for logs and does not. `retry_after` is the pause in seconds that the judge asked for."""

    result: str
    reason: str = ""
    summary: str = ""
    status: int | None = None
    reading: Reading | None = None
    retry_after: float | None = None


_NOT_TRIED_AGAIN = frozenset({"rejected", "deadline"})


class HttpJudge:
    """A `Judge` behind an HTTP API. May be made anywhere; its first call binds it to the running loop."""

    def __init__(
        self,
        options: HttpJudgeOptions,
        rules: ReadingRules,
        *,
        gate: Gate | None = None,
        events: JudgeEvents | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`gate` holds the places at this judge (default: one of `options.max_concurrency`). `sleep` takes seconds,
        `random` gives [0, 1), `now` Unix time. Raises ConfigurationError."""
        self.gate = gate or Gate(options.max_concurrency)
        self._options = options
        self._rules = rules
        self._events: JudgeEvents = events or NoEvents()
        self._sleep, self._random, self._now = sleep, random, now
        ranges = rules.score_range, rules.ranking_range
        template = load_template(options.template, *ranges, with_principle=options.use_principle)
        self._format = make_format(
            options.format, options.model, options.params, template, ranges if options.structured_output else None
        )
        self._transport = Transport(
            options.base_url, options.api_key, options.request_timeout_s, trust_env=options.trust_env
        )
        self._url = self._transport.url(self._format.path)

    async def __aenter__(self) -> HttpJudge:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def prepare(self, topic: Topic, texts: Sequence[AnswerTexts]) -> PreparedGroup:
        """See `Judge.prepare`."""
        return self._format.prepare(*clean_group(topic, texts, self._options.empty_answer_text))

    async def compare(self, prepared: PreparedGroup, pair: Pair) -> JudgeCall:
        """See `Judge.compare`. Places are given first come first served; a call that pauses holds none, and queues
        again for its next try."""
        started = time.perf_counter()
        tries: list[Try] = []
        result = "cancelled"
        try:
            call = await self._call(prepared, pair, tries)
            result = "verdict" if call.reading else "unreadable"
            return call
        except JudgeFailed:
            result = "failed"
            raise
        finally:
            self._events.called(result, len(tries), time.perf_counter() - started)

    async def reachable(self) -> str | None:
        """See `Judge.reachable`. Whatever the judge answers to `GET {base}/models` will do (many have no such path),
        but not 401, 403 and 5xx: with these, no call would succeed."""
        return await self._transport.probe("/models")

    async def close(self) -> None:
        """See `Judge.close`."""
        await self._transport.close()

    async def _call(self, prepared: PreparedGroup, pair: Pair, tries: list[Try]) -> JudgeCall:
        for _ in range(1 + self._options.retries):
            if tries:
                await self._sleep(self._pause_s(tries))
            async with self.gate:
                last = await self._try(prepared.body(pair))
            tries.append(last)
            if last.reading is not None:
                return JudgeCall(last.reading)
            if last.result in _NOT_TRIED_AGAIN:
                break
        return _ending(tries)

    def _pause_s(self, tries: Sequence[Try]) -> float:
        asked = tries[-1].retry_after
        return backoff_s(self._options.retry_sleep_s, len(tries) - 1, self._random()) if asked is None else asked

    async def _try(self, body: bytes) -> Try:
        started = time.perf_counter()
        ended = await self._request(body)
        self._events.tried(ended.result, ended.status, time.perf_counter() - started)
        return ended

    async def _request(self, body: bytes) -> Try:
        try:
            response = await self._transport.post(self._url, body)
        except DeadlineError:
            limit = f"{self._options.request_timeout_s:g} s (judge.request_timeout_s)"
            return Try("deadline", f"the judge at {self._transport.shown} did not reply within {limit}", "deadline")
        except TransportError as error:
            return Try("transport", str(error), error.kind)
        if not 200 <= response.status < 300:
            return self._http_error(response, response.status)
        try:
            return await self._read(response, self._format.read_reply(response.body))
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
            reason += f", a redirect to {target}: redirects are refused, so set judge.base_url to the final address"
        is_transient = status in _TRIED_AGAIN or status >= 500
        return Try(
            "transport" if is_transient else "rejected",
            reason + self._quoted(response.body),
            f"status {status}{inside}",
            status,
            retry_after=retry_after_s(response.retry_after, self._now()),
        )

    async def _read(self, response: Response, reply: Reply) -> Try:
        if reply.prompt_tokens or reply.completion_tokens:
            self._events.used(reply.prompt_tokens, reply.completion_tokens)
        if reply.unfinished:
            return Try(
                "unfinished", f"the judge's reply is unfinished: {reply.unfinished}", "unfinished", response.status
            )
        read = await self._verdict(reply.text)
        if read.ambiguous:
            self._events.ambiguous()
        if read.reading is not None:
            return Try("ok", status=response.status, reading=read.reading)
        problem = self._transport.scrubber.excerpt(read.problem, _PROBLEM_SHOWN)
        return Try("unreadable", problem + self._quoted(reply.text), "unreadable", response.status)

    async def _verdict(self, text: str) -> ReadResult:
        """A long text is read in a thread: one that was made to be tangled takes seconds."""
        if len(text) <= _LONG_REPLY:
            return read_verdict(text, self._rules)
        return await asyncio.to_thread(read_verdict, text, self._rules)

    def _quoted(self, text: str | bytes) -> str:
        excerpt = self._transport.scrubber.excerpt(text).strip()
        return f": {excerpt}" if excerpt else ""


def _ending(tries: Sequence[Try]) -> JudgeCall:
    """J13, once no try brought a verdict and none is left: raises JudgeFailed where the last one was a transport error
    (or must not be tried again), or no try brought a finished reply; else the replies were unreadable."""
    last = tries[-1]
    how_often = "after 1 try" if len(tries) == 1 else f"after {len(tries)} tries"
    unreadable = next((t for t in reversed(tries) if t.result == "unreadable"), None)
    if unreadable is None or last.result not in ("unreadable", "unfinished"):
        raise JudgeFailed(f"{how_often}: {last.reason}", f"{last.result} ({last.summary}) {how_often}")
    return JudgeCall(None, f"no readable verdict {how_often}: {unreadable.reason}")
