"""One address of a judge as the gate sees it: how many calls it may have at once, when the next may go, and whether it
is well. Times are seconds of the gate's clock."""

from __future__ import annotations

from typing import NamedTuple

from groupjudge.judging.limits import Adaptive, Allowance

FIRST_OUT_S = 1.0
LONGEST_OUT_S = 60.0
NEVER = float("inf")
_PAST = float("-inf")


class Place(NamedTuple):
    """Leave to send one request to a desk. `tokens` were put aside for it; `cuts` is `Adaptive.cuts` as it began."""

    desk: Desk
    tokens: float
    cuts: int
    is_trial: bool


class Desk:
    """The state of one address. Whoever holds a `Place` says how its request went with `heard`, at most once."""

    def __init__(
        self,
        places: int,
        *,
        least: int | None = None,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
    ) -> None:
        """`places` >= 1 is the most calls at once, `least` the fewest where that adapts (None: it does not)."""
        self.index = 0
        """Its number among the desks of its gate."""
        self.in_flight = 0
        self.last = 0
        """When it got a call for the last time, as a number that grows."""
        self.concurrency = Adaptive(places, least)
        self.counts_tokens = tokens_per_minute is not None
        self._requests = None if requests_per_minute is None else Allowance(requests_per_minute)
        self._tokens = None if tokens_per_minute is None else Allowance(tokens_per_minute)
        self._resting_until = _PAST
        self._out_until = _PAST
        self._faults = 0
        self.is_on_trial = False
        """Whether one call finds out if it is well again."""
        self.is_closed = False
        """Whether it must not be asked any more."""

    @property
    def is_left_out(self) -> bool:
        """Whether its last request showed a fault, or it is closed."""
        return self._faults > 0 or self.is_closed

    @property
    def load(self) -> float:
        """Calls in flight by places."""
        return self.in_flight / self.concurrency.limit

    def wait_s(self, now: float) -> float:
        """How long until it may get a call as far as time decides; `NEVER` where another call must end first."""
        if self.in_flight >= self.concurrency.limit:
            return NEVER
        wait = self._resting_until - now
        if self._requests is not None:
            wait = max(wait, self._requests.wait_s(now))
        if self._tokens is not None:
            wait = max(wait, self._tokens.wait_s(now))
        return wait

    def is_living(self, now: float) -> bool:
        """Whether it is not left out for its faults; back from that it gets one call as a trial."""
        return self._out_until <= now and not self.is_on_trial and not self.is_closed

    def is_resting(self, now: float) -> bool:
        """Whether it asked to be left alone."""
        return self._resting_until > now

    def living_in_s(self, now: float) -> float:
        """How long until it is no longer left out; `NEVER` while its trial lasts."""
        return NEVER if self.is_on_trial else self._out_until - now

    def seat(self, tokens: float, now: float) -> Place:
        """A call goes."""
        self.in_flight += 1
        if self._requests is not None:
            self._requests.take(1.0, now)
        if self._tokens is not None:
            self._tokens.take(tokens, now)
        is_trial = self._faults > 0 and self._out_until <= now
        self.is_on_trial |= is_trial
        return Place(self, tokens, self.concurrency.cuts, is_trial)

    def leave(self, place: Place) -> None:
        """The call is over, however it went."""
        self.in_flight -= 1
        if place.is_trial:
            self.is_on_trial = False

    def unsent(self, place: Place) -> None:
        """Nothing was sent after all."""
        if self._requests is not None:
            self._requests.correct(-1.0)
        self.used(place, 0)

    def used(self, place: Place, tokens: float) -> None:
        """The judge counted so many tokens where `place.tokens` had been put aside."""
        if self._tokens is not None:
            self._tokens.correct(tokens - place.tokens)

    def rest(self, seconds: float, now: float) -> None:
        """No call goes for so long."""
        self._resting_until = max(self._resting_until, now + seconds)

    def heard(self, place: Place, *, too_many: bool, fault: bool, now: float) -> None:
        """How a request went: whether the desk has too many calls, and whether it is at fault itself."""
        if too_many:
            self.concurrency.too_many(place.cuts)
        elif not fault:
            self.concurrency.good(self.in_flight)
        if not fault:
            self._faults, self._out_until, self.is_on_trial = 0, _PAST, False
        elif self._out_until <= now:  # calls that were under way together are one fault
            self._out_until = now + min(FIRST_OUT_S * 2.0**self._faults, LONGEST_OUT_S)
            self._faults = min(self._faults + 1, 64)
