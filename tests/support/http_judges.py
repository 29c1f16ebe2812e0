"""An `HttpJudge` before a stub, with a clock that does not wait and events that are remembered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from groupjudge.judging.client import HttpJudge, HttpJudgeOptions
from groupjudge.judging.endpoint import desk_of
from groupjudge.judging.gate import Gate
from groupjudge.judging.reading import ReadingRules
from groupjudge.model import AnswerTexts, Message, Pair, Topic

from .clock import Clock
from .judges import Counted, StubJudge

TOPIC = Topic((Message("user", "Which is the capital of France?"),))
PAIR = Pair(0, 1, 0)
RULES = ReadingRules(score_range=(1.0, 5.0), ranking_range=(1.0, 6.0), default_ranking=3.5, on_conflict="last")


def answers(*texts: str) -> list[AnswerTexts]:
    return [AnswerTexts(text, "") for text in texts]


ANSWERS = answers("Paris.", "Lyon.")


class Judged(HttpJudge):
    """With `clock` and `counted` to look into."""

    def __init__(
        self,
        base_url: str,
        *others: str,
        rules: ReadingRules = RULES,
        gate: Gate | None = None,
        sleep: Callable[[float], Awaitable[None]] | None = None,
        **options: Any,
    ) -> None:
        self.clock = Clock()
        self.counted = Counted()
        first = HttpJudgeOptions(base_url, **{"format": "genrm", **options})
        replicas = [replace(first, base_url=other) for other in others]
        desks = [desk_of(each) for each in (first, *replicas)]
        super().__init__(
            first,
            rules,
            others=replicas,
            gate=gate or Gate(desks, now=self.clock.read, later=self.clock.later),
            events=self.counted,
            sleep=sleep or self.clock.sleep,
            random=lambda: 0.0,
            now=lambda: 1_700_000_000.0,
        )

    async def ask(
        self, topic: Topic = TOPIC, texts: Sequence[AnswerTexts] = ANSWERS, pair: Pair = PAIR
    ) -> tuple[float, float, float] | str:
        """One call: its numbers, or why they could not be read."""
        call = await self.compare(self.prepare(topic, texts), pair)
        return call.problem if call.reading is None else tuple(call.reading)


def judge_of(*stubs: StubJudge, **options: Any) -> Judged:
    """The judge at these addresses."""
    return Judged(*(stub.base_url for stub in stubs), **options)
