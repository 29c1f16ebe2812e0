"""`format: listwise` (F9): a judge that scores up to `judge.list_size` answers in one call.

It posts to `{base}/chat/completions` like `template`; tries, pauses, deadlines, places and replicas are those of every
judge over HTTP (`client.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

from groupjudge.judging.client import HttpCaller, HttpJudgeOptions, Request
from groupjudge.judging.formats import CHAT, PROMPT_END, inside_string, prompt_head
from groupjudge.judging.gate import Line
from groupjudge.judging.judge import JudgeCall, ListCall
from groupjudge.judging.listwise_reading import read_scores
from groupjudge.judging.listwise_template import Gap, load_list_template, names_of, scores_schema
from groupjudge.judging.reading import ReadingRules
from groupjudge.judging.texts import clean_group
from groupjudge.model import AnswerTexts, Listing, Pair, Reading, Topic


class PreparedLists:
    """One group's requests, and its line at the gate. `pieces` are the prompt, `answers` clean texts in slot order."""

    def __init__(self, line: Line, pieces: Sequence[str | Gap], answers: Sequence[str]) -> None:
        self.line = line
        self._pieces = [inside_string(piece) if isinstance(piece, str) else piece for piece in pieces]
        self._answers = answers

    def size(self, listing: Listing) -> int:
        """Of the request for a list, in bytes, less its head and tags."""
        shared = sum(len(piece) for piece in self._pieces if isinstance(piece, bytes))
        return shared + sum(self._sizes[slot] for slot in listing.slots)

    @cached_property
    def _sizes(self) -> list[int]:
        return [len(inside_string(answer)) for answer in self._answers]

    def prompt(self, listing: Listing) -> bytes:
        """The prompt for a list, as it stands inside a JSON string."""
        answers = [self._answers[slot] for slot in listing.slots]
        pieces = (p if isinstance(p, bytes) else inside_string(p.filled(answers)) for p in self._pieces)
        return b"".join(pieces)


class ListwiseJudge(HttpCaller):
    """A `ListJudge` behind an HTTP API."""

    def __init__(self, options: HttpJudgeOptions, rules: ReadingRules, **parts: Any) -> None:
        """`parts` are those of `HttpCaller`. Raises ConfigurationError."""
        super().__init__(options, rules, CHAT, **parts)
        self._rules = rules
        self._template = load_list_template(options.template, rules.score_range, with_principle=options.use_principle)
        self._heads: dict[int, bytes] = {}
        self._head(2)  # what is wrong with the parameters is to be said now

    def prepare(self, topic: Topic, texts: Sequence[AnswerTexts], line: Line | None = None) -> PreparedLists:
        """See `ListJudge.prepare`."""
        topic, answers = clean_group(topic, texts, self._options.empty_answer_text)
        return PreparedLists(line or self.gate.line(), self._template.fill(topic, answers), answers)

    async def grade(self, prepared: PreparedLists, listing: Listing) -> ListCall:
        """See `ListJudge.grade`."""
        size = prepared.size(listing) if self.counts_tokens else 0
        read = partial(read_scores, names=names_of(len(listing.slots)), rules=self._rules)
        return ListCall(*await self.call(prepared.line, Request(size, partial(self._body, prepared, listing), read)))

    async def compare(self, prepared: PreparedLists, pair: Pair) -> JudgeCall:
        """See `Judge.compare`: a list of two, with the default ranking."""
        scores, problem, ambiguous = await self.grade(prepared, Listing((pair.i, pair.j), pair.judge))
        reading = None if scores is None else Reading(scores[0], scores[1], self._rules.default_ranking)
        return JudgeCall(reading, problem, ambiguous)

    def _body(self, prepared: PreparedLists, listing: Listing) -> bytes:
        return self._head(len(listing.slots)) + prepared.prompt(listing) + PROMPT_END

    def _head(self, count: int) -> bytes:
        """What stands before the prompt of a list of `count`: its schema names each answer."""
        if count not in self._heads:
            options = self._options
            schema = scores_schema(count, self._rules.score_range) if options.structured_output else None
            self._heads[count] = prompt_head(options.model, options.params, schema)
        return self._heads[count]
