"""How the model that comes with the embedded judge grades an answer: by how it would go on after worked examples.

Gemma 3 270M is a base model: it was trained to continue texts, not to follow orders, so what it writes when it is asked
for a verdict is worth little. But it can be read. Each prompt shows a few graded answers and then the one in question,
up to the place where the grade stands; the probabilities of the two grades there say what the model thinks of the
answer, in shades. The log-odds of several prompts are averaged, since each alone is noisy. Every answer is graded for
itself: no answer has a seat, so there is no bias for one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from groupjudge.judging.local_texts import disarmed, indented, shortened, shortened_conversation
from groupjudge.judging.template import MIDDLE, Range
from groupjudge.model import Reading, Topic

Likely: TypeAlias = Sequence[tuple[str, float]]
"""The likeliest next words with their log-probabilities."""

QUESTION_SHOWN = 1000
ANSWER_SHOWN = 1500
"""In characters; the middle of a longer text is left out."""


class Example(NamedTuple):
    """A graded answer."""

    question: str
    answer: str
    good: bool


class Sheet(NamedTuple):
    """One way to show graded answers. `form` has the fields {q} and {a}; `good` and `bad` are the grades that follow;
    `neutral` is the log-odds at which an answer counts as middling (fitted on the tuning pairs of the benchmark)."""

    form: str
    good: str
    bad: str
    neutral: float
    examples: tuple[Example, ...]

    def start(self) -> str:
        """What all prompts of this sheet begin with."""
        shown = (
            self.form.format(q=e.question, a=e.answer) + (self.good if e.good else self.bad) for e in self.examples
        )
        return "".join(f"{text}\n\n" for text in shown)

    def prompt(self, question: str, answer: str) -> str:
        """The examples, and a question and its answer as the next one to be graded."""
        return self.start() + self.form.format(q=question, a=answer)

    def log_odds(self, likely: Likely) -> float:
        """ln(P(good) / P(bad)) of the next word."""
        return math.log(_probability(likely, self.good) / _probability(likely, self.bad))


_UNLIKELY = 1e-6
"""The probability of a word that is not among the likeliest."""


def _probability(likely: Likely, word: str) -> float:
    wanted = word.strip().lower()
    return _UNLIKELY + math.fsum(math.exp(p) for token, p in likely if token.strip().lower() == wanted)


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


def _examples(order: str) -> tuple[Example, ...]:
    """Examples from a list such as `0- 1+`: the number of a pair, and which of its answers."""
    picks = ((_PAIRS[int(word[:-1])], word[-1] == "+") for word in order.split())
    return tuple(Example(question, good if is_good else bad, is_good) for (question, good, bad), is_good in picks)


_ASKED = "Question: {q}\nAnswer: {a}\nIs this a correct and helpful answer to the question?"
_TAUGHT = "Q: {q}\nA: {a}\nTeacher's comment: The answer is"

SHEETS = (
    Sheet(
        _TAUGHT,
        " correct",
        " wrong",
        0.0,
        _examples("0- 1- 2+ 3+ 4+ 5- 6+ 7- 8+ 9+ 10- 11- 2- 0+ 1+ 6- 10+ 11+ 5+ 9- 3- 8- 4- 7+"),
    ),
    Sheet(_ASKED, " Yes", " No", 0.0, _examples("0+ 1- 2- 5+ 4- 6+ 3- 7+")),
)

STEEPNESS = 1.0
"""How much of the range one unit of mean log-odds covers; fitted, like `neutral`, on the tuning pairs."""
FREE_RANGE: Range = (1.0, 5.0)
"""The range of scores where none is configured."""
FREE_RANKING: Range = (1.0, 6.0)


def grading_prompts(topic: Topic, answer: str, scale: float = 1.0) -> list[str]:
    """One prompt a sheet for one answer. `topic` and `answer` are clean; of each text at most the shown length times
    `scale` (above 0, at most 1) goes in, with its middle left out."""
    question = asked(topic, max(20, int(QUESTION_SHOWN * scale)))
    shown = indented(disarmed(shortened(answer, max(20, int(ANSWER_SHOWN * scale)))))
    return [sheet.prompt(question, shown) for sheet in SHEETS]


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


def grade(replies: Iterable[Likely]) -> float:
    """What the model thinks of an answer, from its replies to `grading_prompts`: log-odds, above 0 for a good one."""
    odds = [sheet.log_odds(likely) - sheet.neutral for sheet, likely in zip(SHEETS, replies, strict=True)]
    return STEEPNESS * math.fsum(odds) / len(odds)


def reading(grade_1: float, grade_2: float, scores: Range | None, ranking: Range | None) -> Reading:
    """A verdict from the grades of two answers: P(good) spread over the range of scores, and the probability that the
    second is the better one spread over the two halves of the range of rankings. Two decimals."""
    low, high = scores or FREE_RANGE
    best, worst = ranking or FREE_RANKING
    middle = min(max(MIDDLE, best), worst)
    lean = 2 * _logistic(grade_2 - grade_1) - 1
    side = worst - middle if lean > 0 else middle - best
    return Reading(
        _within(low + (high - low) * _logistic(grade_1), low, high),
        _within(low + (high - low) * _logistic(grade_2), low, high),
        _within(middle + side * lean, best, worst),
    )


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -500 else 0.0


def _within(value: float, low: float, high: float) -> float:
    return min(max(round(value, 2), low), high)
