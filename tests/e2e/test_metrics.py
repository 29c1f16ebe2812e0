"""What a real server shows Prometheus after a known run, and whether dashboard and documentation know it (H8)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.service.test_metrics import check_conventions

from .calling import Client, cancelled_after
from .conftest import Serve
from .groups import REJECTED, Group, TextJudge
from .serving import ROOT

DASHBOARD = ROOT / "deploy" / "grafana-dashboard.json"
DOCUMENT = ROOT / "docs" / "metrics.md"
OF_PROMETHEUS = {"job", "instance", "le"}
"""Labels that Prometheus adds, and the one of histograms."""

Series = dict[str, dict[str, set[str]]]


async def families(client: Client) -> list[Metric]:
    text = (await client.get("/metrics")).body.decode()
    return list(text_string_to_metric_families(text))


async def series(client: Client) -> Series:
    """By name of a sample: its labels with their values."""
    shown: Series = {}
    for family in await families(client):
        for sample in family.samples:
            labels = shown.setdefault(sample.name, {})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return shown


async def test_a_known_run_is_counted(serve: Serve, judge: TextJudge, group: Group) -> None:
    """H8: groups by phase and outcome, members, retries, refusals, judge, bodies, retention."""
    async with serve({"group.size": 4, "scoring.score_range": None}) as server:
        client = server.client
        await asyncio.gather(*map(client.verify, group.bodies()))
        failed = replace(group, name="failed", note=REJECTED)
        await asyncio.gather(*map(client.verify, failed.bodies()))
        for retried in (group, group, failed):
            await client.verify(retried.body(2))
        await client.verify(b"[]")
        await client.verify(group.body(0, response={"output": []}))
        await client.verify(Group("alone", 1).body(0))
        await client.get("/nothing")
        older = replace(group, name="older")
        async with cancelled_after([client.caller(older.body(0)), client.caller(older.body(0))]) as callers:
            await client.until_members(older.name, 1, callers=2)
            callers.append(client.caller(replace(older, attempt=1).body(3)))
            await asyncio.gather(*callers[:2])

            async def is_(expected: float, name: str, **labels: str) -> None:
                assert await client.metric(f"groupjudge_{name}", **labels) == expected, (name, labels)

            await is_(1, "active_groups", phase="collecting")
            await is_(0, "active_groups", phase="judging")
            await is_(4, "groups_formed_total")
            await is_(1, "groups_ended_total", outcome="completed")
            await is_(1, "groups_ended_total", outcome="judge_failed")
            await is_(1, "groups_ended_total", outcome="superseded")
            await is_(10, "members_total")
            await is_(1, "lone_members_total")
            await is_(1, "retries_total", reply="waits")
            await is_(2, "retries_total", reply="reward")
            await is_(1, "retries_total", reply="judge_failed")
            await is_(7, "replies_total", route="verify", code="ok")
            await is_(5, "replies_total", route="verify", code="judge_failed")
            await is_(1, "replies_total", route="verify", code="invalid_request")
            await is_(1, "replies_total", route="verify", code="answer_conflict")
            await is_(2, "replies_total", route="verify", code="group_failed")
            await is_(1, "replies_total", route="other", code="not_found")
            await is_(4, "judge_calls_total", result="verdict")
            await is_(4, "judge_tries_total", result="ok")
            await is_(1, "waiting_callers")
            await is_(2, "retained_results")
            await is_(1, "held_answers")
            await is_(17, "bodies_total")
            assert await client.metric("groupjudge_judge_try_duration_seconds_count") >= 5
            assert await client.metric("process_resident_memory_bytes") > 1 << 20
            for family in await families(client):
                check_conventions(family)


async def test_every_reply_with_usage_is_counted_in_tokens(serve: Serve) -> None:
    """H8, F12: the judge's own numbers."""
    from tests.support.judges import StubJudge, responses, verdict_text

    usage = {"input_tokens": 120, "output_tokens": 8}
    async with (
        StubJudge(by=lambda request: responses(verdict_text(), usage=usage)) as judge,
        serve({"judge.base_url": judge.base_url}) as server,
    ):
        await asyncio.gather(*map(server.client.verify, Group("g").bodies()))
        assert await server.client.metric("groupjudge_judge_tokens_total", kind="prompt") == 480
        assert await server.client.metric("groupjudge_judge_tokens_total", kind="completion") == 32


async def test_the_lag_of_the_loop_is_looked_at(serve: Serve) -> None:
    """P9: several times a second, also of an idle server."""
    from .calling import until

    async with serve() as server:

        async def looked() -> bool:
            return await server.client.metric("groupjudge_loop_lag_seconds_count") >= 3

        await until(looked)


# --- the dashboard ----------------------------------------------------------------------------------------------------

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
FUNCTIONS = {"sum", "min", "max", "by", "rate", "increase", "histogram_quantile", "label_values"}


class Query:
    """What a PromQL expression asks for. It is read by a grammar of its own for what the dashboard uses; anything else
    fails the test."""

    def __init__(self, text: str) -> None:
        self.selected: list[tuple[str, dict[str, tuple[str, str]]]] = []
        self.grouped: set[str] = set()
        rest = re.sub(rf"({NAME})?\{{([^}}]*)\}}", self._selector, text)
        rest = re.sub(r"\bby\s*\(([^)]*)\)", self._grouping, rest)
        rest = re.sub(r"\[(\$__rate_interval|\d+[smhd])\]", " ", rest)
        for name in re.findall(NAME, rest):
            if name not in FUNCTIONS:
                self.selected.append((name, {}))

    def _selector(self, match: re.Match[str]) -> str:
        assert match[1], "a selector without a name"
        matchers = {}
        for part in match[2].split(","):
            found = re.fullmatch(rf'\s*({NAME})\s*(=~|!~|!=|=)\s*"([^"]*)"\s*', part)
            assert found, part
            matchers[found[1]] = (found[2], found[3])
        self.selected.append((match[1], matchers))
        return " "

    def _grouping(self, match: re.Match[str]) -> str:
        self.grouped |= {name.strip() for name in match[1].split(",")}
        return " "

    def faults(self, shown: Series) -> Iterator[str]:
        """What the server does not show."""
        known = set(OF_PROMETHEUS)
        for name, matchers in self.selected:
            if name not in shown:
                yield f"no metric {name}"
                continue
            labels = shown[name]
            known |= labels.keys()
            for label, (sign, value) in matchers.items():
                if label not in labels.keys() | OF_PROMETHEUS:
                    yield f"{name} has no label {label}"
                elif label in labels:
                    words = value.split("|") if "~" in sign else [value]
                    yield from (f"{name}: {label} is never {word}" for word in words if word not in labels[label])
        yield from (f"no label {label} to group by" for label in self.grouped - known)


def expressions(dashboard: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The title, the expression and the legend of each query, those of the variables included."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], re.sub(r",\s*\w+\)$", ")", variable["definition"]), ""


async def test_the_dashboard_asks_only_for_what_a_server_shows(client: Client) -> None:
    """H8: every metric, label and value of a label; legends name labels that are grouped by."""
    shown = await series(client)
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    queries = list(expressions(dashboard))
    assert len(queries) > 40
    for title, expression, legend in queries:
        query = Query(expression)
        assert query.selected, title
        assert list(query.faults(shown)) == [], title
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= query.grouped, title


async def test_the_dashboard_shows_every_metric_of_the_server(client: Client) -> None:
    """H8: but the few that say the same in another way."""
    aside = {"groupjudge_judging_groups", "groupjudge_groups_formed", "groupjudge_bodies"}
    aside |= {"groupjudge_groups_judged_at_once", "groupjudge_judge_call_duration_seconds"}
    text = DASHBOARD.read_text("utf-8")
    own = {family.name for family in await families(client) if family.name.startswith("groupjudge_")}
    assert {name for name in own if not re.search(rf"\b{name}(_total|_bucket)?\b", text)} == aside


def test_the_dashboard_fits_any_data_source() -> None:
    """It is chosen when the dashboard is opened; places do not overlap, and ids are used once."""
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    assert dashboard["templating"]["list"][0]["type"] == "datasource"
    text = DASHBOARD.read_text("utf-8")
    assert set(re.findall(r'"uid": "([^"]*)"', text)) == {"${datasource}", "groupjudge"}
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        own = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not own & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= own


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ('sum(groupjudge_nothing{job="x"})', "no metric"),
        ("sum(groupjudge_nothing)", "no metric"),
        ('rate(groupjudge_groups_ended_total{phase="x"}[5m])', "no label phase"),
        ('groupjudge_groups_ended_total{outcome="complete"}', "never complete"),
        ('groupjudge_groups_ended_total{outcome!~"completed|x"}', "never x"),
        ("sum by (phase) (groupjudge_groups_ended_total)", "group by"),
    ],
)
async def test_a_fault_of_a_query_is_seen(client: Client, expression: str, fault: str) -> None:
    """A check that cannot fail proves nothing."""
    assert any(fault in each for each in Query(expression).faults(await series(client)))


async def test_the_documentation_names_every_metric_with_its_labels(client: Client) -> None:
    """docs/metrics.md: one row a metric, no row of none."""
    rows = dict(
        re.findall(r"^\| `(groupjudge_\w+)(?:\{[^}]*\})?` \| (\w+) \|", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    )
    labels = dict(re.findall(r"^\| `(groupjudge_\w+)\{([^}]*)\}`", DOCUMENT.read_text("utf-8"), re.MULTILINE))
    shown = {}
    for family in await families(client):
        if family.name.startswith("groupjudge_"):
            suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
            name = family.name if family.name.endswith(suffix) else family.name + suffix
            shown[name] = family
    assert rows.keys() == shown.keys()
    for name, family in shown.items():
        own = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert set(filter(None, labels.get(name, "").split(", "))) == own, name
        assert rows[name] == ("gauge" if family.type in ("info", "unknown") else family.type), name
