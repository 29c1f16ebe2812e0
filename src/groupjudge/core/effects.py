"""What the host must do, in the order in which `Book.drain()` lists it."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from groupjudge.model import Attempt, GroupKey, Judgement, Outcome, Run, Slot, Ticket


class StartJudging(NamedTuple):
    """Judge the group of `run`; report with `Book.judged` or `Book.judging_failed`, naming the run. `materials` are in
    slot order, `topic` is that of the group's first member. `slots` says where each material sits: in all slots of a
    complete group, or in those of the members that came of a group of `size` (F8). Rewards are reported in this order.
    """

    run: Run
    key: GroupKey
    attempt: Attempt
    topic: object
    materials: tuple[object, ...]
    slots: tuple[Slot, ...]
    size: int


class Seated(NamedTuple):
    """A member of a group of `size` has come, and may be compared with those that were seated before, while the group
    waits for the others (F7; only where `Limits.eager`). Either `StartJudging` or `StopJudging` follows for the run."""

    run: Run
    key: GroupKey
    attempt: Attempt
    topic: object
    slot: Slot
    size: int
    material: object


class StopJudging(NamedTuple):
    """Cancel the judging of `run`, of one that had members seated too; what it still reports is ignored."""

    run: Run


class Settle(NamedTuple):
    """Answer the caller of `ticket`, whose member sits in `slot`. Comes exactly once for each ticket that was neither
    left nor settled before."""

    ticket: Ticket
    slot: Slot
    outcome: Outcome


class SettleAll(NamedTuple):
    """Answer the caller of `ticket`, who brought a whole group: an outcome for each slot, of one kind. `judgement` is
    there where the group completed in this process. Comes as `Settle` does, and in its place."""

    ticket: Ticket
    outcomes: tuple[Outcome, ...]
    judgement: Judgement | None


class Release(NamedTuple):
    """The core lets go of this `Arrival.material`; comes exactly once for each accepted or replayed arrival."""

    material: object


Effect: TypeAlias = Seated | StartJudging | StopJudging | Settle | SettleAll | Release
