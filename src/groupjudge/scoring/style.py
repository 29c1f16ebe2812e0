"""How much of an answer is decoration (J17).

Every pattern reads an answer in linear time, whatever it holds: each is tied to a line start or a marker, and its
repeats are possessive or give back only what the next item cannot match. The newline is left out of an indent for the
same reason: else each empty line of a long run would scan all that follow it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from groupjudge.scoring.centering import centred_weights
from groupjudge.scoring.rules import Emoji

_FENCED_BLOCK = re.compile(r"```.*?```", re.DOTALL)
_MARKDOWN = (
    re.compile(r"^#{1,6}\s", re.MULTILINE),
    re.compile(r"^[^\S\n]*+(?:\d++\.|[-*+])\s", re.MULTILINE),
    re.compile(r"\*\*[^*\n]++\*\*"),
    re.compile(r"__[^_\n]++__"),
)
_PICTOGRAPHS = "\U0001f600-\U0001f64f\U0001f300-\U0001f5ff\U0001f680-\U0001f6ff\U0001f1e0-\U0001f1ff\u2702-\u27b0"
_EMOJI: dict[Emoji, re.Pattern[str]] = {
    "strict": re.compile(f"[{_PICTOGRAPHS}]"),
    # The last range holds CJK and Hangul too. It is the reference's formula, kept so that rewards compare.
    "reference": re.compile(f"[{_PICTOGRAPHS}\u24c2-\U0001f251]"),
}


def style_density(answer: str, emoji: Emoji) -> float:
    """Style elements per character, in an answer without its fenced blocks; 0 where nothing else is in it.

    Elements are headers, list items, bold spans and emoji code points; the length is that of the stripped text.
    """
    prose = _FENCED_BLOCK.sub("", answer)
    length = len(prose.strip())
    return _elements(prose, emoji) / length if length else 0.0


def _elements(prose: str, emoji: Emoji) -> int:
    return sum(pattern.subn("", prose)[1] for pattern in (*_MARKDOWN, _EMOJI[emoji]))


def style_weights(answers: Sequence[str], emoji: Emoji) -> list[float]:
    """The zero-centred weights of the answers' densities: plainer is higher."""
    return centred_weights([style_density(answer, emoji) for answer in answers])
