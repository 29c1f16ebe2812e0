"""How fast and how many (F11): a rate that is kept, and a number of calls at once that follows what a judge bears.

Pure: times come in as arguments, in seconds of one clock that never goes back. Nobody waits here; who waits for whom is
the gate's business (docs/decisions/0011-order-and-limits.md says why no limiter of a library does it).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MINUTE_S = 60.0
_BYTES_A_TOKEN = 4.0
_USUAL_REPLY = 1024
_NEWS = 0.1
_LIMITS_OF_REPLIES = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_CUT = 0.5
"""What remains of the calls at once when a judge shows that it has too many."""


class Allowance:
    """So many units a minute, spread evenly: at most a second's share at once.

    A generic cell rate algorithm: all it knows is when the last unit will have been earned. Units may be taken that
    are not there yet, and then nobody may go until they are: of a call's tokens one learns only afterwards how many
    they were. Where each call takes one unit, no minute sees more than `per_minute` of them.
    """

    def __init__(self, per_minute: int) -> None:
        """`per_minute` >= 1."""
        at_once = max(1, per_minute // 60)
        self._unit_s = _MINUTE_S / (per_minute - at_once + 1)
        self._saved_s = (at_once - 1) * self._unit_s
        self._due = float("-inf")

    def wait_s(self, now: float) -> float:
        """How long until a call may go; 0 or less: now."""
        return self._due - now

    def take(self, units: float, now: float) -> None:
        """A call goes, and takes so many."""
        self._due = max(self._due, now - self._saved_s) + units * self._unit_s

    def correct(self, units: float) -> None:
        """So many more were taken than it was thought; fewer where negative."""
        self._due += units * self._unit_s


class Adaptive:
    """How many calls at once: `limit`, between a floor and a ceiling.

    Where no floor is given it is the ceiling and stays there. Else it begins at the floor. Until the judge first shows
    that it has too many, each good reply adds one (or it would take a hundred thousand calls to reach 512); after that
    as many good replies as there are places add one. It is halved when the judge has too many, but only once for all
    calls that were under way together. It does not grow while places are free: nothing is learnt then.
    """

    def __init__(self, ceiling: int, floor: int | None = None) -> None:
        self._ceiling = ceiling
        self._floor = ceiling if floor is None else min(floor, ceiling)
        self._exact = float(self._floor)
        self.limit = self._floor
        self.cuts = 0
        """How often it was cut. Whoever begins a call remembers this for `too_many`."""

    def good(self, in_flight: int) -> None:
        """A good reply came while so many calls were under way, its own included."""
        if self.limit < self._ceiling and in_flight >= self.limit:
            step = 1.0 if self.cuts == 0 else 1.0 / self.limit
            self._set(min(self._exact + step, float(self._ceiling)))

    def too_many(self, cuts: int) -> None:
        """The judge refused or lost a call that began after so many cuts."""
        if cuts == self.cuts:
            self.cuts += 1
            self._set(max(self._exact * _CUT, float(self._floor)))

    def _set(self, exact: float) -> None:
        self._exact = exact
        self.limit = int(exact + 1e-9)


class Expected:
    """How many tokens a call will take: a guess before, so that calls under way count before they have ended.

    As long as no reply has named its tokens, the worst that `params` admit; then what replies took beyond the size of
    their requests, on the average of late.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        """`params` are those of the judge's requests."""
        limits = (params.get(name) for name in _LIMITS_OF_REPLIES)
        self._reply = float(next((limit for limit in limits if type(limit) is int and limit > 0), _USUAL_REPLY))
        self._knows = False

    def tokens(self, size: int) -> float:
        """Of a request with a body of `size` bytes."""
        return size / _BYTES_A_TOKEN + self._reply

    def learn(self, size: int, tokens: int) -> None:
        """A request of that size took so many."""
        reply = max(0.0, tokens - size / _BYTES_A_TOKEN)
        self._reply = reply if not self._knows else self._reply + (reply - self._reply) * _NEWS
        self._knows = True
