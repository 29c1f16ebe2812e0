"""The report of `groupjudge judge --report` in a browser, for a run whose numbers can be told by hand (H14, F4)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect
from rich.console import Console

from groupjudge.errors import JudgeFailed
from groupjudge.judging.judge import JudgeCall
from groupjudge.judging.panel import Panel, PanelRules
from groupjudge.model import AnswerTexts, Pair, Reading, Topic
from groupjudge.offline.command import Request
from groupjudge.offline.command import run as judge_file
from groupjudge.offline.usage import UsageEvents

from .conftest import Browser

HOSTILE = "</script><script>alert(1)</script><img src=http://127.0.0.1:9/x onerror=alert(2)>\u2028 &lt;b&gt;"
RULES = json.dumps({"judge": {"format": "template"}, "scoring": {"default_score": 3.0, "default_ranking": 3.5}})

# Of each question two answers; circular judges both orders. What the judge says of (first, second) and (second, first):
SAID: dict[str, tuple[Reading | None, Reading | None]] = {
    "steady": (Reading(5, 1, 1), Reading(1, 5, 6)),  # the same answer both times
    "first": (Reading(4, 2, 2), Reading(4, 2, 2)),  # whichever is shown first
    "tie-break": (Reading(3, 3, 2), Reading(3, 3, 5)),  # by ranking, the same answer
    "tie": (Reading(3, 3, 3.5), Reading(2, 4, 5)),  # one a tie
    "default": (None, Reading(2, 4, 5)),
    HOSTILE: (Reading(4, 1, 1), Reading(1, 4, 6)),
}


class Scripted:
    """A judge that says what `SAID` has, and takes half a second and 100 + 10 tokens for it."""

    def __init__(self) -> None:
        self.events = UsageEvents()

    def prepare(self, topic: Topic, texts: Sequence[AnswerTexts]) -> str:
        return topic.conversation[0].content

    async def compare(self, prepared: str, pair: Pair) -> JudgeCall:
        self.events.tried("ok", 200, 0.5)
        self.events.used(100, 10)
        if prepared == "fails":
            raise JudgeFailed(f"it said {HOSTILE}", "transport (status 503) after 4 tries")
        return JudgeCall(SAID[prepared][pair.i], "could not be read")

    async def reachable(self) -> str | None:
        return None

    async def close(self) -> None: ...


@pytest.fixture
async def report(tmp_path: Path) -> str:
    """The address of the page."""
    rows = [{"id": name, "question": name, "answers": [f"{name} A", f"{name} B" * 3]} for name in (*SAID, "fails")]
    source, path = tmp_path / "answers.jsonl", tmp_path / "report.html"
    source.write_text("no JSON\n" + "".join(json.dumps(row) + "\n" for row in rows))
    judge = Scripted()
    panel = Panel(judge, PanelRules("p", on_unreadable="default_scores"), judge.events)
    request = Request(str(source), tmp_path / "out", 2, 16, report=path, rules=RULES)
    await judge_file(request, panel.judge, Console(quiet=True))
    return path.as_uri()


async def text(page: Page, name: str) -> str:
    return (await page.locator(f"#{name}").inner_text()).strip()


async def test_the_numbers_are_those_of_the_run(browser: Browser, report: str) -> None:
    """F4, H14: six groups of two answers with 12 verdicts, of which one is a default and one a tie. Of the ten others
    the first seat won five (steady, first twice, tie-break, hostile); two were tie-breaks. Of the five pairs with a
    verdict in both orders three agree (steady, tie-break, hostile)."""
    page = await browser.open(report)
    expected = {
        "groups": "6",
        "verdicts": "12",
        "failed": "1",
        "bad-lines": "1",
        "default-scores": "1",
        "level": "1",
        "first-share": "50.0\u00a0%",
        "agree": "60.0\u00a0%",
        "tie-breaks": "16.7\u00a0%",
        "ties": "8.3\u00a0%",
        "latency-median": "0.5 s",
        "prompt-tokens": "1,200",
        "completion-tokens": "120",
    }
    assert {name: await text(page, name) for name in expected} == expected


async def test_the_figures_hold_the_numbers(browser: Browser, report: str) -> None:
    """H14: what plotly has drawn, not only what it was given."""
    page = await browser.open(report)
    for name in ("rewards", "spreads", "seats", "lengths", "latency", "tokens", "matrix"):
        assert await page.locator(f"#plot-{name} .main-svg").count() > 0, name
    drawn = "id => document.getElementById(id).data.map(trace => [...trace.y].reduce((a, b) => a + b, 0))"
    assert await page.evaluate(drawn, "plot-rewards") == [12]
    assert await page.evaluate(drawn, "plot-spreads") == [6]
    assert await page.evaluate(drawn, "plot-latency") == [12]
    assert await page.locator("#plot-rewards .bars .point path").count() > 0


async def test_a_chosen_group_is_shown_with_its_matrix(browser: Browser, report: str) -> None:
    """H14: answers side by side from the best to the worst, each verdict in its cell."""
    page = await browser.open(report)
    names = await page.locator("#chooser option").all_inner_texts()
    assert names[:2] == ["line 2 (steady)", "line 3 (first)"]
    assert len(names) == 6
    assert (await text(page, "sample-note")).startswith("All groups of the run are kept in this page.")
    await page.select_option("#chooser", label="line 3 (first)")
    assert await page.locator(".answer h4").all_inner_texts() == ["#0\n3.00 ± 1.00", "#1\n3.00 ± 1.00"]
    assert await text(page, "question") == "user\nfirst"
    z = await page.evaluate("document.getElementById('plot-matrix').data[0].z")
    assert z == [[None, 2], [2, None]]
    assert await page.locator("#plot-matrix .heatmaplayer .heatmap-label").all_text_contents() == ["4.0 : 2.0"] * 2
    await page.click("#previous")
    assert await page.locator(".answer h4").all_inner_texts() == ["#0\n5.00 ± 0.00", "#1\n1.00 ± 0.00"]
    assert await page.locator(".answer pre").all_inner_texts() == ["steady A", "steady Bsteady Bsteady B"]
    await page.click("#next")
    await page.click("#next")
    assert await text(page, "question") == "user\ntie-break"
    await page.select_option("#chooser", label="line 5 (tie)")
    assert await page.evaluate("document.getElementById('plot-matrix').data[0].z") == [[None, 0], [-2, None]]


async def test_hostile_texts_are_shown_as_they_are(browser: Browser, report: str) -> None:
    """Issue: in the chooser, the question, the answers and the failures; nothing runs and nothing is loaded."""
    page = await browser.open(report)
    await page.select_option("#chooser", label=f"line 7 ({HOSTILE})"[:100])
    assert await page.locator("#question pre").text_content() == HOSTILE
    assert await page.locator(".answer pre").first.text_content() == f"{HOSTILE} A"
    assert HOSTILE in (await page.locator("#failures td.text").text_content() or "")
    assert await page.evaluate("[document.images.length, document.scripts.length]") == [0, 3]


@pytest.mark.parametrize("width", [390, 1280])
async def test_the_page_fits_the_window(browser: Browser, report: str, width: int) -> None:
    """On a telephone too: nothing but the answers is scrolled sideways."""
    page = await browser.open(report, width=width)
    assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_the_page_follows_the_theme(browser: Browser, report: str) -> None:
    """Light and dark, also when it changes while the page is open; figures follow."""
    page = await browser.open(report, color_scheme="dark")
    ink = "getComputedStyle(document.querySelector('#plot-rewards .xtitle')).fill"

    async def colours() -> Any:
        return await page.evaluate(f"[getComputedStyle(document.body).backgroundColor, {ink}]")

    dark = await colours()
    await page.emulate_media(color_scheme="light")
    # Not `wait_for_function`: what it looks at again and again, the page's policy keeps it from evaluating.
    await expect(page.locator("#plot-rewards .xtitle")).to_have_css("fill", "rgb(27, 31, 39)")
    light = await colours()
    assert (dark, light) == (["rgb(20, 23, 28)", "rgb(231, 234, 240)"], ["rgb(246, 247, 249)", "rgb(27, 31, 39)"])


async def test_the_policy_lets_no_foreign_script_run(browser: Browser, report: str) -> None:
    """The second wall stands: a script that gets into the page is refused."""
    page = await browser.open(report)
    await page.evaluate(
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)"
    )
    assert await page.evaluate("window.ran") is None
    assert any("Content Security Policy" in each for each in browser.complaints)
    browser.complaints.clear()
