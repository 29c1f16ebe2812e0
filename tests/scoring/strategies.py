"""Groups to score, for hypothesis: texts full of style, verdicts with many ties, rules of every kind."""

from __future__ import annotations

from functools import partial

from hypothesis import strategies as st

from groupjudge.model import AnswerTexts, Verdict
from groupjudge.scoring import ScoringRules
from groupjudge.scoring.aggregators import AGGREGATORS

_PIECES = (
    *("# ", "#", "####### ", "- ", "-", "* ", "+ ", "1. ", "12.", "٣. ", "**", "*", "__", "_", "```", "`", "\n", " "),
    *(
        "\t",
        "\u00a0",
        "\u2028",
        "\r",
        "a",
        "bc",
        "x y",
        "\U0001f600",
        "\u2728",
        "漢",
        "한",
        "\U0001f9e0",
        "1",
        "\U0001f1e6",
    ),
)
styled_texts = st.lists(st.sampled_from(_PIECES), max_size=25).map("".join)
numbers = st.one_of(
    st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0]), st.floats(1, 5), st.floats(-1e6, 1e6), st.sampled_from([0.1, 0.2, 0.3])
)
_weights = st.one_of(st.just(0.0), st.floats(0.01, 3))

aggregators = st.sampled_from(sorted(AGGREGATORS))

_rules = partial(
    st.builds,
    ScoringRules,
    default_score=st.floats(-10, 10),
    reasoning_bonus=_weights,
    answer_bonus=_weights,
    top_percentile=st.floats(0, 1),
    reasoning_length_penalty=_weights,
    answer_length_penalty=_weights,
    style_penalty=_weights,
    emoji=st.sampled_from(["reference", "strict"]),
)

rules = _rules()
any_rules = _rules(aggregator=aggregators)


@st.composite
def groups(draw: st.DrawFn, min_size: int = 1) -> tuple[list[AnswerTexts], list[Verdict]]:
    texts = draw(st.lists(st.builds(AnswerTexts, styled_texts, styled_texts), min_size=min_size, max_size=6))
    slots = st.integers(0, len(texts) - 1)
    seats = st.tuples(slots, slots).filter(lambda pair: pair[0] != pair[1]) if len(texts) > 1 else st.nothing()
    verdicts = draw(
        st.lists(st.tuples(seats, st.integers(0, 2), numbers, numbers, numbers), max_size=12 if len(texts) > 1 else 0)
    )
    tied = draw(st.lists(st.booleans(), min_size=len(verdicts), max_size=len(verdicts)))
    return texts, [
        Verdict(*pair, judge, first, first if tie else second, ranking)
        for (pair, judge, first, second, ranking), tie in zip(verdicts, tied, strict=True)
    ]
