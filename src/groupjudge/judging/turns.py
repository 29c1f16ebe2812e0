"""A panel whose jurors judge in turn: each pair by one of them (F10, `comparison.jurors: in_turn`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from groupjudge.errors import BudgetSpent, JudgeFailed
from groupjudge.judging.judge import Comparer, JudgeCall
from groupjudge.model import AnswerTexts, Pair, Topic

TurnsGroup: TypeAlias = tuple[Any, ...]
"""What each juror prepared."""


class Turns:
    """Who compares a pair hangs on the pair alone, so that the same group is always judged by the same jurors. Where
    one fails, the next one is asked."""

    def __init__(self, jurors: Sequence[Comparer[Any]], left_out: Callable[[int, JudgeFailed], None]) -> None:
        """`left_out` hears the number of a juror whose call failed, and why."""
        self._jurors = jurors
        self._left_out = left_out

    def prepare(self, topic: Topic, texts: Sequence[AnswerTexts]) -> TurnsGroup:
        """See `Comparer.prepare`."""
        return tuple(juror.prepare(topic, texts) for juror in self._jurors)

    async def compare(self, prepared: TurnsGroup, pair: Pair) -> JudgeCall:
        """See `Comparer.compare`. The call says whose verdict it is. Where no juror gave one, J13 holds of all their
        tries: unreadable where one replied, else the failure of the first."""
        failures: list[JudgeFailed] = []
        try:
            return await self._first(prepared, pair, failures)
        finally:
            failures.clear()  # a failure holds the frames that it passed, and must not be held by one

    async def _first(self, prepared: TurnsGroup, pair: Pair, failures: list[JudgeFailed]) -> JudgeCall:
        """The call of the first juror that gives a verdict; of those before it, the `failures`."""
        unread: JudgeCall | None = None
        for number in turns(pair, len(self._jurors)):
            try:
                call = await self._jurors[number].compare(prepared[number], pair)
            except JudgeFailed as failed:
                failures.append(failed)
                self._left_out(number, failed)
                continue
            if call.reading is not None:
                return call._replace(juror=number)
            self._left_out(number, JudgeFailed(call.problem, "unreadable verdict"))
            unread = unread or call._replace(juror=number)
        if unread is None:
            raise next((failed for failed in failures if not isinstance(failed, BudgetSpent)), failures[0])
        return unread


def turns(pair: Pair, jurors: int) -> list[int]:
    """The jurors in the order in which they are asked for `pair`. In a circle of pairs they take turns, an answer that
    meets all others meets each juror about equally often, and both orders of a pair are one juror's."""
    first = (pair.i + pair.j) // 2 + pair.judge
    return [(first + further) % jurors for further in range(jurors)]
