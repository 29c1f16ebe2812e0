"""How the model that comes with the embedded judge grades an answer.

Gemma 3 270M is a base model: it was trained to continue texts, not to follow orders, so what it writes when it is asked
for a verdict is worth little. But it can be read. Two things are, and added:

- its grade: after a few graded answers comes the one in question, up to the place where its grade stands; the log-odds
  of `correct` against `wrong` there;
- how much it expected the answer: after a few questions with good answers comes the one in question, and the mean
  log-probability of the answer's first tokens shows whether they are what one says to that question.

The first sees tone and sense, the second facts and fluency; each alone is right less often. Every answer is graded for
itself: no answer has a seat, so there is no bias for one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from groupjudge.judging.local_texts import disarmed, indented, printable, shortened, shortened_conversation
from groupjudge.judging.template import MIDDLE, Range
from groupjudge.model import Reading, Topic

Likely = Sequence[tuple[str, float]]
"""The likeliest next words with their log-probabilities."""

QUESTION_SHOWN: Final = 1000
ANSWER_SHOWN: Final = 1500
"""In characters; the middle of a longer text is left out."""
WORDS_SHOWN: Final = 300
"""In characters: the start of an answer that is compared with what was to be expected. Only its first tokens are."""
FREE_SCORES: Final[Range] = (1.0, 5.0)
FREE_RANKING: Final[Range] = (1.0, 6.0)
"""The ranges where none is configured."""

# Fitted on the tuning pairs of benchmarks/embedded_judge.py, and on nothing else: the log-odds and the mean
# log-probability of a middling answer, what the second counts beside the first, and how steeply scores follow.
_MIDDLING_ODDS: Final = 1.05
_MIDDLING_EXPECTED: Final = -4.17
_WEIGHT_EXPECTED: Final = 0.4
_STEEPNESS: Final = 1.1
_FLOOR: Final = -12.0
"""No token counts as less expected than this: one odd word is not the whole answer."""
_UNLIKELY: Final = 1e-6
"""The probability of a word that is not among the likeliest."""


class Prompts(NamedTuple):
    """What the model is given for one answer: a text that its grade follows, a text that the answer follows, and the
    answer's first words."""

    graded: str
    told: str
    words: str


_PAIRS = (
    ("What is the capital of Italy?", "The capital of Italy is Rome.", "The capital of Italy is Tokyo."),
    (
        "How do I make tea?",
        "Pour boiling water over tea leaves, wait three minutes and take the leaves out.",
        "The moon is far away and cars are fast.",
    ),
    ("What is 7 times 6?", "7 times 6 is 42.", "7 times 6 is 13."),
    ("What do bees make?", "Bees make honey and wax.", "bees the of make xx bzz qqq of of"),
    ("Name two colours.", "Red and blue.", "I can't help with that."),
    (
        "Is the sun hot?",
        "Yes, the surface of the sun is about 5500 degrees Celsius hot.",
        "No, the sun is a cold lake.",
    ),
    (
        "Write a Python function that doubles a number.",
        "def double(n):\n    return n * 2",
        "def double(n):\n    return 'hello'",
    ),
    (
        "Give me a tip for saving water.",
        "Take short showers and turn off the tap while you brush your teeth.",
        "Water.",
    ),
    (
        "Who painted the Mona Lisa?",
        "Leonardo da Vinci painted the Mona Lisa.",
        "The Mona Lisa was painted by Elvis Presley.",
    ),
    (
        "How do I get to sleep on a plane?",
        "Take a neck pillow, earplugs and an eye mask, and avoid coffee before the flight.",
        "Plane plane plane plane plane plane plane plane.",
    ),
    (
        "I lost my keys. What should I do?",
        "Go back over where you were last, check pockets and bags, and ask at the lost property office.",
        "You are an idiot. Go away.",
    ),
    ("Translate 'cat' into German.", '"Cat" in German is "Katze".', "I like pizza with mushrooms."),
)
"""Questions with a good and a bad answer each; the bad ones are bad in different ways."""

_ORDER = "0- 1- 2+ 3+ 4+ 5- 6+ 7- 8+ 9+ 10- 11- 2- 0+ 1+ 6- 10+ 11+ 5+ 9- 3- 8- 4- 7+"
"""The graded examples: the number of a pair, and which of its answers."""
_TOLD = 5
"""So many questions with good answers come before the one whose answer is compared with what was to be expected."""
_GRADED_FORM = "Q: {q}\nA: {a}\nTeacher's comment: The answer is"
_TOLD_FORM = "Question: {q}\nAnswer:"
_GOOD, _BAD = "correct", "wrong"


def _graded_example(word: str) -> str:
    question, good, bad = _PAIRS[int(word[:-1])]
    is_good = word.endswith("+")
    form = _GRADED_FORM.format(q=question, a=good if is_good else bad)
    return f"{form} {_GOOD if is_good else _BAD}\n\n"


_GRADED_START = "".join(map(_graded_example, _ORDER.split()))
_TOLD_START = "".join(f"{_TOLD_FORM.format(q=question)} {good}\n\n" for question, good, _ in _PAIRS[:_TOLD])
STARTS: Final = (_GRADED_START, _TOLD_START)
"""What all prompts of each kind begin with."""


def prompts(topic: Topic, answer: str, scale: float = 1.0) -> Prompts:
    """The prompts for one answer. `topic` and `answer` are clean; of each text at most the shown length times `scale`
    (above 0, at most 1) goes in, with its middle left out."""
    question = asked(topic, max(20, int(QUESTION_SHOWN * scale)))
    shown = indented(disarmed(shortened(answer, max(20, int(ANSWER_SHOWN * scale)))))
    graded = _GRADED_START + _GRADED_FORM.format(q=question, a=shown)
    return Prompts(graded, _TOLD_START + _TOLD_FORM.format(q=question), " " + printable(answer[:WORDS_SHOWN]))


def asked(topic: Topic, limit: int) -> str:
    """The conversation, and the principle where there is one, as the text of one question."""
    messages = shortened_conversation(topic.conversation, limit)
    if len(messages) == 1:
        texts = [messages[0].content]
    else:
        texts = [f"{message.role}: {message.content}" for message in messages]
    if topic.principle is not None:
        texts.append(f"(What counts: {disarmed(shortened(topic.principle, limit))})")
    return indented("\n".join(texts))


def grade(likely: Likely, expected: Sequence[float]) -> float:
    """What the model thinks of an answer: above 0 for a good one. `likely` is what may follow `Prompts.graded`, and
    `expected` has the log-probabilities of the first tokens of `Prompts.words` after `Prompts.told`."""
    odds = math.log(_probability(likely, _GOOD) / _probability(likely, _BAD))
    mean = math.fsum(max(p, _FLOOR) for p in expected) / len(expected) if expected else _MIDDLING_EXPECTED
    return _STEEPNESS * (odds - _MIDDLING_ODDS + _WEIGHT_EXPECTED * (mean - _MIDDLING_EXPECTED))


def reading(grade_1: float, grade_2: float, scores: Range | None, ranking: Range | None) -> Reading:
    """A verdict from the grades of two answers: P(good) spread over the range of scores, and the probability that the
    second is the better one spread over the two halves of the range of rankings. Two decimals."""
    low, high = scores or FREE_SCORES
    best, worst = ranking or FREE_RANKING
    middle = min(max(MIDDLE, best), worst)
    lean = 2 * _logistic(grade_2 - grade_1) - 1
    side = worst - middle if lean > 0 else middle - best
    return Reading(
        _within(low + (high - low) * _logistic(grade_1), low, high),
        _within(low + (high - low) * _logistic(grade_2), low, high),
        _within(middle + side * lean, best, worst),
    )


def _probability(likely: Likely, word: str) -> float:
    return _UNLIKELY + math.fsum(math.exp(p) for token, p in likely if token.strip().lower() == word)


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -500 else 0.0


def _within(value: float, low: float, high: float) -> float:
    return min(max(round(value, 2), low), high)
