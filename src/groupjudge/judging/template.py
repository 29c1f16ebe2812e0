"""The prompt for instruction-tuned judges (J8): a text file with placeholders, and blocks that nothing breaks out of.

Conversation, answers and principle are shown in blocks whose tags carry a mark: `<answer_1-MARK>`, `</answer_1-MARK>`.
The mark occurs in none of the texts that are shown, in upper or lower case, and line breaks keep it apart from them. So
whatever a text holds, the tags of a prompt are exactly those that were put there. The mark is a digest of the question
(not of the answers, and not random): every try sends the same request, and the calls of a group share their prompt up
to the first answer, which a judge with a prefix cache reads only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from importlib.resources import files
from itertools import chain, count
from pathlib import Path
from string import Template
from typing import Any, TypeAlias

from groupjudge.errors import ConfigurationError
from groupjudge.judging.judge import Comparison
from groupjudge.model import Conversation, Topic

Range: TypeAlias = tuple[float, float]

MIDDLE = 3.5
"""The ranking that prefers neither answer, whatever the range (J14)."""
MAX_TEMPLATE_BYTES = 1 << 20
NO_PRINCIPLE = "(none)"
"""What a template shows where principles are off."""


class Seat(Enum):
    """Where an answer's text belongs in a prompt."""

    FIRST = "answer_1"
    SECOND = "answer_2"


PRINCIPLE = "principle"
_REQUIRED = ("conversation", Seat.FIRST.value, Seat.SECOND.value)
_KNOWN = (*_REQUIRED, PRINCIPLE, "tag", "score_scale", "ranking_scale")


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A gap in a template, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A checked template: literal texts and the gaps between them. Made by `load_template`."""

    pieces: tuple[str | Placeholder, ...]

    def fill(self, topic: Topic, answers: Sequence[str]) -> list[str | Seat]:
        """The prompt of a group in stretches: texts, and the seats where an answer's text belongs.

        `topic` and `answers` must be clean (`texts.clean_group`); `answers` are all that will be seated in it.
        """
        mark = choose_mark(topic, answers)
        blocks: dict[str, list[str | Seat]] = {
            "conversation": [block("conversation", turns(topic.conversation, mark), mark)],
            Seat.FIRST.value: _seat_block(Seat.FIRST, mark),
            Seat.SECOND.value: _seat_block(Seat.SECOND, mark),
            PRINCIPLE: [NO_PRINCIPLE] if topic.principle is None else [block(PRINCIPLE, topic.principle, mark)],
            "tag": [mark],
        }
        stretches = ([p] if isinstance(p, str) else blocks[p.name] for p in self.pieces)
        return _merged(chain.from_iterable(stretches))


def load_template(
    path: str | None = None,
    score_range: Range | None = (1.0, 5.0),
    ranking_range: Range | None = (1.0, 6.0),
    *,
    with_principle: bool = False,
) -> PromptTemplate:
    """Read and check the template at `path` (None: the one of the package).

    Raises ConfigurationError, naming `judge.template` and what to change, where the file cannot be read, is no UTF-8,
    misses a placeholder (`${conversation}`, `${answer_1}`, `${answer_2}`; `${principle}` where `with_principle`), or
    holds one that is unknown or misspelt. A dollar sign is written `$$`.
    """
    text = read_template(path, "pairwise.txt")
    check_template(text, path, (*_REQUIRED, PRINCIPLE) if with_principle else _REQUIRED, _KNOWN)
    scales = {"score_scale": score_scale(score_range), "ranking_scale": ranking_scale(ranking_range)}
    return PromptTemplate(tuple(pieces_of(text, scales)))


def render_prompt(comparison: Comparison, template: PromptTemplate) -> str:
    """The whole prompt for one comparison, to be sent as one user message. The comparison's texts must be clean."""
    answers = {Seat.FIRST: comparison.answer_1, Seat.SECOND: comparison.answer_2}
    stretches = template.fill(Topic(comparison.conversation, comparison.principle), tuple(answers.values()))
    return "".join(s if isinstance(s, str) else answers[s] for s in stretches)


def verdict_schema(score_range: Range | None = (1.0, 5.0), ranking_range: Range | None = (1.0, 6.0)) -> dict[str, Any]:
    """The JSON schema of a verdict (J11): an object of exactly three numbers within the configured ranges."""
    properties = {"score_1": score_range, "score_2": score_range, "ranking": ranking_range}
    return {
        "type": "object",
        "properties": {name: number_schema(bounds) for name, bounds in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def score_scale(bounds: Range | None) -> str:
    """The range of a score in words."""
    if bounds is None:
        return "any number, higher is better"
    return f"a number from {bounds[0]:g} (worst) to {bounds[1]:g} (best)"


def ranking_scale(bounds: Range | None) -> str:
    """The range of a ranking in words."""
    middle = f"{MIDDLE:g} would mean that neither is better"
    if bounds is None:
        return f"a number: the lower, the better the first answer; the higher, the better the second; {middle}"
    low, high = bounds
    return f"a number from {low:g} (the first is better by far) to {high:g} (the second is better by far); {middle}"


def choose_mark(topic: Topic, answers: Iterable[str]) -> str:
    """16 hexadecimal digits that stand in none of the texts: the first such digest of the question."""
    shown = [*(m.content for m in topic.conversation), topic.principle or "", *answers]
    lowered = [text.lower() for text in shown]
    digest = blake2b(key=b"groupjudge prompt mark", digest_size=32)
    for text in (*(t for m in topic.conversation for t in m), topic.principle or ""):
        encoded = text.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    candidates = (_candidate(digest.digest(), n) for n in count())
    return next(mark for mark in candidates if not any(mark in text for text in lowered))


def _candidate(question: bytes, number: int) -> str:
    return blake2b(number.to_bytes(8, "big"), key=question, digest_size=8).hexdigest()


def turns(conversation: Conversation, mark: str) -> str:
    """Each message between tags with the mark."""
    return "\n".join(
        f'<message-{mark} role="{message.role}">\n{message.content}\n</message-{mark}>' for message in conversation
    )


def block(name: str, text: str, mark: str) -> str:
    """`text` between tags with the mark."""
    return f"<{name}-{mark}>\n{text}\n</{name}-{mark}>"


def _seat_block(seat: Seat, mark: str) -> list[str | Seat]:
    return [f"<{seat.value}-{mark}>\n", seat, f"\n</{seat.value}-{mark}>"]


def _merged(stretches: Iterable[str | Seat]) -> list[str | Seat]:
    """The same stretches with neighbouring texts joined."""
    merged: list[str | Seat] = []
    for stretch in stretches:
        if isinstance(stretch, str) and merged and isinstance(merged[-1], str):
            merged[-1] += stretch
        else:
            merged.append(stretch)
    return merged


def number_schema(bounds: Range | None) -> dict[str, Any]:
    """The JSON schema of a number within these bounds."""
    return {"type": "number"} if bounds is None else {"type": "number", "minimum": bounds[0], "maximum": bounds[1]}


def read_template(path: str | None, default: str) -> str:
    """The text of the template at `path` (None: the package's own, called `default`). Raises ConfigurationError."""
    if path is None:
        return (files("groupjudge.judging") / "templates" / default).read_text("utf-8")
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_TEMPLATE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ConfigurationError(f"judge.template: cannot read {path!r}: {problem}") from None
    if len(data) > MAX_TEMPLATE_BYTES:
        raise ConfigurationError(f"judge.template: {path!r} is larger than {MAX_TEMPLATE_BYTES} bytes")
    return text.replace("\r\n", "\n")


def check_template(text: str, path: str | None, required: Sequence[str], known: Sequence[str]) -> None:
    """Raises ConfigurationError where a template misses a placeholder, or holds another one than those known."""
    where = f"judge.template: {path!r}"
    allowed = ", ".join(f"${{{name}}}" for name in known)
    template = Template(text)
    if not template.is_valid():
        raise ConfigurationError(f"{where} holds a '$' that starts no placeholder: write '$$', or one of {allowed}")
    found = template.get_identifiers()
    if unknown := [name for name in found if name not in known]:
        raise ConfigurationError(f"{where} holds the unknown placeholder ${{{unknown[0][:100]}}}; allowed: {allowed}")
    if missing := [name for name in required if name not in found]:
        raise ConfigurationError(f"{where} misses the placeholder ${{{missing[0]}}}")
    if "\0" in text:
        raise ConfigurationError(f"{where} holds a NUL character")


def pieces_of(text: str, scales: dict[str, str]) -> Iterator[str | Placeholder]:
    """The checked template `text` cut at its placeholders, with the scales filled in."""
    end = 0
    for match in Template.pattern.finditer(text):
        yield text[end : match.start()]
        name = match["named"] or match["braced"]
        if name is None:
            yield Template.delimiter
        else:
            yield scales.get(name) or Placeholder(name)
        end = match.end()
    yield text[end:]
