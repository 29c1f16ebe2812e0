import re

import pytest
from hypothesis import given

from groupjudge.scoring import style
from groupjudge.scoring.rules import Emoji
from groupjudge.scoring.style import style_density, style_weights

from .strategies import styled_texts
from .twin import density


def elements(answer: str, emoji: Emoji = "reference") -> int:
    """How many style elements an answer without fenced blocks has."""
    return round(style_density(answer, emoji) * len(answer.strip()))


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        ("# one", 1),
        ("###### six", 1),
        ("####### seven", 0),
        ("#none", 0),
        ("a # b", 0),
        (" # indented", 0),
        ("#\n#\nx", 2),
        ("x\n#", 0),
        ("- a\n* b\n+ c", 3),
        ("  - a\n\t* b\n\n\n  + c", 3),
        ("-a", 0),
        ("1. a\n22. b\n 3. c", 3),
        ("1.a 1) b", 0),
        ("a - b", 0),
        ("-\n-\nx", 2),
        ("**b**", 1),
        ("** b **", 1),
        ("__b__ **c**", 2),
        ("**__b__**", 2),
        ("**a\nb**", 0),
        ("****", 0),
        ("**a*b**", 0),
        ("**a__b**", 1),
        ("__a_b__", 0),
        ("**a**b**", 1),
        ("\U0001f600\U0001f64f\U0001f300\U0001f5ff\U0001f680\U0001f6ff\U0001f1e0\U0001f1ff\u2702\u27b0", 10),
        ("\U0001f650\U0001f67f\U0001f700\U0001f252\U0001f2ff\u24c1", 0),
    ],
)
def test_elements_are_counted_as_the_formula_says(answer: str, count: int) -> None:
    """J17."""
    assert elements(answer) == count


@pytest.mark.parametrize("char", ["\u24c2", "漢", "한", "\U0001f251", "\U00010000", "\u2701", "\u27b1"])
def test_the_widest_emoji_range_counts_in_the_reference_formula_only(char: str) -> None:
    """J17."""
    assert elements(char, "reference") == 1
    assert elements(char, "strict") == 0


@pytest.mark.parametrize(
    "char", "\U0001f600\U0001f64f\U0001f300\U0001f5ff\U0001f680\U0001f6ff\U0001f1e0\U0001f1ff\u2702\u27b0"
)
def test_other_emoji_count_in_both(char: str) -> None:
    """J17: and once, though two ranges hold some of them."""
    assert elements(char, "strict") == elements(char, "reference") == 1


def test_fenced_blocks_count_neither_as_elements_nor_as_length() -> None:
    """J17."""
    assert style_density("- a ```\n- b\n# c\n``` ```- d```", "reference") == 1 / 3
    assert style_density("```\n- b\n```", "reference") == 0.0


def test_a_block_that_is_never_closed_is_text() -> None:
    """J17 takes away blocks; half a block is none."""
    assert elements("```\n- b") == 1


def test_density_is_over_the_stripped_length() -> None:
    """J17."""
    assert style_density("\n\n# head   \n", "reference") == 1 / 6
    assert style_density("", "reference") == style_density(" \n ", "reference") == 0.0


def test_plainer_answers_weigh_more() -> None:
    """J17."""
    assert style_weights(["plain", "**bold**"], "reference") == [0.5, -0.5]


def test_weights_hang_on_the_kind_of_emoji_that_counts() -> None:
    """J17."""
    assert style_weights(["漢字", "kanji"], "reference") == [-0.5, 0.5]
    assert style_weights(["漢字", "kanji"], "strict") == [0.0, 0.0]


@given(styled_texts)
def test_density_equals_that_of_a_twin_without_patterns(answer: str) -> None:
    """J17."""
    assert style_density(answer, "reference") == pytest.approx(float(density(answer, strict=False)), abs=1e-12)
    assert style_density(answer, "strict") == pytest.approx(float(density(answer, strict=True)), abs=1e-12)


HOSTILE = [
    "*",
    "**a",
    "_",
    "__a",
    "`",
    "```a",
    "#",
    "\n",
    "\r",
    " ",
    "\n ",
    "1",
    "1\n",
    "- ",
    "*a",
    "__**",
    "\t#",
    "\u2702",
]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("tail", ["x", "\nx", "**", "1", "```"])
def test_a_long_run_of_one_piece_are_read_to_the_end(piece: str, tail: str) -> None:
    """J17. A pattern that backtracks would not end for some of these."""
    answer = "x" + piece * (100_000 // len(piece)) + tail
    assert 0 <= style_density(answer, "reference") <= 1


def _patterns() -> list[re.Pattern[str]]:
    return [style._FENCED_BLOCK, *style._MARKDOWN, *style._EMOJI.values()]


def test_no_pattern_repeats_a_repeat() -> None:
    """What makes a pattern exponential is a repeat within a repeat; none is there to begin with."""
    for pattern in _patterns():
        assert not re.search(r"[*+?}]\)[*+{]", pattern.pattern), pattern.pattern
