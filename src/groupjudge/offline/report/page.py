"""The page: one file that needs nothing else and asks nobody.

Answers are hostile HTML until proven otherwise. Texts reach the page in two ways only: through jinja2, which escapes
all of them, and in one block of JSON data without `<`, `>` and `&`, which the page's script puts into text nodes.
Beside that a content security policy lets no other script run and nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import math
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from groupjudge import __version__
from groupjudge.offline.about import About
from groupjudge.offline.groups import FileGroup, written
from groupjudge.offline.report.figures import figures
from groupjudge.offline.report.sample import ANSWERS_AT_MOST, OF_EACH, TEXT_AT_MOST, Sample
from groupjudge.offline.report.sums import Sums
from groupjudge.offline.report.verdicts import said
from groupjudge.offline.results import encoded
from groupjudge.offline.tally import Tally, counted

_TEMPLATES = Path(__file__).parent / "templates"
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_NOTHING = "–"
_JOINED = "\u00a0"


class Report:
    """Adds groups up, then writes the page."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._sums = Sums()
        self._sample = Sample()

    def add(self, group: FileGroup, row: dict[str, Any]) -> None:
        """One judged group with its row of the output."""
        verdicts = list(said(row, (self._about.default_score, self._about.default_ranking)))
        self._sums.add(row, verdicts, [len(written(texts)) for texts in group.texts])
        self._sample.add(group, row, verdicts)

    def page(self, tally: Tally) -> str:
        """The whole page as HTML; `tally` is that of the run which has just ended."""
        sample = self._sample.shown()
        script = (_TEMPLATES / "report.js").read_text("utf-8")
        plotly = get_plotlyjs()
        values = {
            "about": self._about,
            "sums": self._sums,
            "tally": tally,
            "sample": sample,
            "limits": {"of_each": OF_EACH, "answers": ANSWERS_AT_MOST, "characters": TEXT_AT_MOST},
            "version": __version__,
            "policy": _policy(plotly, script),
            "style": (_TEMPLATES / "report.css").read_text("utf-8"),
            "plotly": plotly,
            "script": script,
            "data": embedded({"figures": figures(self._sums), "groups": sample}),
        }
        return _environment().get_template("report.html").render(values)


def embedded(value: object) -> str:
    """JSON that may stand in a script element: no text in it ends the element or a line; NaN and infinity are
    null"""
    text = encoded(value).decode("utf-8")
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def _policy(*scripts: str) -> str:
    hashes = (base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "percent": percent, "seconds": seconds, "signed": signed}
    environment.globals["counted"] = counted
    return environment


def number(value: float | None, digits: int = 2) -> str:
    """`1,234.50`; whole numbers without a point."""
    if value is None or not math.isfinite(value):
        return _NOTHING
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def signed(value: float) -> str:
    """`+0.21`, `−0.21`, `0.00`."""
    return f"{value:+.2f}".replace("-", "−") if abs(value) >= 0.005 else "0.00"


def percent(part: float, of: float = 1) -> str:
    """`12.5 %` of something."""
    return f"{100 * part / of:.1f}{_JOINED}%" if of else _NOTHING


def seconds(value: float) -> str:
    """`0.042 s`, `1.2 s`, `75 s`."""
    if 0 < value < 0.001:
        return "< 0.001 s"
    return f"{value:.3g} s" if value < 100 else f"{value:,.0f} s"
