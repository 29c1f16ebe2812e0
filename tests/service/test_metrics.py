"""The metrics as Prometheus' conventions want them (H8): https://prometheus.io/docs/practices/naming/."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from groupjudge.service.metrics import CODES, ROUTES, SECONDS, Durations, Metrics, Watched

UNITS = ("seconds", "bytes", "ratio", "celsius", "info")
OTHER_UNITS = re.compile(r"_(ms|millis|milliseconds|minutes|hours|kb|mb|kib|mib|percent|kilobytes)(_|$)")


def families(metrics: Metrics) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(metrics.exposition().decode())}


def number(metrics: Metrics, name: str, **labels: str) -> float:
    """One number of what is shown."""
    (value,) = (
        sample.value
        for family in families(metrics).values()
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    )
    return value


def check_conventions(family: Metric) -> None:
    """Prefix, base units, `_total` for counters alone, a text, and labels that cannot grow."""
    assert re.fullmatch(r"(groupjudge|process)_[a-z][a-z0-9_]*[a-z0-9]", family.name)
    assert family.documentation.endswith(".") or family.name.startswith("process_")
    assert not OTHER_UNITS.search(family.name), "not in a base unit"
    shown = {sample.name for sample in family.samples}
    if family.type == "counter":
        assert all(name.endswith(("_total", "_created")) for name in shown)
    else:
        assert not any(name.endswith("_total") for name in shown)
    if family.type == "histogram":
        assert family.name.endswith(UNITS)
    labels = {label for sample in family.samples for label in sample.labels}
    fixed = {"route", "code", "result", "kind", "phase", "outcome", "reply", "place", "le", "version"}
    assert labels <= fixed | {"judge", "juror"}  # named by the configuration
    assert len(family.samples) <= 150


def test_what_is_counted_here_follows_the_conventions() -> None:
    """H8."""
    for family in families(Metrics()).values():
        check_conventions(family)


def test_every_series_is_there_before_anything_happened() -> None:
    """A counter that appears with its first event has no rate for it."""
    shown = families(Metrics())
    replies = {(s.labels["route"], s.labels["code"]) for s in shown["groupjudge_replies"].samples}
    assert replies == {(route, code) for route in ROUTES for code in CODES}
    for name in ("judge_tries", "judge_calls", "judge_tokens", "bodies", "body_bytes", "default_scores"):
        assert {sample.value for sample in shown[f"groupjudge_{name}"].samples} == {0.0}


def test_what_is_told_is_counted() -> None:
    """H8, J13: routes, tries, calls, tokens and durations."""
    metrics = Metrics()
    metrics.replied("verify", "ok")
    metrics.replied("verify", "a code that is new")
    metrics.read(1000)
    metrics.read(24)
    metrics.tried("ok", 200, 0.2)
    metrics.tried("transport", None, 7.0)
    metrics.called("verdict", 2, 7.5)
    metrics.used(100, 20)
    metrics.ambiguous()
    metrics.defaulted()
    metrics.group_ended("rewarded", 3.0)
    metrics.group_ended("cancelled", 0.0)
    assert number(metrics, "groupjudge_replies_total", route="verify", code="ok") == 1
    assert number(metrics, "groupjudge_replies_total", route="verify", code="a code that is new") == 1
    assert number(metrics, "groupjudge_bodies_total") == 2
    assert number(metrics, "groupjudge_body_bytes_total") == 1024
    assert number(metrics, "groupjudge_judge_tries_total", result="transport") == 1
    assert number(metrics, "groupjudge_judge_calls_total", result="verdict") == 1
    assert number(metrics, "groupjudge_judge_tokens_total", kind="prompt") == 100
    assert number(metrics, "groupjudge_judge_tokens_total", kind="completion") == 20
    assert number(metrics, "groupjudge_ambiguous_replies_total") == 1
    assert number(metrics, "groupjudge_default_scores_total") == 1
    assert number(metrics, "groupjudge_judge_try_duration_seconds_sum") == pytest.approx(7.2)
    assert number(metrics, "groupjudge_judge_call_duration_seconds_count") == 1
    assert number(metrics, "groupjudge_group_judging_duration_seconds_count") == 1


def test_what_is_watched_is_read_when_somebody_scrapes() -> None:
    """H8: a counter where its name says so, else a gauge; with a label or without."""
    state = {"a": 1.0}
    metrics = Metrics()
    metrics.watch([Watched("groupjudge_x", "X.", lambda: state["a"])])
    metrics.watch([Watched("groupjudge_y_total", "Y.", lambda: state, "kind")])
    assert number(metrics, "groupjudge_x") == 1
    state |= {"a": 5.0, "b": 2.0}
    shown = families(metrics)
    assert (shown["groupjudge_x"].type, shown["groupjudge_y"].type) == ("gauge", "counter")
    assert number(metrics, "groupjudge_x") == 5
    assert number(metrics, "groupjudge_y_total", kind="b") == 2


@given(st.lists(st.floats(0, 3000) | st.sampled_from(SECONDS)))
def test_durations_are_counted_as_the_library_counts_them(seconds: list[float]) -> None:
    """H8: the same text, bucket by bucket, also for what lies on the edge of one."""
    own, theirs, registry = Durations("x_seconds", "Of x.", SECONDS), CollectorRegistry(), CollectorRegistry()
    histogram = Histogram("x_seconds", "Of x.", buckets=SECONDS, registry=theirs)
    for each in seconds:
        own.observe(each)
        histogram.observe(each)
    registry.register(type("Own", (), {"collect": lambda self: [own.family()]})())
    assert generate_latest(registry) == generate_latest(theirs)
