"""What Prometheus scrapes: counters and gauges with their units, and nothing that names a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

if TYPE_CHECKING:
    from groupjudge.service.bodies import BodyReader
    from groupjudge.service.host import Host

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)


class Metrics:
    """Counts what the host (`HostEvents`), the judges (`JudgeEvents`) and the routes tell it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self._replies = Counter("groupjudge_replies", "Replies by route and code.", ["route", "code"], registry=r)
        self._groups = Counter(
            "groupjudge_judged_groups", "Groups whose judging ended, by how.", ["result"], registry=r
        )
        self._group_s = Histogram(
            "groupjudge_group_judging_seconds", "From the last member to the outcome.", buckets=_SECONDS, registry=r
        )
        self._tries = Counter(
            "groupjudge_judge_tries", "Requests to the judge, by how they ended.", ["result"], registry=r
        )
        self._calls = Counter(
            "groupjudge_judge_calls", "Comparisons asked for, by how they ended.", ["result"], registry=r
        )
        self._call_s = Histogram(
            "groupjudge_judge_call_seconds", "One comparison, tries and pauses included.", buckets=_SECONDS, registry=r
        )
        self._tokens = Counter("groupjudge_judge_tokens", "Tokens that the judge reported.", ["kind"], registry=r)
        self._ambiguous = Counter("groupjudge_ambiguous_replies", "Judge replies with differing verdicts.", registry=r)
        self._defaulted = Counter("groupjudge_default_scores", "Pairs that got the default scores.", registry=r)
        self._labelled: dict[tuple[Counter, tuple[str, ...]], Counter] = {}
        self._bytes = Counter("groupjudge_body_bytes", "Bytes of request bodies read.", registry=r)

    def watch(self, host: Host, reader: BodyReader) -> None:
        """Read these gauges whenever somebody scrapes."""
        for name, help_, read in (
            ("groupjudge_waiting_callers", "Callers that wait for an outcome.", lambda: host.callers),
            ("groupjudge_judging_groups", "Groups that are being judged.", lambda: host.judging),
            ("groupjudge_held_answers", "Answers whose texts are held for judging.", lambda: host.texts_held),
            ("groupjudge_incoming_bodies", "Bodies on their way in.", lambda: reader.reading),
        ):
            Gauge(name, help_, registry=self.registry).set_function(read)

    def exposition(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)

    def _count(self, counter: Counter, *labels: str) -> None:
        """Add one. Looking a child up by its labels costs more than counting; there are few of them."""
        child = self._labelled.get((counter, labels))
        if child is None:
            child = self._labelled[counter, labels] = counter.labels(*labels)
        child.inc()

    # -- the routes
    def replied(self, route: str, code: str) -> None:
        self._count(self._replies, route, code)

    def read(self, size: int) -> None:
        self._bytes.inc(size)

    # -- HostEvents
    def group_ended(self, kind: str, seconds: float) -> None:
        """Judging a group ended."""
        self._count(self._groups, kind)
        if kind != "cancelled":
            self._group_s.observe(seconds)

    # -- JudgeEvents
    def tried(self, result: str, status: int | None, seconds: float) -> None:
        self._count(self._tries, result)

    def called(self, result: str, tries: int, seconds: float) -> None:
        """One comparison ended."""
        self._count(self._calls, result)
        self._call_s.observe(seconds)

    def used(self, prompt_tokens: int, completion_tokens: int) -> None:
        """A reply of the judge named its usage."""
        self._tokens.labels("prompt").inc(prompt_tokens)
        self._tokens.labels("completion").inc(completion_tokens)

    def ambiguous(self) -> None:
        self._ambiguous.inc()

    def defaulted(self) -> None:
        self._defaulted.inc()
