"""What the client gives back. Refusals and group failures are no values: they are raised (errors.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Rewarded:
    """A member's reward, a finite number, and the slot that the member has. `failure_kind` and `failure_reason` are set
    only where the server is configured to put default scores in the place of unreadable verdicts, `group_size_judged`
    only where it judges groups of which not all members came: how many did."""

    reward: float
    slot: int
    failure_kind: str | None = None
    failure_reason: str | None = None
    group_size_judged: int | None = None


@dataclass(frozen=True, slots=True)
class JudgeFailure:
    """The judge failed: there is no reward, and `reward` is None, not 0. Leave the sample out of the update.
    `group_size_judged` as in `Rewarded`."""

    reason: str
    slot: int
    group_size_judged: int | None = None

    @property
    def reward(self) -> None:
        """None, so that `[outcome.reward for outcome in outcomes]` says who is left out."""


Outcome: TypeAlias = Rewarded | JudgeFailure


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a whole group, in the order of its answers. `verdicts` (`response_i`, `response_j`, `judge_idx`,
    `score_1`, `score_2`, `ranking`) and `metrics` are None where nothing was compared, or where the server has only
    kept the rewards."""

    outcomes: tuple[Outcome, ...]
    verdicts: list[dict[str, float]] | None = None
    metrics: dict[str, float] | None = None

    @property
    def rewards(self) -> list[float | None]:
        """One for each answer; None where there is none."""
        return [outcome.reward for outcome in self.outcomes]


@dataclass(frozen=True, slots=True)
class Submission:
    """A member that was sent and whose outcome is to be fetched, by any process: it can be pickled. `request` is what
    was sent, to be sent again where the server has forgotten it; `outcome` is there where it was known at once."""

    group_id: str
    attempt: int
    slot: int
    request: bytes = field(repr=False)
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request: the path is what follows the server's address."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply, whole; the names of `headers` are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for so many seconds. `trouble`: what failed, where that is why."""

    seconds: float
    trouble: str | None = None
