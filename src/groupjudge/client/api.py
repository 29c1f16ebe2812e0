"""`Client` and `AsyncClient`: what a trainer calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import SupportsIndex, TypeVar

from groupjudge.client import steps
from groupjudge.client.exchange import Address, exchange, exchange_async
from groupjudge.client.plain import Answer, Question, group_body, member_body, whole_number
from groupjudge.client.steps import Steps
from groupjudge.client.troubles import Troubles, sendable
from groupjudge.client.values import Judged, Outcome, Pause, Reply, Request, Submission

T = TypeVar("T")
DEADLINE_S = 4000.0
"""A little more than a server lets a group take, as both are configured by default."""


class _Settings:
    """What both clients know of their server. It changes no more, but for when a trouble was logged last, so threads
    and processes may share it."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8600",
        *,
        token: str | None = None,
        deadline_s: float = DEADLINE_S,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`base_url`: the server's address, with a path where it is behind one. `token`: its `server.auth_token`.
        `deadline_s`: how many seconds a call may take, tries and pauses included, where it does not say. `headers` go
        with every request. Raises TypeError, ValueError."""
        self._address = Address.of(base_url)
        self._deadline_s = _checked(deadline_s)
        self._headers = {name: sendable(f"the header {name}", value) for name, value in (headers or {}).items()}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {sendable('token', token)}"
        self._troubles = Troubles()

    def _deadline(self, deadline_s: float | None) -> float:
        return time.monotonic() + (self._deadline_s if deadline_s is None else _checked(deadline_s))

    def _tell(self, pause: Pause) -> None:
        if pause.trouble is not None:
            self._troubles.met(self._address, pause.trouble)

    def _with_headers(self, request: Request) -> Request:
        return Request(request.method, request.path, request.body, {**self._headers, **request.headers})


def _checked(deadline_s: float) -> float:
    if not deadline_s > 0:
        raise ValueError(f"deadline_s must be > 0, not {deadline_s!r}")
    return float(deadline_s)


class Client(_Settings):
    """Calls a groupjudge server and waits. It holds no connection: it may be shared by threads, inherited by a fork and
    pickled, and needs no closing.

    Every method raises `Refusal` (409: the group's state does not admit the request), `GroupFailed` (the group failed
    as a whole: send all its members with a higher attempt), `InvalidRequest`, `DeadlinePassed`, or another
    `GroupJudgeError`. Connections that fail, a server that stops (503) and one that is full (429) are tried again until
    the deadline, under the same identity, so that nothing is judged twice; the logger `groupjudge.client` warns of it.
    TLS that cannot work (a certificate that is not trusted, a server without TLS) raises `ssl.SSLError` at once.
    """

    def verify(
        self,
        question: Question,
        answer: Answer,
        *,
        group_id: str,
        size: SupportsIndex | None = None,
        slot: SupportsIndex | None = None,
        member_id: str | None = None,
        attempt: SupportsIndex = 0,
        principle: str | None = None,
        deadline_s: float | None = None,
    ) -> Outcome:
        """Send one member of a group and wait for its outcome: a `Rewarded`, or a `JudgeFailure` without a reward.

        `group_id` names the group, unique across runs and questions; `size` is its N (None: the server's `group.size`);
        the member is known by its `slot` (0 to N-1) or by a `member_id`.
        """
        body = member_body(question, answer, group_id, size, slot, member_id, attempt, principle)
        return self._run(lambda deadline: steps.verify(body, deadline), deadline_s)

    def submit(
        self,
        question: Question,
        answer: Answer,
        *,
        group_id: str,
        size: SupportsIndex | None = None,
        slot: SupportsIndex | None = None,
        member_id: str | None = None,
        attempt: SupportsIndex = 0,
        principle: str | None = None,
        deadline_s: float | None = None,
    ) -> Submission:
        """Leave one member with the server and wait for nothing; arguments as for `verify`. See `result`."""
        body = member_body(question, answer, group_id, size, slot, member_id, attempt, principle)
        number = whole_number("attempt", attempt)
        return self._run(lambda deadline: steps.submit(group_id, number, body, deadline), deadline_s)

    def result(self, submission: Submission, *, deadline_s: float | None = None) -> Outcome:
        """Wait for the outcome of a member that was submitted, here or in another process."""
        return self._run(lambda deadline: steps.result(submission, deadline), deadline_s)

    def judge(
        self,
        question: Question,
        answers: Sequence[Answer],
        *,
        group_id: str | None = None,
        attempt: SupportsIndex = 0,
        principle: str | None = None,
        deadline_s: float | None = None,
    ) -> Judged:
        """Judge a whole group whose answers are all here. With a `group_id` it is judged once, however often it is
        sent, and its members are those of `verify`; without one nothing of it is kept."""
        body = group_body(question, answers, group_id, attempt, principle)
        return self._run(lambda deadline: steps.judge(body, deadline), deadline_s)

    def _run(self, begin: Callable[[float], Steps[T]], deadline_s: float | None) -> T:
        deadline = self._deadline(deadline_s)
        work = begin(deadline)
        came: Reply | OSError | None = None
        while True:
            try:
                step = work.send(came)
            except StopIteration as done:
                result: T = done.value
                return result
            if isinstance(step, Pause):
                came = None
                self._tell(step)
                time.sleep(step.seconds)
                continue
            try:
                came = exchange(self._address, self._with_headers(step), deadline)
            except OSError as error:
                came = error.with_traceback(None)  # it would hold this frame, which holds it


class AsyncClient(_Settings):
    """The same for asyncio, on whichever event loop calls it. It needs no closing either; a cancelled call hangs up,
    and the member stays with its group."""

    async def verify(
        self,
        question: Question,
        answer: Answer,
        *,
        group_id: str,
        size: SupportsIndex | None = None,
        slot: SupportsIndex | None = None,
        member_id: str | None = None,
        attempt: SupportsIndex = 0,
        principle: str | None = None,
        deadline_s: float | None = None,
    ) -> Outcome:
        """As `Client.verify`."""
        body = member_body(question, answer, group_id, size, slot, member_id, attempt, principle)
        return await self._run(lambda deadline: steps.verify(body, deadline), deadline_s)

    async def submit(
        self,
        question: Question,
        answer: Answer,
        *,
        group_id: str,
        size: SupportsIndex | None = None,
        slot: SupportsIndex | None = None,
        member_id: str | None = None,
        attempt: SupportsIndex = 0,
        principle: str | None = None,
        deadline_s: float | None = None,
    ) -> Submission:
        """As `Client.submit`."""
        body = member_body(question, answer, group_id, size, slot, member_id, attempt, principle)
        number = whole_number("attempt", attempt)
        return await self._run(lambda deadline: steps.submit(group_id, number, body, deadline), deadline_s)

    async def result(self, submission: Submission, *, deadline_s: float | None = None) -> Outcome:
        """As `Client.result`."""
        return await self._run(lambda deadline: steps.result(submission, deadline), deadline_s)

    async def judge(
        self,
        question: Question,
        answers: Sequence[Answer],
        *,
        group_id: str | None = None,
        attempt: SupportsIndex = 0,
        principle: str | None = None,
        deadline_s: float | None = None,
    ) -> Judged:
        """As `Client.judge`."""
        body = group_body(question, answers, group_id, attempt, principle)
        return await self._run(lambda deadline: steps.judge(body, deadline), deadline_s)

    async def _run(self, begin: Callable[[float], Steps[T]], deadline_s: float | None) -> T:
        deadline = self._deadline(deadline_s)
        work = begin(deadline)
        came: Reply | OSError | None = None
        while True:
            try:
                step = work.send(came)
            except StopIteration as done:
                result: T = done.value
                return result
            if isinstance(step, Pause):
                came = None
                self._tell(step)
                await asyncio.sleep(step.seconds)
                continue
            try:
                came = await exchange_async(self._address, self._with_headers(step), deadline)
            except OSError as error:
                came = error.with_traceback(None)  # as in `Client`
