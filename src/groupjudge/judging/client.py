"""A judge behind an HTTP API: one call is up to `1 + retries` tries, and ends as J12 and J13 say.

`request_timeout_s` is the time of one request, from its place at the judge to the last byte of the reply. Waiting for a
place and pausing do not count, or a busy judge would fail calls that it never saw; what bounds all of it is the group's
judging deadline (L16).

A judge may be at several addresses (F10). Then a try is made at the one with the least load, and where that address is
at fault, goes on at another one that is well: only where none is does the try fail. All get the same request.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

from groupjudge.errors import BudgetSpent, JudgeFailed
from groupjudge.judging.desk import Place
from groupjudge.judging.endpoint import Endpoint, Reader, Try, desk_of
from groupjudge.judging.formats import Api, PreparedGroup, make_format
from groupjudge.judging.gate import Gate, Line
from groupjudge.judging.judge import JudgeCall, JudgeEvents, NoEvents
from groupjudge.judging.limits import Expected
from groupjudge.judging.options import HttpJudgeOptions
from groupjudge.judging.pauses import backoff_s
from groupjudge.judging.reading import ReadingRules
from groupjudge.judging.template import load_template
from groupjudge.judging.texts import clean_group
from groupjudge.judging.usage import Meter
from groupjudge.model import AnswerTexts, Pair, Reading, Topic

__all__ = ["HttpJudge", "HttpJudgeOptions"]

_SPENT = "budget"
_NOT_TRIED_AGAIN = frozenset({"rejected", "deadline", _SPENT})
_TOO_MANY_REQUESTS = 429


class Call(NamedTuple):
    """How a call ended, as `JudgeCall` has it; `numbers` are what the reply was read as."""

    numbers: tuple[float, ...] | None
    problem: str = ""
    ambiguous: bool = False


class GroupAtJudge(NamedTuple):
    """A group's requests, and its line at the gate."""

    requests: PreparedGroup
    line: Line


class Request(NamedTuple):
    """One call's request, the same in every try: its size in bytes (0 where nobody counts tokens), its body, and how
    replies are read (None: as a verdict)."""

    size: int
    body: Callable[[], bytes]
    read: Reader | None = None


class HttpCaller:
    """Calls a judge behind an HTTP API: its addresses, places and tries. What is asked, whoever derives from it says.
    May be made anywhere; its first call binds it to the running loop."""

    def __init__(
        self,
        options: HttpJudgeOptions,
        rules: ReadingRules,
        api: Api,
        *,
        others: Sequence[HttpJudgeOptions] = (),
        gate: Gate | None = None,
        events: JudgeEvents | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`others` are further addresses of the same judge: of them only what an address has of its own counts. `gate`
        has a desk for each address (default: as their options say). `sleep` takes seconds, `random` gives [0, 1), `now`
        Unix time. Raises ConfigurationError."""
        self._options = options
        self._events: JudgeEvents = events or NoEvents()
        self._sleep, self._random = sleep, random
        addresses = (options, *others)
        self._endpoints = [Endpoint(address, api, rules, self._events, now) for address in addresses]
        self.gate = gate or Gate([desk_of(address) for address in addresses])
        """The places at this judge."""
        counts = any(desk.counts_tokens for desk in self.gate.desks)
        self._expected = Expected(options.params) if counts else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def counts_tokens(self) -> bool:
        """Whether the size of a request matters to any desk."""
        return self._expected is not None

    async def call(self, line: Line, request: Request) -> Call:
        """One call, all tries included. Places are given in the order of the gate (F13); a call that pauses holds none,
        and queues again for its next try. Raises JudgeFailed as J12 and J13 say."""
        started = time.perf_counter()
        tries: list[Try] = []
        result = "cancelled"
        try:
            call = await self._call(line, request, tries)
            result = "verdict" if call.numbers is not None else "unreadable"
            return call
        except JudgeFailed:
            result = "failed"
            raise
        finally:
            self._events.called(result, len(tries), time.perf_counter() - started)

    async def reachable(self) -> str | None:
        """See `Judge.reachable`. Whatever an address answers to `GET {base}/models` will do (many have no such path),
        but not 401, 403 and 5xx: with these, no call would succeed. One address that can be asked is enough."""
        refusals = await asyncio.gather(*(endpoint.reachable() for endpoint in self._endpoints))
        return None if None in refusals else "; ".join(refusal for refusal in refusals if refusal is not None)

    @property
    def meters(self) -> list[Meter]:
        """What each address cost."""
        return [endpoint.meter for endpoint in self._endpoints]

    async def close(self) -> None:
        """See `Judge.close`."""
        for endpoint in self._endpoints:
            await endpoint.close()

    async def _call(self, line: Line, request: Request, tries: list[Try]) -> Call:
        for _ in range(1 + self._options.retries):
            if tries:
                await self._sleep(self._pause_s(tries))
            last = await self._try(line, request)
            tries.append(last)
            if last.reading is not None:
                return Call(last.reading, ambiguous=last.ambiguous)
            if last.result in _NOT_TRIED_AGAIN:
                break
        return _ending(tries)

    def _pause_s(self, tries: Sequence[Try]) -> float:
        asked = tries[-1].retry_after
        return backoff_s(self._options.retry_sleep_s, len(tries) - 1, self._random()) if asked is None else asked

    async def _try(self, line: Line, request: Request) -> Try:
        """One try, at as many addresses as it takes: a dead one uses up no try while another lives."""
        for _ in self._endpoints:
            ended, goes_on = await self._at_one(line, request)
            if not goes_on:
                break
        return ended

    async def _at_one(self, line: Line, request: Request) -> tuple[Try, bool]:
        """One request, and whether it is worth while to make it at another address at once."""
        expected = self._expected
        place = await self.gate.enter(line, expected.tokens(request.size) if expected else 0.0)
        endpoint = self._endpoints[place.desk.index]
        try:
            if (spent := endpoint.meter.why_spent()) is not None:
                return self._close(place, spent)
            body = request.body()
            ended = await endpoint.ask(body, request.read)
            self._tell(place, ended, len(body))
        finally:
            self.gate.leave(place)
        is_limited = ended.status == _TOO_MANY_REQUESTS and ended.retry_after is not None
        return ended, (ended.is_its_fault or is_limited) and self.gate.has_another(place.desk)

    def _close(self, place: Place, spent: str) -> tuple[Try, bool]:
        """The budget of an address is used up: nothing was sent, and nothing will be."""
        place.desk.unsent(place)
        place.desk.is_closed = True
        return Try(_SPENT, spent, "the budget is used up"), not all(desk.is_closed for desk in self.gate.desks)

    def _tell(self, place: Place, ended: Try, size: int) -> None:
        """What the gate has to know of a request of `size` bytes. Of one that was lost nobody knows what it cost: what
        was put aside for it stays so."""
        self.gate.heard(place, too_many=ended.is_too_many, fault=ended.is_its_fault)
        if ended.status == _TOO_MANY_REQUESTS and ended.retry_after is not None:
            self.gate.rest(place.desk, ended.retry_after)
        if ended.tokens is not None:
            place.desk.used(place, ended.tokens)
            if self._expected is not None and ended.tokens > 0:
                self._expected.learn(size, ended.tokens)


class HttpJudge(HttpCaller):
    """A `Judge` behind an HTTP API."""

    def __init__(self, options: HttpJudgeOptions, rules: ReadingRules, **parts: Any) -> None:
        """`parts` are those of `HttpCaller`. Raises ConfigurationError."""
        ranges = rules.score_range, rules.ranking_range
        template = load_template(options.template, *ranges, with_principle=options.use_principle)
        self._format = make_format(
            options.format, options.model, options.params, template, ranges if options.structured_output else None
        )
        super().__init__(options, rules, self._format.api, **parts)

    def prepare(self, topic: Topic, texts: Sequence[AnswerTexts], line: Line | None = None) -> GroupAtJudge:
        """See `Judge.prepare`."""
        requests = self._format.prepare(*clean_group(topic, texts, self._options.empty_answer_text))
        return GroupAtJudge(requests, line or self.gate.line())

    async def compare(self, prepared: GroupAtJudge, pair: Pair) -> JudgeCall:
        """See `Judge.compare`."""
        requests = prepared.requests
        size = requests.size(pair) if self.counts_tokens else 0
        call = await self.call(prepared.line, Request(size, partial(requests.body, pair)))
        return JudgeCall(None if call.numbers is None else Reading(*call.numbers), call.problem, call.ambiguous)


def _ending(tries: Sequence[Try]) -> Call:
    """J13, once no try brought a verdict and none is left: raises JudgeFailed where the last one was a transport error
    (or must not be tried again), or no try brought a finished reply; else the replies were unreadable."""
    last = tries[-1]
    if last.result == _SPENT:
        raise BudgetSpent(last.reason, last.summary)
    how_often = "after 1 try" if len(tries) == 1 else f"after {len(tries)} tries"
    unreadable = next((t for t in reversed(tries) if t.result == "unreadable"), None)
    if unreadable is None or last.result not in ("unreadable", "unfinished"):
        raise JudgeFailed(f"{how_often}: {last.reason}", f"{last.result} ({last.summary}) {how_often}")
    return Call(None, f"no readable verdict {how_often}: {unreadable.reason}")
