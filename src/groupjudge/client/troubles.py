"""What a caller is told while a client tries again, and what is checked so that it need not."""

from __future__ import annotations

import logging
import time

log = logging.getLogger("groupjudge.client")

FIRST_S = 5.0
LONGEST_S = 300.0


class Troubles:
    """Logs the failed tries of a client: the first at once, then what fails later at intervals that grow from 5 s to
    300 s, since thousands of members may wait for one server. A client that is pickled begins anew."""

    def __init__(self) -> None:
        self._next = self._interval = 0.0

    def __reduce__(self) -> tuple[type[Troubles], tuple[()]]:
        return Troubles, ()

    def met(self, address: object, why: str, now: float | None = None) -> None:
        """A try at `address` failed; `now` is of `time.monotonic`."""
        now = time.monotonic() if now is None else now
        if now < self._next:
            return
        calm = now - self._next > self._interval
        self._interval = FIRST_S if calm else min(2 * self._interval, LONGEST_S)
        self._next = now + self._interval
        log.warning("%s: a try failed, and is made again until the deadline: %.1000s", address, why)


def sendable(what: str, value: object) -> str:
    """A header's value that can be sent. Raises TypeError, ValueError, without the value, which may be secret."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not a {type(value).__name__}")
    if not value:
        raise ValueError(f"{what} is empty: leave it out where the server has none")
    wrong = _wrong_in(value)
    if wrong:
        raise ValueError(f"{what} holds {wrong}, which no header can carry")
    return value


def _wrong_in(value: str) -> str | None:
    if "\n" in value or "\r" in value:
        return "a line break (is it read from a file? strip it)"
    if not value.isascii():
        return "a character that is not ASCII"
    if value != value.strip():
        return "a space at its beginning or end"
    return None if value.replace("\t", "").isprintable() else "a control character"
