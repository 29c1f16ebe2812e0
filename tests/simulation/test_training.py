"""Training runs that checkpoint and crash, watched by a ledger that knows only what must hold from one life of the
server to the next (C2-C25, L24)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from queue import SimpleQueue
from typing import Any

import pytest

from groupjudge.checkpoints import files
from groupjudge.checkpoints.records import Episode
from groupjudge.core.backing import SessionId
from groupjudge.core.book import Book, Limits
from groupjudge.core.effects import Effect
from groupjudge.core.memory import Restored
from groupjudge.model import Run as JudgeRun
from groupjudge.service.checkpointing import Participant
from groupjudge.service.control import ControlPlane
from groupjudge.service.sessions import Cookies, OpenSession, SessionTable
from groupjudge.service.visits import OpenEpisodes, Visit

from .checker import Violation
from .process import Kinds
from .run import run_of
from .training import Run

EVENTS = 10_000


@pytest.mark.parametrize("seed", [4_000, 4_100])
def test_what_a_checkpoint_held_is_what_every_later_caller_gets(seed: int) -> None:
    """C22, C2-C25, L24: after any crashes; nobody judges it again, nobody waits for siblings that are done."""
    reports = [run_of(seed + n, EVENTS) for n in range(3)]
    assert sum(report.restores for report in reports) > 5
    assert sum(report.told["Rewarded"] for report in reports) > 1_000
    assert sum(report.told["JudgeFailure"] for report in reports) > 50


def _with_members(change: Callable[[list[Restored]], list[Restored]]) -> Kinds:
    class Sabotaged(Book):
        def install(self, members: Sequence[Restored], now: float) -> None:
            super().install(change(list(members)), now)

    return Kinds(book=Sabotaged)


def _swapped(members: list[Restored]) -> list[Restored]:
    """Siblings have each other's outcomes."""
    changed = list(members)
    for n, (one, other) in enumerate(pairwise(members)):
        if one.member[:2] == other.member[:2] and one.member.slot != other.member.slot:
            changed[n] = one._replace(member=one.member._replace(outcome=other.member.outcome))
    return changed


class _NothingHeld(Book):
    def hold(self) -> None:
        """Outcomes go on being told."""


class _OneStaysHeld(Book):
    def release(self, now: float) -> None:
        if self._held:
            del self._held[next(iter(self._held))]
        super().release(now)


class _NothingSpared(Book):
    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._memory.results._is_needed = lambda key: False


class _NothingDropped(Book):
    def session_over(self, session: SessionId, *, dropped: bool, now: float) -> None:
        super().session_over(session, dropped=False, now=now)


class _EverythingDropped(Book):
    def session_over(self, session: SessionId, *, dropped: bool, now: float) -> None:
        backing = self._memory.backings.get(session)
        if backing is not None and self._memory.results.get(backing.key) is not None:
            self._memory.forget(backing.key)
        super().session_over(session, dropped=dropped, now=now)


class _ToldLater(Book):
    """What a restored group's callers get comes when time passes."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._late: list[Effect] = []

    def _replay(self, result: Any, arrival: Any) -> Any:
        admitted = super()._replay(result, arrival)
        if result.judgement is None:
            self._late.append(self._effects.pop(-2))
        return admitted

    def advance(self, now: float) -> None:
        self._effects += self._late
        self._late = []
        super().advance(now)


class _AnyEpisode(SessionTable):
    def named(self, cookie: str, key: str | None, cookies: Cookies) -> OpenSession | None:
        entry = self.get(SessionId(cookie.rpartition(".")[0]))
        return super().named(cookie, key if entry is None else entry.key, cookies)


class _UnsignedCookies(SessionTable):
    def named(self, cookie: str, key: str | None, cookies: Cookies) -> OpenSession | None:
        session = SessionId(cookie.rpartition(".")[0])
        return super().named(cookies.value_of(session), key, cookies)


class _SameAttempt(SessionTable):
    def restore(self, session: SessionId, episode: Episode) -> None:
        super().restore(session, Episode(episode.rollout_id, episode.attempt - 1))


class _OneSessionLost(SessionTable):
    def restore(self, session: SessionId, episode: Episode) -> None:
        if len(self) != 1:
            super().restore(session, episode)
        else:
            super().restore(SessionId(f"{session}x"), episode)


class _NobodyInFlight(SessionTable):
    def in_flight(self, newest: Any) -> list[Episode]:
        return []


class _RetiresNobody(SessionTable):
    def retire(self, episodes: Iterable[Episode]) -> None:
        """They may go on."""


class _EndsAtOnce(OpenEpisodes):
    def answered(self, visit: Visit) -> None:
        busy, self.is_busy = self.is_busy, False
        super().answered(visit)
        self.is_busy = busy


class _NeverEnds(OpenEpisodes):
    def answered(self, visit: Visit) -> None:
        visit.close_follows = True
        super().answered(visit)


class _DoorOpen(OpenEpisodes):
    def begin(self) -> None:
        self.is_busy = True


class _NoLease(ControlPlane):
    def expire(self, now: float) -> str | None:
        return None


class _ShortLease(ControlPlane):
    def _extend(self, deadline: float) -> None:
        assert self._active is not None
        self._active.lease_until = min(self._active.lease_until, deadline)


class _ForgetsResumes(ControlPlane):
    def _go_idle(self, checkpoint_id: str) -> None:
        super()._go_idle(checkpoint_id)
        self._resumed.clear()


class _PublishesAfterAll(files.Publication):
    def stop(self) -> bool:
        return True


class _WithLines(Participant):
    """Its records are changed on their way to the file."""

    def change(self, lines: list[str]) -> list[str]:
        return lines

    async def _export(self, scope: Any, pieces: SimpleQueue[Any], *args: Any) -> Any:
        ours: SimpleQueue[Any] = SimpleQueue()
        found = await super()._export(scope, ours, *args)
        while (piece := ours.get()) is not None:
            pieces.put("".join(self.change(piece.decode().splitlines(keepends=True))).encode())
        pieces.put(None)
        return found


REWARD = re.compile(r'"reward":[^,}]*')


class _RewardsMixed(_WithLines):
    def change(self, lines: list[str]) -> list[str]:
        told = [match[0] for line in lines if (match := REWARD.search(line))]
        turned = iter(told[1:] + told[:1])
        return [REWARD.sub(lambda _: next(turned), line) for line in lines]


class _OneRecordLost(_WithLines):
    def change(self, lines: list[str]) -> list[str]:
        return lines[1:]


class _OutcomesLost(_WithLines):
    def change(self, lines: list[str]) -> list[str]:
        return [re.sub(r'"state":\{.*\},"owner"', '"state":{},"owner"', line) for line in lines]


class _AnyScope(Participant):
    async def _export(self, scope: Any, *args: Any) -> Any:
        return await super()._export(None, *args)


class _DropsUsedOnes(Participant):
    async def _drop_left_out(self, scope: Any) -> None:
        left_out = [each for each in self._table if scope is not None and each.episode not in scope]
        await self._drop_all(left_out, lambda entry: True)


class _DropsNobody(Participant):
    async def _drop_left_out(self, scope: Any) -> None:
        """They stay."""


class _TellsAfterwards(Participant):
    def _go_on(self) -> None:
        release, self._host.release = self._host.release, lambda: None  # type: ignore[method-assign]
        super()._go_on()
        self._host.release = release  # type: ignore[method-assign]
        self._loop.call_later(0.01, release)


class _JudgesAgain(Book):
    """A replay is a new group's first member."""

    def _replay(self, result: Any, arrival: Any) -> Any:
        if result.run == JudgeRun(1) or result.judgement is None:
            return self._first(arrival, None)
        return super()._replay(result, arrival)


SABOTAGE = {
    "siblings' outcomes are swapped at the restore": _with_members(_swapped),
    "a member is lost at the restore": _with_members(lambda members: members[1:]),
    "nothing is installed": _with_members(lambda members: []),
    "a replay is judged again": Kinds(book=_JudgesAgain),
    "a replay is told late": Kinds(book=_ToldLater),
    "outcomes are not held": Kinds(book=_NothingHeld),
    "a held outcome is not told": Kinds(book=_OneStaysHeld),
    "what open sessions need is evicted": Kinds(book=_NothingSpared),
    "a member stays that nobody backs": Kinds(book=_NothingDropped),
    "a group goes with one of its sessions": Kinds(book=_EverythingDropped),
    "a session is another episode's": Kinds(table=_AnyEpisode),
    "a forged cookie is a session": Kinds(table=_UnsignedCookies),
    "a restored session is the old attempt's": Kinds(table=_SameAttempt),
    "a restored session has another name": Kinds(table=_OneSessionLost),
    "nobody is waited for": Kinds(table=_NobodyInFlight),
    "a retired episode goes on": Kinds(table=_RetiresNobody),
    "a session ends while a checkpoint is open": Kinds(episodes=_EndsAtOnce),
    "a session never ends": Kinds(episodes=_NeverEnds),
    "sessions are opened while a checkpoint is open": Kinds(episodes=_DoorOpen),
    "the lease never ends": Kinds(plane=_NoLease),
    "the lease ends too soon": Kinds(plane=_ShortLease),
    "an id is opened again after its resume": Kinds(plane=_ForgetsResumes),
    "a checkpoint is published after its resume": Kinds(publication=_PublishesAfterAll),
    "rewards are mixed up in the file": Kinds(participant=_RewardsMixed),
    "a record is lost on its way to the file": Kinds(participant=_OneRecordLost),
    "outcomes are lost on their way to the file": Kinds(participant=_OutcomesLost),
    "sessions outside the scope are exported": Kinds(participant=_AnyScope),
    "used sessions outside the scope are deleted": Kinds(participant=_DropsUsedOnes),
    "unused sessions outside the scope stay": Kinds(participant=_DropsNobody),
    "held callers are told after the resume": Kinds(participant=_TellsAfterwards),
}


@pytest.mark.parametrize("name", SABOTAGE)
def test_the_ledger_sees_a_fault(name: str) -> None:
    """Each promise, broken on purpose, is a violation."""
    with pytest.raises(Violation):
        _runs(SABOTAGE[name])


def _runs(kinds: Kinds) -> None:
    """So many that everything has happened. A server that breaks is a violation too."""
    for seed in range(1, 40):
        try:
            Run(seed, kinds).run(3_000)
        except Exception as error:
            raise Violation(f"seed {seed}: {error or type(error).__name__}") from error
