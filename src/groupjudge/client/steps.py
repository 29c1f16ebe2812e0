"""What the client asks, and when it asks again: the same steps for the blocking client and for the other one.

Each of these is a generator. It yields a `Request`, and is sent the `Reply` or the `OSError` that came of it; or it
yields a `Pause`. What it returns is the result. A deadline is of `time.monotonic`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Iterator
from ssl import SSLEOFError, SSLError, SSLSyscallError, SSLZeroReturnError
from typing import TypeAlias, TypeVar
from urllib.parse import quote

from groupjudge.client.replies import error_in, judged_in, outcome_in, seconds_to_wait
from groupjudge.client.values import Judged, Outcome, Pause, Reply, Request, Submission
from groupjudge.errors import DeadlinePassed, NotFound, UnexpectedReply

T = TypeVar("T")
Steps: TypeAlias = Generator[Request | Pause, "Reply | OSError | None", T]

POLL_S = 30
"""How long one request for a result stays open: shorter than what lies between usually allows an idle connection."""
_CUT = (SSLEOFError, SSLSyscallError, SSLZeroReturnError)
"""What a connection over TLS that was lost may be called."""
_MINIMAL = {"Prefer": "return=minimal"}
_ASYNC = {"Prefer": "respond-async, return=minimal"}


def verify(body: bytes, deadline: float) -> Steps[Outcome]:
    """One member's outcome, waited for."""
    return outcome_in((yield from _answered(Request("POST", "/verify", body, _MINIMAL), deadline)))


def judge(body: bytes, deadline: float) -> Steps[Judged]:
    """A whole group's outcomes."""
    return judged_in((yield from _answered(Request("POST", "/v1/judge", body), deadline)))


def submit(group_id: str, attempt: int, body: bytes, deadline: float) -> Steps[Submission]:
    """Leave a member with the server."""
    reply = yield from _answered(Request("POST", "/verify", body, _ASYNC), deadline)
    if reply.status != 202:
        outcome = outcome_in(reply)
        return Submission(group_id, attempt, outcome.slot, body, outcome)
    slot = reply.headers.get("location", "").rpartition("/")[2]
    if not (slot.isascii() and slot.isdigit()):
        raise UnexpectedReply("202 without a Location that ends with the member's slot")
    return Submission(group_id, attempt, int(slot), body)


def result(submission: Submission, deadline: float) -> Steps[Outcome]:
    """Fetch a submitted member's outcome. Where the server does not know it, it has been restarted: then the member is
    sent again, under the same identity."""
    while submission.outcome is None:
        asked = time.monotonic()
        reply = yield from _answered(Request("GET", _path_of(submission, deadline)), deadline)
        if reply.status == 404 and isinstance(error_in(reply), NotFound):
            submission = yield from submit(submission.group_id, submission.attempt, submission.request, deadline)
        elif reply.status != 202:
            return outcome_in(reply)
        elif time.monotonic() - asked < 1:
            yield from _pause(1.0, deadline, "the outcome is pending")
    return submission.outcome


def _path_of(submission: Submission, deadline: float) -> str:
    wait = max(0.0, min(POLL_S, deadline - time.monotonic()))
    group = quote(submission.group_id, safe="")
    return f"/v1/groups/{group}/{submission.attempt}/{submission.slot}?wait={wait:.3f}"


def _answered(request: Request, deadline: float) -> Steps[Reply]:
    """The reply that counts: connections that fail, a server that stops and one that is full are tried again, with the
    same bytes. Raises DeadlinePassed."""
    for pause in _pauses():
        came = yield request
        if isinstance(came, SSLError) and not isinstance(came, _CUT):
            raise came  # no certificate and no protocol mends itself
        if isinstance(came, Reply):
            seconds = seconds_to_wait(came, pause)
            if seconds is None:
                return came
            yield from _pause(seconds, deadline, str(error_in(came)), failed=True)
        else:
            yield from _pause(pause, deadline, f"{type(came).__name__}: {came}", failed=True)
    raise AssertionError("the pauses have ended")


def _pause(seconds: float, deadline: float, why: str, *, failed: bool = False) -> Steps[None]:
    if time.monotonic() + seconds >= deadline:
        raise DeadlinePassed(f"no outcome before the deadline; the last word was: {why:.1000}")
    yield Pause(seconds, why if failed else None)


def _pauses() -> Iterator[float]:
    """Doubling, spread so that callers who lost one server do not come back to the next one all at once."""
    seconds = 0.1
    while True:
        yield seconds * random.uniform(0.5, 1.0)
        seconds = min(2 * seconds, 5.0)
