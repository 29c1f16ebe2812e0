"""What Prometheus scrapes: counters and gauges with their units, and nothing that names a group (docs/metrics.md).

What happens with each request is counted in plain numbers, and all that can be looked up is looked up when somebody
scrapes. Every series is there from the beginning, with 0: a counter that appears with its first event has no rate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from groupjudge import __version__
from groupjudge.core.census import Census
from groupjudge.service.history import TRY_RESULTS, History
from groupjudge.service.wire import STATUS

CONTENT_TYPE = CONTENT_TYPE_LATEST
ROUTES = ("verify", "result", "compare", "judge", "other")
CODES = ("ok", "pending", *STATUS)
CALL_RESULTS = ("verdict", "unreadable", "failed", "cancelled")
TOKEN_KINDS = ("prompt", "completion")
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_LAGS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Watched(NamedTuple):
    """A number, or one for each value of a label, that is read when somebody scrapes. A counter's name ends in
    `_total`."""

    name: str
    help: str
    read: Callable[[], float | Mapping[str, float]]
    label: str = ""

    def families(self) -> Iterator[Metric]:
        """What Prometheus is shown of it."""
        kind = CounterMetricFamily if self.name.endswith("_total") else GaugeMetricFamily
        family = kind(self.name.removesuffix("_total"), self.help, labels=[self.label] if self.label else [])
        said = self.read()
        if isinstance(said, Mapping):
            for value, number in said.items():
                family.add_metric([value], number)
        else:
            family.add_metric([], said)
        yield family


class Durations:
    """A histogram of seconds. The library's own takes a lock and looks at labels for each number, of which there are
    three to a request."""

    def __init__(self, name: str, help_: str, bounds: Sequence[float]) -> None:
        """`bounds` are the upper ends of its buckets, ascending."""
        self._name, self._help = name, help_
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one more."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def family(self) -> Metric:
        """What Prometheus is shown of it."""
        family = HistogramMetricFamily(self._name, self._help)
        ends = (*map(str, map(float, self._bounds)), "+Inf")
        family.add_metric([], list(zip(ends, accumulate(self._counts), strict=True)), self._sum)
        return family


class Metrics(Collector):
    """Counts what the host (`HostEvents`), the judges (`JudgeEvents`) and the routes tell it; `history` remembers the
    last hour of it."""

    def __init__(self, history: History | None = None) -> None:
        self.history = history or History()
        disable_created_metrics()  # type: ignore[no-untyped-call]  # gauges of their own that nobody asks for
        self.registry = r = CollectorRegistry()
        self._replies = dict.fromkeys(((route, code) for route in ROUTES for code in CODES), 0)
        self._bodies = self._bytes = 0
        self._tries = dict.fromkeys(TRY_RESULTS, 0)
        self._calls = dict.fromkeys(CALL_RESULTS, 0)
        self._tokens = dict.fromkeys(TOKEN_KINDS, 0)
        self._ambiguous = self._defaulted = 0
        self._flat = self._saved = self._wasted = 0
        self._watched: list[Watched] = []
        self._durations: list[Durations] = []

        def durations(name: str, help_: str, bounds: Sequence[float] = SECONDS) -> Callable[[float], None]:
            counted = Durations(name, help_, bounds)
            self._durations.append(counted)
            return counted.observe

        self._group_s = durations("groupjudge_group_judging_duration_seconds", "Judging one group, its end included.")
        self._call_s = durations("groupjudge_judge_call_duration_seconds", "One comparison, tries and pauses included.")
        self._try_s = durations("groupjudge_judge_try_duration_seconds", "One request to the judge.")
        self._lag_s = durations(
            "groupjudge_loop_lag_seconds", "How late the event loop was, four times a second.", _LAGS
        )
        Info("groupjudge_build", "The version that runs.", registry=r).info({"version": __version__})
        ProcessCollector(registry=r)
        r.register(self)

    def watch(self, watched: Iterable[Watched]) -> None:
        """Read these too whenever somebody scrapes."""
        self._watched += watched

    def exposition(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """What is counted here, and what is watched."""
        replies = CounterMetricFamily("groupjudge_replies", "Replies by route and code.", labels=["route", "code"])
        for labels, count in self._replies.items():
            replies.add_metric(labels, count)
        yield replies
        for durations in self._durations:
            yield durations.family()
        for watched in (*self._counted(), *self._watched):
            yield from watched.families()

    def _counted(self) -> Iterator[Watched]:
        yield Watched("groupjudge_bodies_total", "Request bodies read whole.", lambda: self._bodies)
        yield Watched("groupjudge_body_bytes_total", "Bytes of request bodies read.", lambda: self._bytes)
        tries, calls = "Requests to the judge, by how they ended.", "Comparisons asked for, by how they ended."
        yield Watched("groupjudge_judge_tries_total", tries, lambda: self._tries, "result")
        yield Watched("groupjudge_judge_calls_total", calls, lambda: self._calls, "result")
        yield Watched("groupjudge_judge_tokens_total", "Tokens that the judge reported.", lambda: self._tokens, "kind")
        ambiguous = "Judge replies with differing verdicts."
        yield Watched("groupjudge_ambiguous_replies_total", ambiguous, lambda: self._ambiguous)
        defaulted = "Comparisons that got the default scores."
        yield Watched("groupjudge_default_scores_total", defaulted, lambda: self._defaulted)
        yield Watched("groupjudge_flat_groups_total", "Groups whose rewards are all equal.", lambda: self._flat)
        saved = "Judge calls that equal answers made needless."
        yield Watched("groupjudge_judge_calls_saved_total", saved, lambda: self._saved)
        wasted = "Judge calls made early for groups that never became complete, or did not need them."
        yield Watched("groupjudge_judge_calls_wasted_total", wasted, lambda: self._wasted)

    # -- the routes
    def replied(self, route: str, code: str) -> None:
        self._replies[route, code] = self._replies.get((route, code), 0) + 1

    def read(self, size: int) -> None:
        self._bodies += 1
        self._bytes += size

    # -- the loop
    def looked(self, lag_s: float, census: Census) -> None:
        """The event loop was late by so many seconds."""
        self._lag_s(lag_s)
        self.history.looked(lag_s, census.ended)

    # -- HostEvents
    def group_ended(self, kind: str, seconds: float) -> None:
        """Judging a group ended."""
        if kind != "cancelled":
            self._group_s(seconds)

    def rewarded(self, rewards: Sequence[float]) -> None:
        self.history.rewarded(rewards)

    def wasted(self, calls: int) -> None:
        self._wasted += calls

    def failed(self, group: str, attempt: int, why: str) -> None:
        self.history.failed(group, attempt, why)

    # -- JudgeEvents
    def tried(self, result: str, status: int | None, seconds: float) -> None:
        """A request to the judge ended."""
        self._tries[result] = self._tries.get(result, 0) + 1
        self._try_s(seconds)
        self.history.tried(result, status, seconds)

    def called(self, result: str, tries: int, seconds: float) -> None:
        """One comparison ended."""
        self._calls[result] = self._calls.get(result, 0) + 1
        self._call_s(seconds)

    def used(self, prompt_tokens: int, completion_tokens: int) -> None:
        """A reply of the judge named its usage."""
        self._tokens["prompt"] += prompt_tokens
        self._tokens["completion"] += completion_tokens

    def ambiguous(self) -> None:
        self._ambiguous += 1

    def defaulted(self) -> None:
        self._defaulted += 1

    def group_scored(self, *, calls_saved: int, is_flat: bool) -> None:
        """A group has its rewards."""
        self._saved += calls_saved
        self._flat += is_flat

    # -- what the status shows
    def judge_totals(self) -> dict[str, object]:
        """Since the start: comparisons and requests by how they ended, tokens, and what was odd."""
        return {
            "calls": dict(self._calls),
            "tries": dict(self._tries),
            "tokens": dict(self._tokens),
            "ambiguous_replies": self._ambiguous,
            "default_scores": self._defaulted,
            "flat_groups": self._flat,
            "calls_saved": self._saved,
        }
