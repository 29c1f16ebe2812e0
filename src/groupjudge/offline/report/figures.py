"""The figures of the page, made with plotly from what was added up. No text of a file stands in them: plotly reads some
markup in labels.

Colours that carry meaning are set here and fit a light and a dark page; the page sets the rest by its own theme.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from groupjudge.offline.report.histograms import Bar, Histogram, octave_range
from groupjudge.offline.report.sums import LENGTH_PARTS, Sums

FIRST, SECOND, NEUTRAL, PALE = "#3576cf", "#bf6516", "#8b93a1", "#b4bac5"
_HEIGHT = 300


def figures(sums: Sums) -> dict[str, Any]:
    """Each figure by the id of the element that it goes into; those without anything to show are left out."""
    costs = sums.costs
    made = {
        "rewards": _bars(sums.rewards.bars(), "reward", "answers"),
        "spreads": _bars(sums.spreads.bars(), "best reward less worst, within a group", "groups"),
        "seats": _shares(sums),
        "lengths": _by_length(sums),
        "latency": _bars(costs.try_s.bars(), "seconds a request", "requests", log=True),
        "tokens": _bars(costs.tokens.bars(), "tokens a group", "groups", log=True),
    }
    return {name: _plain(figure) for name, figure in made.items() if figure is not None}


def _plain(figure: Any) -> Any:
    """The figure as JSON values, without plotly's own theme."""
    figure.update_layout(template=None)
    return json.loads(figure.to_json())


def _figure(x: str, y: str, **layout: Any) -> Any:
    figure = go.Figure()
    figure.update_layout(height=_HEIGHT, margin={"l": 60, "r": 16, "t": 12, "b": 48}, **layout)
    figure.update_xaxes(title=x)
    figure.update_yaxes(title=y)
    return figure


def _bars(bars: Sequence[Bar], x: str, y: str, *, log: bool = False) -> Any | None:
    """A histogram. On a logarithmic axis plotly wants a bar's middle as it looks, and its width in true units."""
    if not bars:
        return None
    figure = _figure(x, y, bargap=0, showlegend=False)
    figure.add_bar(
        x=[bar.left for bar in bars],
        width=[bar.right - bar.left for bar in bars],
        offset=0,
        y=[bar.amount for bar in bars],
        customdata=[[bar.left, bar.right] for bar in bars],
        hovertemplate=f"%{{customdata[0]:.4~g}} to %{{customdata[1]:.4~g}}: %{{y:,}} {y}<extra></extra>",
        marker={"color": FIRST, "line": {"width": 0}},
    )
    if max(bar.amount for bar in bars) <= 5:
        figure.update_yaxes(dtick=1)
    if log:
        _log_axis(figure, bars[0].left, bars[-1].right)
    else:
        margin = (bars[-1].right - bars[0].left) / 40
        figure.update_xaxes(range=[bars[0].left - margin, bars[-1].right + margin])
    return figure


def _log_axis(figure: Any, low: float, high: float) -> None:
    """Ticks at 1, 2, 5, 10, ...; more of them on a short axis, every power of ten alone on a long one."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps: tuple[float, ...] = (1, 2, 5) if high < 1000 * low else (1,)
    if high < 5 * low:
        steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    ticks = [step * 10.0**power for power in powers for step in steps]
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:,.10g}" for tick in ticks])


def _shares(sums: Sums) -> Any | None:
    """Three bars of 100 %: the seats, both orders, how verdicts came about."""
    seats = sums.seats
    if not seats.all:
        return None
    parts = [
        ("decided", [("the first-shown won", seats.first, FIRST), ("the second won", seats.second, SECOND)]),
        (
            "both orders",
            [
                ("same answer", seats.same, FIRST),
                ("other answer", seats.other, SECOND),
                ("one a tie", seats.unsure, PALE),
            ],
        ),
        (
            "all",
            [
                ("by scores", seats.first + seats.second - seats.by_ranking, FIRST),
                ("by tie-break", seats.by_ranking, SECOND),
                ("tie", seats.ties, PALE),
                ("default scores", seats.defaults, NEUTRAL),
            ],
        ),
    ]
    figure = _figure("", "", barmode="stack", showlegend=False)
    for name, shares in reversed(parts):
        total = sum(count for _, count, _ in shares)
        for label, count, colour in shares:
            if count:
                _add_share(figure, name, label, count, total, colour)
    ticks = [0, 25, 50, 75, 100]
    figure.update_xaxes(range=[0, 100], tickvals=ticks, ticktext=[f"{tick} %" for tick in ticks])
    figure.update_layout(margin={"r": 36}, uniformtext={"mode": "hide", "minsize": 9})
    figure.update_yaxes(automargin=True)
    figure.add_vline(x=50, line={"width": 1, "dash": "dot", "color": NEUTRAL})
    return figure


def _add_share(figure: Any, bar: str, label: str, count: int, total: int, colour: str) -> None:
    share = 100 * count / total
    figure.add_bar(
        y=[bar],
        x=[share],
        orientation="h",
        marker={"color": colour, "line": {"width": 0}},
        text=[f"{label}<br>{share:.1f} %"] if share >= 8 else None,
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        textfont={"color": "#ffffff" if colour in (FIRST, SECOND) else "#1b1f27"},
        hovertemplate=f"{label}: {count:,} of {total:,} ({share:.1f} %)<extra></extra>",
    )


def _by_length(sums: Sums) -> Any | None:
    """Mean reward by answer length, between the quartiles; a dot's area is how many answers there are."""
    points = [
        (octave_range(key, LENGTH_PARTS), found) for key, found in sorted(sums.lengths.by_length.items()) if key >= 0
    ]
    if not points:
        return None
    middles = [(left * right) ** 0.5 for (left, right), _ in points]
    found = [histogram for _, histogram in points]
    figure = _figure("characters of the answer", "reward", showlegend=False)
    upper, lower = ([histogram.quantile(share) for histogram in found] for share in (0.75, 0.25))
    line = {"width": 0, "color": FIRST}
    figure.add_scatter(x=middles, y=upper, mode="lines", line=line, hoverinfo="skip")
    figure.add_scatter(
        x=middles, y=lower, mode="lines", line=line, fill="tonexty", fillcolor="rgba(53,118,207,0.22)", hoverinfo="skip"
    )
    figure.add_scatter(
        x=middles,
        y=[histogram.extent.mean for histogram in found],
        mode="lines+markers",
        line={"color": FIRST, "width": 2},
        marker={"color": FIRST, "size": _dots(found)},
        customdata=[[round(left), round(right), h.extent.count] for (left, right), h in points],
        hovertemplate="%{customdata[0]:,} to %{customdata[1]:,} characters: mean %{y:.3f} of %{customdata[2]:,} answers"
        "<extra></extra>",
    )
    _log_axis(figure, middles[0], middles[-1])
    return figure


def _dots(found: Sequence[Histogram]) -> list[float]:
    most = max(histogram.extent.count for histogram in found)
    return [5 + 17 * (histogram.extent.count / most) ** 0.5 for histogram in found]
