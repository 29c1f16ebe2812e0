"""What every judge is to the panel: the protocol, and the values that cross it.

A judge gets a whole group once (`prepare`), so that what all its calls share is built once, and is then asked for one
pair at a time (`compare`). It owns its tries and its places; the panel owns what an unreadable pair means (J13).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from groupjudge.judging.gate import Gate, Line
from groupjudge.judging.usage import Meter
from groupjudge.model import AnswerTexts, Conversation, Listing, Pair, Reading, Topic

Prepared = TypeVar("Prepared")


class Comparison(NamedTuple):
    """One question to a judge, in texts that are fit to be sent: which of the two answers is better?

    `principle` is what to judge by, None where principles are off.
    """

    conversation: Conversation
    answer_1: str
    answer_2: str
    principle: str | None = None


class JudgeCall(NamedTuple):
    """How one call ended. `reading` is None where the judge did reply, and no try could be read (J13); `problem` then
    says why, for the caller to read (bounded; it may quote the judge). `ambiguous`: the reply that was read held
    differing verdicts (J11). `juror`: whose it is, where several take turns (F10)."""

    reading: Reading | None
    problem: str = ""
    ambiguous: bool = False
    juror: int = 0


class ListCall(NamedTuple):
    """How a call for a list ended, as in `JudgeCall`: `scores` are in the order in which the answers were shown."""

    scores: tuple[float, ...] | None
    problem: str = ""
    ambiguous: bool = False


class Comparer(Protocol[Prepared]):
    """Who compares pairs of answers. `Prepared` is its own business; nobody else looks inside."""

    def prepare(self, topic: Topic, texts: Sequence[AnswerTexts]) -> Prepared:
        """Build what the calls of one group share. `topic.principle` is the one to send, None where principles are
        off; `texts` are in slot order. They need not be clean: the judge does what J21 asks."""
        ...

    async def compare(self, prepared: Prepared, pair: Pair) -> JudgeCall:
        """Ask for one pair of the prepared group, all tries included.

        Raises JudgeFailed where there is no verdict and none to be read. Cancelling leaves no task and no connection.
        """
        ...


class Judge(Comparer[Prepared], Protocol[Prepared]):
    """A judge of pairs. `gate` holds its places (J3)."""

    gate: Gate

    def prepare(self, topic: Topic, texts: Sequence[AnswerTexts], line: Line | None = None) -> Prepared:
        """As `Comparer.prepare`; `line` is the group's at the gate, where it has one already (F7)."""
        ...

    @property
    def meters(self) -> Sequence[Meter]:
        """What each of its addresses cost, in the order of the gate's desks."""
        ...

    async def reachable(self) -> str | None:
        """None where the judge can be asked, else a short reason without secrets."""
        ...

    async def close(self) -> None:
        """Let go of connections, threads and models. Calls after that raise RuntimeError."""
        ...


class ListJudge(Judge[Prepared], Protocol[Prepared]):
    """A judge of lists (F9), and so of pairs too: these are lists of two."""

    async def grade(self, prepared: Prepared, listing: Listing) -> ListCall:
        """Ask for one list of the prepared group; else as `compare`."""
        ...


class JudgeEvents(Protocol):
    """Who counts what judges do. Every method returns at once and does not raise.

    `result` of a try: `ok`, `unreadable`, `unfinished`, `transport`, `rejected` (not tried again), `deadline`.
    `result` of a call: `verdict`, `unreadable`, `failed`, `cancelled`. Durations are in seconds.
    """

    def tried(self, result: str, status: int | None, seconds: float) -> None:
        """One request went out and ended, after `seconds`; `status` is its HTTP status where one came."""

    def called(self, result: str, tries: int, seconds: float) -> None:
        """One call ended after `tries` requests; `seconds` include its waits for a place and its pauses."""

    def used(self, prompt_tokens: int, completion_tokens: int) -> None:
        """A reply named its usage."""

    def ambiguous(self) -> None:
        """A reply held differing verdicts (J11)."""

    def defaulted(self) -> None:
        """The default scores stood in for one pair (J13)."""

    def group_scored(self, *, calls_saved: int, is_flat: bool) -> None:
        """A group has its rewards: `calls_saved` were needless for equal answers (F6); `is_flat`: all are equal
        (F4)."""


class NoEvents:
    """Counts nothing."""

    def tried(self, result: str, status: int | None, seconds: float) -> None: ...
    def called(self, result: str, tries: int, seconds: float) -> None: ...
    def used(self, prompt_tokens: int, completion_tokens: int) -> None: ...
    def ambiguous(self) -> None: ...
    def defaulted(self) -> None: ...
    def group_scored(self, *, calls_saved: int, is_flat: bool) -> None: ...
