"""What is remembered of finished groups: their results, the newest attempts of idle ids, and who still needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from groupjudge.core.backing import Backing, Backings, SessionId
from groupjudge.core.phases import Phase
from groupjudge.core.retention import Record, Records, Result, Results, Store
from groupjudge.core.seats import Seats
from groupjudge.model import Attempt, Fingerprint, GroupFailure, GroupId, GroupKey, Outcome, Rewarded, Run, Slot


class Exported(NamedTuple):
    """What a session needs of a finished group (C16): its member and what that got."""

    key: GroupId
    attempt: Attempt
    size: int
    question: Fingerprint
    slot: Slot
    member_id: str | None
    answer: Fingerprint
    outcome: Outcome


class Restored(NamedTuple):
    """An exported member on its way back, with the session that brought it."""

    session: SessionId
    member: Exported


def by_group(members: Sequence[Restored]) -> dict[tuple[GroupId, Attempt], list[Restored]]:
    """Members by the group and attempt that they belong to."""
    groups: dict[tuple[GroupId, Attempt], list[Restored]] = {}
    for each in members:
        groups.setdefault((each.member.key, each.member.attempt), []).append(each)
    return groups


def _as_kept(outcome: Outcome) -> Outcome:
    """What a checkpoint can keep of an outcome: C16's keys have none for how many members were judged (F8)."""
    if isinstance(outcome, GroupFailure) or outcome.group_size_judged is None:
        return outcome
    return replace(outcome, group_size_judged=None)


class Memory:
    """The two stores (L18) and the sessions of C4. A result that an open session brought is spared, and its record."""

    def __init__(self, max_results: int, max_attempt_records: int, ttl_s: float | None) -> None:
        self.results: Results = Store(max_results, ttl_s, self._is_needed)
        self.records: Records = Store(max_attempt_records, ttl_s, self._is_needed)
        self.backings = Backings()

    def known(self, key: GroupKey) -> Result | Record | None:
        """What is known of the newest attempt of an idle key (L10): its result, or that there was one."""
        result = self.results.get(key)
        record = self.records.get(key) if isinstance(key, str) else None
        if record is not None and (result is None or record.attempt > result.attempt):
            return record
        return result

    def retain(self, result: Result) -> None:
        """L17, L18; L20: a completed group without an id is forgotten at once."""
        if isinstance(result.key, str) or result.phase is not Phase.COMPLETED:
            self.results.put(result.key, result)
        if isinstance(result.key, str):
            self.records.put(result.key, Record(result.attempt, result.question, result.since))
        if result.phase is Phase.GROUP_FAILED and result.backing is not None:
            self.backings.forget(result.backing)  # nobody recorded an outcome of it: there is nothing to keep

    def renew(self, result: Result, slots: Sequence[Slot], now: float) -> None:
        """An exact retry of some members of a named group was answered (L18, C23)."""
        if isinstance(result.key, str):
            self.records.put(result.key, Record(result.attempt, result.question, now))
        if result.backing is not None:
            result.backing.unreplayed.difference_update(slots)

    def forget(self, key: GroupKey) -> None:
        """L11: nothing of an idle key is known any more."""
        result = self.results.get(key)
        if result is not None and result.backing is not None:
            self.backings.forget(result.backing)
        self.results.drop(key)
        if isinstance(key, str):
            self.records.drop(key)

    def evict(self, now: float) -> None:
        """Drop what is over age or too many."""
        self.results.evict(now)
        self.records.evict(now)

    def next_expiry(self) -> float | None:
        """When something will be over age next."""
        due = (self.results.next_expiry(), self.records.next_expiry())
        return min((when for when in due if when is not None), default=None)

    # -- sessions --------------------------------------------------------------------------------------------------

    def bind(self, session: SessionId, backing: Backing | None, slot: Slot, now: float) -> None:
        """An open session has brought this member; what it brought before is let go last."""
        before = self.backings.get(session)
        left = None if before is None else before.sessions[session]
        self.backings.bind(session, backing, slot)
        if before is not None and left is not None:
            if not before.backs(left):
                before.unreplayed.discard(left)
            self._recheck(before, now)

    def session_over(self, session: SessionId, *, dropped: bool, now: float) -> None:
        """A session ended; `dropped`: it was retired or deleted before its episode went on (C23)."""
        backing = self.backings.get(session)
        if backing is None:
            return
        slot = backing.sessions[session]
        self.backings.let_go(session)
        if slot in backing.unreplayed:
            self._unreplayed_over(backing, slot, dropped=dropped)
        self._recheck(backing, now)

    def forget_sessions(self, now: float) -> None:
        """C4: at shutdown nobody goes on."""
        for key, result in tuple(self.results):
            if result.backing is not None and result.backing.sessions:
                self.backings.forget(result.backing)
                self.results.recheck(key, now)
                if isinstance(key, str):
                    self.records.recheck(key, now)

    def _unreplayed_over(self, backing: Backing, slot: Slot, *, dropped: bool) -> None:
        """C23: closed, its member is an ordinary one; dropped, it takes its member along, unless another backs it."""
        if not dropped:
            backing.unreplayed.discard(slot)
        elif not backing.backs(slot):
            backing.unreplayed.discard(slot)
            self._drop_member(backing, slot)

    def _drop_member(self, backing: Backing, slot: Slot) -> None:
        result = self.results.get(backing.key)
        assert result is not None
        assert result.backing is backing, "a restored member belongs to another group"
        result.seats.vacate(slot)
        if result.seats.taken == 0:
            self.forget(backing.key)

    def _recheck(self, backing: Backing, now: float) -> None:
        if not backing.sessions:
            self.results.recheck(backing.key, now)
            self.records.recheck(backing.key, now)

    def _is_needed(self, key: GroupKey) -> bool:
        result = self.results.get(key)
        return result is not None and result.backing is not None and bool(result.backing.sessions)

    # -- out and in ------------------------------------------------------------------------------------------------

    def exported(self, session: SessionId) -> Exported | None:
        """What the checkpoint keeps of an open session; None where its group has no outcome that a row records."""
        backing = self.backings.get(session)
        result = None if backing is None else self.results.get(backing.key)
        if backing is None or result is None or result.backing is not backing:
            return None
        slot = backing.sessions[session]
        answer = result.seats.answers[slot]
        assert answer is not None, "a session names an empty slot"
        seats, outcome = result.seats, _as_kept(result.outcomes[slot])
        member_id = None if seats.by_member is None else seats.member_id_of(slot)
        return Exported(backing.key, result.attempt, seats.size, result.question, slot, member_id, answer, outcome)

    def install(self, run: Run, members: Sequence[Restored], now: float) -> None:
        """C21: one finished group of the exported `members`, which agree on all but slot, answer and outcome (C20)."""
        first = members[0].member
        seats = Seats(first.size, None if first.member_id is None else {})
        backing = Backing(first.key, run)
        outcomes: list[Outcome] = [first.outcome] * first.size
        for session, member in members:
            seats.put_back(member.slot, member.answer, member.member_id)
            outcomes[member.slot] = member.outcome
            self.backings.bind(session, backing, member.slot)
            backing.unreplayed.add(member.slot)
        phase = Phase.COMPLETED if isinstance(first.outcome, Rewarded) else Phase.JUDGE_FAILED
        times = (now, now, now)
        named = (first.key, first.attempt, run, phase, first.question)
        self.retain(Result(*named, seats, tuple(outcomes), None, backing, *times))
