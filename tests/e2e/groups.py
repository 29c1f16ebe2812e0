"""Groups for tests: their bodies, a judge whose verdicts depend on every text it is shown, and the rewards that follow.

The rewards are computed here by the formula of J14, in exact fractions, apart from the code under test.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.support.judges import Received, Reply, StubJudge, http, responses

QUESTION_WORD = "whereto-the-question"
ANSWER_WORD = "thereto-the-answer"
JUDGE_WORD = "hereto-the-judge"
TOKEN = "token-that-nobody-may-read"
SECRETS = (QUESTION_WORD, ANSWER_WORD, JUDGE_WORD, TOKEN)
"""What no log may hold."""

REJECTED = "the judge rejects this"
GARBLED = "the judge stammers at this"
HUGE = "the judge overdoes this"


def question(about: str) -> str:
    return f"{QUESTION_WORD} about {about}"


def answer(text: str) -> dict[str, Any]:
    """A response with this text."""
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return {"id": "r", "object": "response", "output": [message]}


@dataclass(frozen=True, slots=True)
class Group:
    """A group that a test sends: its id, how many it has, and which attempt it is."""

    name: str
    size: int = 4
    attempt: int = 0
    note: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    def text(self, slot: int) -> str:
        """The text of the answer in `slot`."""
        return f"{ANSWER_WORD} {slot} of {self.name}; attempt {self.attempt} {self.note}".rstrip()

    def fields(self, slot: int, **changes: Any) -> dict[str, Any]:
        """The fields of the body for `slot`; a change to None drops a field."""
        fields = {
            "responses_create_params": {"input": question(self.name)},
            "response": answer(self.text(slot)),
            "_ng_group_id": self.name,
            "_ng_group_attempt": self.attempt,
            "_ng_rollout_index": slot,
            "_ng_group_size": self.size,
            **self.extra,
            **changes,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def body(self, slot: int, **changes: Any) -> bytes:
        return json.dumps(self.fields(slot, **changes)).encode()

    def bodies(self) -> list[bytes]:
        return [self.body(slot) for slot in range(self.size)]

    def rewards(self) -> list[float]:
        """What each member must get of a `TextJudge`."""
        return rewards_of(question(self.name), [self.text(slot) for slot in range(self.size)])

    def pairs(self) -> set[tuple[str, str]]:
        """The texts of the pairs that must be judged (J1)."""
        return {(self.text(slot), self.text((slot + 1) % self.size)) for slot in range(self.size)}


def scores(asked: str, first: str, second: str) -> tuple[float, float, float]:
    """What the judge says of two answers; every third time a tie."""
    digest = hashlib.sha256("\0".join((asked, first, second)).encode()).digest()
    score_1 = 1 + digest[0] % 17 / 4
    score_2 = score_1 if digest[1] % 3 == 0 else 1 + digest[2] % 17 / 4
    return score_1, score_2, 1 + digest[3] % 11 / 2


def rewards_of(asked: str, texts: Sequence[str]) -> list[float]:
    """J14 over the circle of J1: each member's mean, after ties were broken by the ranking."""
    gained: list[list[Fraction]] = [[] for _ in texts]
    for i in range(len(texts)):
        j = (i + 1) % len(texts)
        score_1, score_2, ranking = map(Fraction, scores(asked, texts[i], texts[j]))
        lead = Fraction(7, 2) - ranking if score_1 == score_2 else 0
        gained[i].append(score_1 + lead)
        gained[j].append(score_2 - lead)
    return [float(sum(each) / len(each)) for each in gained]


class TextJudge(StubJudge):
    """A judge of format `responses` whose verdict hangs on the question and both answers; some texts make it fail."""

    def __init__(self) -> None:
        super().__init__(by=self._say)
        self.pairs: Counter[tuple[str, str]] = Counter()
        """How often each pair of texts came."""

    def _say(self, request: Received) -> Reply:
        if request.method != "POST":
            return http(404)
        asked, first, second = shown(request)
        self.pairs[first, second] += 1
        if REJECTED in first + second:
            return http(400, f"{JUDGE_WORD}: no")
        if GARBLED in first + second:
            return responses(f"{JUDGE_WORD} says hm")
        if HUGE in first + second:
            return responses(json.dumps({"score_1": 1e301, "score_2": 1, "ranking": 1}))
        score_1, score_2, ranking = scores(asked, first, second)
        verdict = {"why": JUDGE_WORD, "score_1": score_1, "score_2": score_2, "ranking": ranking}
        return responses(json.dumps(verdict))

    def asked_of(self, group: Group) -> Counter[tuple[str, str]]:
        """How often each pair of the group came."""
        return Counter({pair: self.pairs[pair] for pair in group.pairs() if pair in self.pairs})

    def is_asked_of(self, group: Group, count: int | None = None) -> bool:
        """Whether so many pairs of the group have come (default: all)."""
        return self.asked_of(group).total() >= (len(group.pairs()) if count is None else count)


def shown(request: Received) -> tuple[str, str, str]:
    """The question and the two answers of a judge request (J6)."""
    asked = request.json["input"][0]["content"]
    texts = request.json["metadata"]
    return asked, texts["response_1"], texts["response_2"]
