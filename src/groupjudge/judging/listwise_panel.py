"""A group before a judge of lists (F9): its lists, and the verdicts on pairs that their scores stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b

from groupjudge.errors import JudgeFailed
from groupjudge.judging.judge import JudgeCall, JudgeEvents, ListCall, ListJudge, Prepared
from groupjudge.judging.panel import Asked, Panel, PanelRules
from groupjudge.judging.together import together
from groupjudge.model import AnswerTexts, Judgement, Listing, Reading, Slot, Topic
from groupjudge.scoring import ListRules, pairs_of, planned_list_calls, planned_lists


class ListPanel(Panel[Prepared]):
    """Judges whole groups by lists. Every two answers of a list become a verdict: their two scores, and for the ranking
    `scoring.default_ranking`, since nobody gave one. So every aggregator and measure takes them as it takes others."""

    def __init__(
        self, judge: ListJudge[Prepared], rules: PanelRules, lists: ListRules, events: JudgeEvents | None = None
    ) -> None:
        """`lists.repetitions` counts, and not the `judges_per_pair` of `rules`."""
        super().__init__(judge, rules, events)
        self._list_judge = judge
        self._lists = lists

    async def ask(self, topic: Topic, texts: Sequence[AnswerTexts], slots: Sequence[Slot] | None = None) -> list[Asked]:
        """Ask for all lists at once. Listed by call, then as its answers were shown (J2). Raises JudgeFailed."""
        lists = planned_lists(self._places(texts), self._lists, _key_of(topic, texts, self._rules.seed))
        if not lists:
            return []
        prepared = self._judge.prepare(self._rules.shown(topic), texts)
        calls = await together(self._grade(prepared, listing, slots) for listing in lists)
        return [asked for listing, call in zip(lists, calls, strict=True) for asked in self._verdicts(listing, call)]

    async def judgement(
        self, texts: Sequence[AnswerTexts], asked: Sequence[Asked], slots: Sequence[Slot] | None = None
    ) -> Judgement:
        """See `Panel.judgement`. Standard errors are unknown: the verdicts of one list hang on the same few scores."""
        return replace(await super().judgement(texts, asked, slots), errors=(None,) * len(texts))

    async def _grade(self, prepared: Prepared, listing: Listing, slots: Sequence[Slot] | None) -> ListCall:
        call = await self._list_judge.grade(prepared, listing)
        if call.scores is None and self._rules.on_unreadable == "fail":
            named = sorted(listing.slots if slots is None else (slots[place] for place in listing.slots))
            raise JudgeFailed(f"answers {', '.join(map(str, named))}: {call.problem}", "unreadable verdict")
        return call

    def _verdicts(self, listing: Listing, call: ListCall) -> Iterator[Asked]:
        """A verdict for each pair; where the reply could not be read, of default scores (J13)."""
        ranking = self._rules.scoring.default_ranking
        scores = None if call.scores is None else dict(zip(listing.slots, call.scores, strict=True))
        for pair in pairs_of(listing):
            reading = None if scores is None else Reading(scores[pair.i], scores[pair.j], ranking)
            of_pair = JudgeCall(reading, call.problem, call.ambiguous)
            yield Asked(pair, of_pair, self._verdict(pair, of_pair))

    def _calls(self, size: int) -> int:
        return planned_list_calls(size, self._lists)


def _key_of(topic: Topic, texts: Sequence[AnswerTexts], seed: int) -> bytes:
    """What the orders of a group's lists are drawn from: the same for the same group, whoever sends it again (J22),
    and nothing that the author of one answer could foresee without the others."""
    digest = blake2b(seed.to_bytes(8, "big"), key=b"groupjudge lists")
    for text in (*(part for message in topic.conversation for part in message), *(text.answer for text in texts)):
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.digest()
