"""The embedded judge (J9): a small open-weights model run by llama.cpp on this machine's CPU, without any server.

It is for demos, tests and offline smoke runs, not for training: docs/embedded-judge.md says how often it prefers the
better answer of a plain pair. The model that comes with it is read rather than asked (`local_grading.py`); any
other GGUF file (`judge.model: PATH`) gets the prompt of `judge.template` through its own chat template, and answers
under a grammar made from the JSON schema of a verdict. Both give equal verdicts for equal requests: temperature 0, a
fixed seed, and `judge.params` are not used.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog

from groupjudge.errors import BudgetSpent, JudgeFailed
from groupjudge.judging.gate import Gate, Line
from groupjudge.judging.judge import Comparison, JudgeCall, JudgeEvents, NoEvents
from groupjudge.judging.local_engine import WORKER, Engine, EngineError, EngineGone, TooLong
from groupjudge.judging.local_grading import STARTS, grade, prompts, reading
from groupjudge.judging.local_model import TERMS, check_model, model_file
from groupjudge.judging.local_texts import disarmed, shortened, shortened_conversation
from groupjudge.judging.reading import ReadingRules, read_verdict
from groupjudge.judging.template import PromptTemplate, Range, load_template, render_prompt, verdict_schema
from groupjudge.judging.texts import clean_group
from groupjudge.judging.usage import Meter
from groupjudge.model import AnswerTexts, Pair, Topic

log = structlog.get_logger(__name__)

LOADING = "the embedded judge is loading its model"
PLACES = 2
"""Verdicts in the making at once: one that the model works on, and one that is ready to follow."""
THREADS_AT_MOST = 8
CHAT_CONTEXT = 4096
GRADING_CONTEXT = 2048
REPLY_TOKENS = 200
SHOWN = 4000
"""In characters: what a prompt for another GGUF file shows of each answer, and of the question."""
SMALLEST = 1 / 64
"""Texts are shown at half their length again and again until the prompt fits, but not below this share."""


@dataclass(frozen=True, slots=True)
class LocalJudgeOptions:
    """The keys of `judge` in the configuration that the embedded judge knows (H12), by the same names. `model` is the
    path of a GGUF file, None for the model that comes with the extra."""

    model: str | None = None
    template: str | None = None
    max_concurrency: int = PLACES
    empty_answer_text: str = "None"
    use_principle: bool = False


@dataclass(frozen=True, slots=True)
class LocalGroup:
    """One group in clean texts, and the grades of its answers as far as they are known."""

    topic: Topic
    answers: tuple[str, ...]
    grades: dict[int, float] = field(default_factory=dict)
    turns: dict[int, asyncio.Lock] = field(default_factory=dict)
    line: Line = field(default_factory=lambda: Line(0))
    """Its place in the queue at the gate."""


class GradingWay:
    """For the model that comes with the extra. An answer is graded once for its group, however many pairs it is in."""

    context = GRADING_CONTEXT
    starts: tuple[str, ...] = STARTS

    def __init__(self, rules: ReadingRules) -> None:
        self._rules = rules

    async def read(self, engine: Engine, group: LocalGroup, pair: Pair) -> JudgeCall:
        """A verdict made of two grades. Raises EngineError."""
        grade_1 = await self._grade(engine, group, pair.i)
        grade_2 = await self._grade(engine, group, pair.j)
        return JudgeCall(reading(grade_1, grade_2, self._rules.score_range, self._rules.ranking_range))

    async def _grade(self, engine: Engine, group: LocalGroup, slot: int) -> float:
        async with group.turns.setdefault(slot, asyncio.Lock()):
            if slot not in group.grades:
                group.grades[slot] = await self._ask(engine, group.topic, group.answers[slot])
            return group.grades[slot]

    async def _ask(self, engine: Engine, topic: Topic, answer: str) -> float:
        async def ask(scale: float) -> dict[str, Any]:
            return await engine.ask({"op": "read", **prompts(topic, answer, scale)._asdict()})

        said = await _fitting(ask)
        return grade(said["likely"], said["expected"])


class ChatWay:
    """For any other GGUF file."""

    context = CHAT_CONTEXT
    starts: tuple[str, ...] = ()

    def __init__(self, template: PromptTemplate, rules: ReadingRules) -> None:
        self._template = template
        self._rules = rules
        self._schema = stepped_schema(rules.score_range, rules.ranking_range)

    async def read(self, engine: Engine, group: LocalGroup, pair: Pair) -> JudgeCall:
        """The verdict that the model writes. Raises EngineError."""

        async def ask(scale: float) -> dict[str, Any]:
            text = self._prompt(group, pair, int(SHOWN * scale))
            return await engine.ask({"op": "chat", "text": text, "schema": self._schema, "max_tokens": REPLY_TOKENS})

        said = await _fitting(ask)
        if not said["finished"]:
            return JudgeCall(None, "the embedded judge's reply is unfinished")
        read = read_verdict(said["text"], self._rules)
        return JudgeCall(read.reading, read.problem, read.ambiguous)

    def _prompt(self, group: LocalGroup, pair: Pair, limit: int) -> str:
        first, second = (disarmed(shortened(group.answers[slot], limit)) for slot in (pair.i, pair.j))
        principle = None if group.topic.principle is None else disarmed(shortened(group.topic.principle, limit))
        shown = shortened_conversation(group.topic.conversation, limit)
        return render_prompt(Comparison(shown, first, second, principle), self._template)


class LocalJudge:
    """A `Judge` on this machine. May be made anywhere; its first use binds it to the running loop and loads the model.

    Raises ConfigurationError where the extra is missing, the model file is none, or the template is at fault.
    """

    def __init__(
        self,
        options: LocalJudgeOptions,
        rules: ReadingRules,
        *,
        gate: Gate | None = None,
        events: JudgeEvents | None = None,
        meter: Meter | None = None,
        command: Sequence[str] = WORKER,
    ) -> None:
        """`gate` holds the places (default: `PLACES`, or `options.max_concurrency` if that is less); `command` starts
        the helper process."""
        check_model(options.model)
        self.gate = gate or Gate(min(PLACES, options.max_concurrency))
        self._options = options
        self._events: JudgeEvents = events or NoEvents()
        self.meters = [meter or Meter()]
        """What it was asked. It counts no tokens."""
        self._command = command
        self._way = _way(options, rules)
        self._starting: asyncio.Task[Engine] | None = None
        self._closed = False

    async def __aenter__(self) -> LocalJudge:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def prepare(self, topic: Topic, texts: Sequence[AnswerTexts], line: Line | None = None) -> LocalGroup:
        """See `Judge.prepare`."""
        return LocalGroup(*clean_group(topic, texts, self._options.empty_answer_text), line=line or self.gate.line())

    async def compare(self, prepared: LocalGroup, pair: Pair) -> JudgeCall:
        """See `Judge.compare`. There is one try: what failed once would fail again in the same way."""
        started = time.perf_counter()
        result, tries = "cancelled", 0
        try:
            place = await self.gate.enter(prepared.line)
            try:
                if (spent := self.meters[0].why_spent()) is not None:
                    raise BudgetSpent(spent, "the budget is used up")
                self.meters[0].sent()
                call = await self._try(prepared, pair)
            finally:
                self.gate.leave(place)
            result, tries = ("verdict" if call.reading else "unreadable"), 1
            return call
        except JudgeFailed:
            result, tries = "failed", 1
            raise
        finally:
            self._events.called(result, tries, time.perf_counter() - started)

    async def reachable(self) -> str | None:
        """See `Judge.reachable`. Asking starts to load the model."""
        if self._closed:
            return "the embedded judge is closed"
        starting = self._start()
        if not starting.done():
            return LOADING
        with suppress(EngineError, OSError):
            await starting
            return None
        return _why_not(starting)

    async def close(self) -> None:
        """See `Judge.close`. Ends the model's process at once, whatever it is doing."""
        self._closed = True
        if self._starting is None:
            return
        self._starting.cancel()
        with suppress(asyncio.CancelledError, EngineError, OSError):
            await (await self._starting).stop()

    async def _try(self, prepared: LocalGroup, pair: Pair) -> JudgeCall:
        started = time.perf_counter()
        try:
            call = await self._way.read(await self._engine(), prepared, pair)
        except (EngineError, OSError) as error:
            kind = "transport" if isinstance(error, EngineGone) else "rejected"
            self._events.tried(kind, None, time.perf_counter() - started)
            raise JudgeFailed(f"the embedded judge failed: {error}", f"embedded judge ({kind})") from None
        self._events.tried("ok" if call.reading else "unreadable", None, time.perf_counter() - started)
        return call

    async def _engine(self) -> Engine:
        starting = self._start()
        await asyncio.wait({starting})  # waits without cancelling what others wait for too
        if starting.cancelled():
            raise EngineGone("it was closed")
        return starting.result()

    def _start(self) -> asyncio.Task[Engine]:
        """The loading of the model. One that failed is not tried again; a process that died later is replaced."""
        if self._closed:
            raise RuntimeError("the judge is closed")
        if self._starting is None or _has_died(self._starting):
            self._starting = asyncio.create_task(self._load(), name="load the embedded judge")
        return self._starting

    async def _load(self) -> Engine:
        started = time.perf_counter()
        path = await asyncio.to_thread(model_file, self._options.model)
        starts = self._way.starts
        setup = {"path": str(path), "context": self._way.context, "slots": max(1, len(starts)), "starts": starts}
        try:
            engine = await Engine.start({**setup, "threads": _threads()}, self._command)
        except EngineGone:
            raise
        except EngineError as error:
            raise EngineError(f"llama.cpp cannot load {str(path)!r}: {error}") from None
        seconds = round(time.perf_counter() - started, 1)
        log.info("embedded judge loaded", seconds=seconds, terms=TERMS if self._options.model is None else None)
        return engine


def stepped_schema(scores: Range | None, ranking: Range | None) -> dict[str, Any]:
    """The schema of a verdict with, for each range, the halves in it as the only numbers: a grammar under which every
    reply ends and parses. A range without halves, or with more than 100, is left to `verdict_schema`."""
    schema = verdict_schema(scores, ranking)
    for name, bounds in (("score_1", scores), ("score_2", scores), ("ranking", ranking)):
        steps = _halves(bounds) if bounds else []
        if 2 <= len(steps) <= 100:
            schema["properties"][name] = {"enum": steps}
    return schema


def _halves(bounds: Range) -> list[float]:
    low, high = bounds
    if high - low > 50:
        return []
    first = -(-low * 2 // 1) / 2
    count = int((high - first) * 2) + 1
    return [value if value % 1 else int(value) for value in (first + n / 2 for n in range(count)) if value <= high]


def _way(options: LocalJudgeOptions, rules: ReadingRules) -> GradingWay | ChatWay:
    template = load_template(
        options.template, rules.score_range, rules.ranking_range, with_principle=options.use_principle
    )
    return GradingWay(rules) if options.model is None else ChatWay(template, rules)


async def _fitting(ask: Callable[[float], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """The reply to the longest prompt that fits into the context: `ask` gets the share of the texts to show."""
    scale = 1.0
    while True:
        try:
            return await ask(scale)
        except TooLong:
            scale /= 2
            if scale < SMALLEST:
                raise


def _has_died(starting: asyncio.Task[Engine]) -> bool:
    return starting.done() and not starting.cancelled() and not starting.exception() and not starting.result().running


def _why_not(starting: asyncio.Task[Engine]) -> str:
    return f"the embedded judge cannot be loaded: {starting.exception()}"


def _threads() -> int:
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(THREADS_AT_MOST, mine)
