"""The page as text: what it may hold and what not."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from plotly import graph_objects as go

from groupjudge.errors import ConfigurationError
from groupjudge.offline.about import About
from groupjudge.offline.groups import FileGroup, read_groups
from groupjudge.offline.report.figures import figures
from groupjudge.offline.report.page import Report, embedded, number, seconds, signed
from groupjudge.offline.report.sums import Sums
from groupjudge.offline.report.verdicts import said
from groupjudge.offline.tally import Tally
from groupjudge.offline.usage import Usage

from ..test_judging_files import GROUPS, Judge, play, write

RULES = json.dumps({"judge": {"model": "<m>"}, "scoring": {"default_score": 3.0, "default_ranking": 3.5}})
HOSTILE = "</script><!--<script>alert(1)</script><img src=x onerror=alert(1)>\u2028{{ 7 * 7 }}&lt;"


class Elements(HTMLParser):
    """The elements of a page, and what stands in its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.handlers: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attributes if name.startswith("on") or name in ("src", "href")]
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script" and self.scripts:
            self.scripts[-1] += data


def page_of(*rows: tuple[dict[str, object], dict[str, object]], tally: Tally | None = None) -> str:
    report = Report(About.of("<b>in</b>", RULES))
    for number_, (question, row) in enumerate(rows, 1):
        (group,) = read_groups([json.dumps(question).encode()], 2, 16)
        assert isinstance(group, FileGroup)
        report.add(group._replace(lines=(number_,)), {"verdicts": [], **row})
    return report.page(tally or Tally())


def test_hostile_texts_stay_texts() -> None:
    """Issue: answers are hostile HTML until proven otherwise; so are ids, questions, judge replies and the file's
    name: the page has the same elements as with harmless texts, and asks for nothing."""

    def page(text: str) -> Elements:
        tally = Tally()
        tally.failures.add(3, text, text, Usage())
        question = {"question": text, "answers": [text, "b"], "id": text}
        return Elements(
            page_of((question, {"rewards": [1.0, 2.0], "failure_kind": "d", "failure_reason": text}), tally=tally)
        )

    hostile, harmless = page(HOSTILE), page("harmless")
    assert hostile.tags == harmless.tags
    assert hostile.handlers == []
    assert len(hostile.scripts) == 3
    group = json.loads(hostile.scripts[0])["groups"][0]
    assert group["members"][1]["answer"] == group["question"][0]["content"] == group["id"] == group["note"] == HOSTILE


def test_data_in_a_script_element_ends_neither_it_nor_a_line() -> None:
    """Issue: embedded safely: `</script>`, U+2028, NaN, half a surrogate pair."""
    text = embedded([HOSTILE, float("nan"), float("inf"), "\ud800"])
    assert not set("<>&\u2028\u2029\n") & set(text)
    assert json.loads(text) == [HOSTILE, None, None, "\ufffd"]


def test_no_script_but_the_pages_own_may_run() -> None:
    """A second wall, should a text get through the first."""
    page = page_of()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src &#39;none&#39;" in policy
    assert policy.count("sha256-") == 2
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]


def test_a_file_without_a_judged_group_has_a_page_too() -> None:
    """Of its failures."""
    tally = Tally()
    tally.failures.add(1, "transport (ClientConnectorError) after 4 tries", "cannot connect", Usage())
    page = page_of(tally=tally)
    assert "No group has been judged yet" in page
    assert "cannot connect" in page


def test_rows_of_older_versions_are_read() -> None:
    """H14: what they do not say is said to be unknown."""
    page = page_of(({"question": "?", "answers": ["a", "b"]}, {"rewards": [1.0, 2.0]}))
    assert "1 group of the output came from a version that did not record latency and tokens" in page


def test_what_rows_say_of_their_certainty_is_shown() -> None:
    """F4, F6: standard errors, cycles, calls saved, and whether a group is flat; null where there were no verdicts."""
    measures = {"cycles": 1, "triples": 4, "calls_saved": 3, "is_flat": True}
    question = {"question": "?", "answers": ["a", "b", "c"]}
    verdicts = [{"i": 0, "j": 1, "score_1": 2, "score_2": 3, "ranking": 5}]
    row = {"rewards": [1.0, 1.0, 1.0 + 1e-12], "verdicts": verdicts}
    sure = {"standard_errors": [0.5, None, 0.25], "measures": measures}
    page = page_of((question, row | sure), (question, row | {"standard_errors": None, "measures": None}))
    shown = dict(re.findall(r'<dd id="([\w-]+)">([^<]*)</dd>', page))
    assert {name: shown[name] for name in ("error", "cycles", "saved", "level")} == {
        "error": "0.25",
        "cycles": "25.0\u00a0%",
        "saved": "3",
        "level": "1",
    }
    assert "by −1.00 points on average" in page
    errors = [
        [member["error"] for member in group["members"]] for group in json.loads(Elements(page).scripts[0])["groups"]
    ]
    assert errors == [[0.25, 0.5, None], [None] * 3]
    assert "error" not in dict(re.findall(r'<dd id="([\w-]+)">([^<]*)</dd>', page_of((question, row))))


def test_a_page_of_many_groups_is_no_larger_than_one_of_some() -> None:
    """Issue: a million groups must not make a page of gigabytes."""

    def size(count: int) -> int:
        text = "x" * 5000
        question = {"question": text, "answers": [text] * 16}
        verdicts = [{"i": i, "j": (i + 1) % 16, "score_1": i % 5, "score_2": 2, "ranking": 3} for i in range(16)]
        row = {"rewards": [float(slot) for slot in range(16)], "verdicts": verdicts}
        return len(page_of(*[(question, row)] * count))

    assert size(300) < 1.2 * size(80)


def test_figures_are_what_plotly_takes() -> None:
    """Each has data, none a text of the file, and plotly's own check finds nothing."""
    sums = Sums()
    row = {
        "rewards": [1.0, 2.0],
        "verdicts": [{"i": 0, "j": 1, "score_1": 1, "score_2": 2, "ranking": 5}],
        "judge": Usage(1, try_s=[0.5, 0.7], reported=1, prompt_tokens=5).row(),
    }
    sums.add(row, list(said(row, (3.0, 3.5))), [10, 0])
    made = figures(sums)
    assert set(made) == {"rewards", "spreads", "seats", "lengths", "latency", "tokens"}
    for figure in made.values():
        assert go.Figure(figure).data
    assert figures(Sums()) == {}


@pytest.mark.parametrize(
    ("value", "shown"), [(1234, "1,234"), (1234.5, "1,234.50"), (None, "–"), (float("nan"), "–"), (-0.5, "-0.50")]
)
def test_numbers_are_written_for_people(value: float | None, shown: str) -> None:
    """With thousands apart; what is no number is a dash."""
    assert number(value) == shown
    assert [seconds(value) for value in (0, 9e-5, 0.01234, 1.5, 1234.0)] == [
        "0 s",
        "< 0.001 s",
        "0.0123 s",
        "1.5 s",
        "1,234 s",
    ]
    assert [signed(value) for value in (0.0, -1e-9, 0.214, -0.214)] == ["0.00", "0.00", "+0.21", "−0.21"]


async def test_the_page_is_written_beside_the_rewards(tmp_path: Path) -> None:
    """H14: `--report`: in one pass with the pairs, and again on a run that judges nothing."""
    source, out, report = write(tmp_path / "in", GROUPS), tmp_path / "out", tmp_path / "report.html"
    clean, said_ = await play(Judge(), source, out, report=report, rules=RULES)
    assert clean
    assert f"report in {report}" in said_
    first = report.read_text()
    assert '<dd id="groups">3</dd>' in first
    await play(Judge(), source, out, report=report, rules=RULES)
    assert '<dd id="groups">3</dd>' in report.read_text()


async def test_a_report_that_cannot_be_written_is_refused_before_judging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H13: a missing directory, another file's name, a missing extra: nothing is asked of the judge for nothing."""
    source, out, judge = write(tmp_path / "in", GROUPS), tmp_path / "out", Judge()
    with pytest.raises(ConfigurationError, match="no such directory"):
        await play(judge, source, out, report=tmp_path / "missing" / "report.html", rules=RULES)
    with pytest.raises(ConfigurationError, match="different files"):
        await play(judge, source, out, report=out, rules=RULES)
    for name in [name for name in sys.modules if name.startswith("groupjudge.offline.report")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'groupjudge\[report\]'"):
        await play(judge, source, out, report=tmp_path / "report.html", rules=RULES)
    assert judge.asked == []
