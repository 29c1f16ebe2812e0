"""What becomes of a file while it is judged, in memory that does not grow with it."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from groupjudge.model import JudgeUsage
from groupjudge.offline.usage import Usage

KINDS_AT_MOST = 50
OTHERS = "other reasons"
_REASON_SHOWN = 300
_WINDOW_S = 30.0


@dataclass(slots=True)
class Kind:
    """Failures of one kind: how many, and the first of them."""

    count: int
    line: int
    reason: str


class Failures:
    """The groups that the judge failed: how many, by kind, and how many in a row. Kinds beyond `KINDS_AT_MOST` are
    counted as `OTHERS`."""

    def __init__(self) -> None:
        self.count = 0
        self.in_a_row = 0
        self.last = ""
        self.kinds: dict[str, Kind] = {}
        self.tries: Counter[str] = Counter()

    def add(self, line: int, kind: str, reason: str, usage: Usage) -> None:
        """The group of `line` failed."""
        self.count += 1
        self.in_a_row += 1
        self.last = reason[:_REASON_SHOWN]
        self.tries += usage.tries
        if kind not in self.kinds and len(self.kinds) >= KINDS_AT_MOST:
            kind = OTHERS
        self.kinds.setdefault(kind, Kind(0, line, self.last)).count += 1


@dataclass(slots=True)
class Tally:
    """Groups judged now, found done, and failed; lines that are no good. Of the verdicts of groups judged now, default
    scores stood in for `defaulted`. `gave_up`: whether judging was stopped because
    too many groups in a row failed, or what the judge may cost is used up (`spent`)."""

    judged: int = 0
    skipped: int = 0
    verdicts: int = 0
    defaulted: int = 0
    failures: Failures = field(default_factory=Failures)
    bad_lines: int = 0
    gave_up: bool = False
    spent: bool = False

    @property
    def done(self) -> int:
        """Groups and lines that are dealt with."""
        return self.judged + self.skipped + self.failures.count + self.bad_lines

    @property
    def is_clean(self) -> bool:
        """Whether every line was of use and every group judged."""
        return not self.failures.count and not self.bad_lines

    def summary(self) -> str:
        """In one line for people."""
        parts = [f"{counted(self.judged, 'group')} judged with {counted(self.verdicts, 'verdict')}"]
        if self.defaulted:
            parts[0] += f", {self.defaulted:,} of them default scores"
        if self.skipped:
            parts.append(f"{self.skipped:,} had been judged before")
        if self.failures.count:
            parts.append(f"{self.failures.count:,} failed (the next run judges them again)")
        if self.bad_lines:
            parts.append(counted(self.bad_lines, "bad line"))
        return "; ".join(parts)


class Pace:
    """How many verdicts came in a second, over the last half minute."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def per_second(self, now: float, verdicts: int) -> float:
        """`verdicts` is how many there are at `now` (seconds, never less than before). 0 where no time has passed."""
        points = self._points
        if not points or now - points[-1][0] >= _WINDOW_S / 100:
            points.append((now, verdicts))
        while now - points[0][0] > _WINDOW_S and len(points) > 1:
            points.popleft()
        begun, before = points[0]
        return (verdicts - before) / (now - begun) if now > begun else 0.0


def counted(number: int, noun: str) -> str:
    """`1 group`, `2,000 groups`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def cost(usage: JudgeUsage) -> str:
    """What one judge cost, in one line for people."""
    tokens = f"{usage.prompt_tokens:,} tokens of requests and {usage.completion_tokens:,} of replies"
    money = "" if usage.money is None else f", {usage.money:,.2f} in money"
    return f"{usage.judge}: {counted(usage.calls, 'call')}, {tokens}{money}"
