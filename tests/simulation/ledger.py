"""What must hold from one life of the server to the next (C2-C25), said without knowing how it is built.

    For each member, every outcome that a caller recorded in, or that was exported by, the checkpoint that was restored
    is the one that every later caller gets, after any number of crashes; no judge call is made for an outcome that a
    checkpoint held; nobody waits out a deadline for siblings that are already done.

The ledger hears what passes at the server's edges and reads the files of checkpoints itself. `LifeChecker` is the
checker of one life, which knows what that life was restored with. Rewards are the serial numbers of the arrivals that
they were made for, over all lives, so that any mix-up shows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from groupjudge.checkpoints.records import Episode
from groupjudge.core.effects import Settle, StartJudging
from groupjudge.model import Arrival, Attempt, GroupFailure, GroupKey, JudgeFailure, Outcome, Rewarded, Run, Ticket

from .checker import Checker, Violation

INSTANCE = "simulated"
DEADLINE = "the judging deadline"


class Member(NamedTuple):
    """One member: `name` is its slot, or its member id where one came."""

    key: GroupKey
    attempt: Attempt
    name: int | str


class Said(NamedTuple):
    """What makes a request an exact retry of another."""

    size: int
    question: bytes
    answer: bytes


def member_of(arrival: Arrival) -> Member:
    name = arrival.slot if arrival.member_id is None else arrival.member_id
    assert name is not None
    return Member(arrival.key, arrival.attempt, name)


def said_by(arrival: Arrival) -> Said:
    return Said(arrival.size, arrival.question, arrival.answer)


@dataclass
class Session:
    """What the edge knows of an open session: the member that it brought last, and the how-manieth arrival that was."""

    episode: Episode
    restored: bool = False
    used: bool = True
    member: Member | None = None
    said: Said | None = None
    changed: float = 0.0
    number: int = 0


@dataclass
class Held:
    """An outcome that a checkpoint held, and the open sessions that brought its member."""

    said: Said
    outcome: Outcome
    sessions: set[str] = field(default_factory=set)
    replayed: bool = False


@dataclass
class Request:
    """A `/verify` on its way: `session` is the one that its cookie and prefix named when it came."""

    episode: Episode
    session: str | None
    protected: bool
    follows: bool


class Record(NamedTuple):
    """A line of a checkpoint, read here."""

    episode: Episode
    member: Member | None
    said: Said | None
    outcome: Outcome | None


@dataclass
class Commit:
    """A commit as it begins: what has to stand in its files."""

    directory: Path
    scope: frozenset[Episode] | None
    at: float
    sessions: dict[str, tuple[Session, Member | None, bool]]
    checked: bool = False


def read_records(directory: Path) -> dict[str, Record] | None:
    """The checkpoint's sessions; None where none stands."""
    place = directory / "gym" / "resources" / INSTANCE
    if not (place / "manifest.json").exists():
        return None
    manifest = json.loads((place / "manifest.json").read_text())
    rows = [json.loads(line) for line in (place / manifest["records_file"]).read_text().splitlines()]
    return {row["session_id"]: _record(row) for row in rows}


def _record(row: dict[str, Any]) -> Record:
    episode, state = Episode(**row["episode_id"]), row["state"]
    if not state:
        return Record(episode, None, None, None)
    member = Member(state["group_id"], state["attempt"], state.get("member_id", state["slot"]))
    said = Said(state["size"], bytes.fromhex(state["question"]), bytes.fromhex(state["answer"]))
    if "reward" in state:
        return Record(episode, member, said, Rewarded(state["reward"]))
    return Record(episode, member, said, JudgeFailure(state["failure_reason"]))


class Ledger:
    """One for a world; `begin` starts a new life."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.serials = 0
        self.issued: dict[float, tuple[Arrival, int, Run]] = {}
        self.life = 0
        self.unpublished: set[Path] = set()
        self.begin({})

    @property
    def now(self) -> float:
        return self._clock()

    def open_sessions(self) -> set[str]:
        """Those that have not ended, as far as anybody was told."""
        return set(self.sessions)

    def recorded_by(self, member: Member, outcome: Outcome, siblings: list[Outcome | None]) -> None:
        """A caller has recorded an outcome, beside those of its siblings."""
        runs = {self.issued[each.reward][1:] for each in (outcome, *siblings) if isinstance(each, Rewarded)}
        demand(len(runs) <= 1, "a group's callers have recorded outcomes of different runs")
        demand(self.recorded.get(member, outcome) == outcome, "another outcome than its caller had recorded")

    def begin(self, recorded: dict[Member, Outcome]) -> LifeChecker:
        """A fresh process; `recorded` is what callers had recorded in the checkpoint that will be restored."""
        self.life += 1
        self.sessions: dict[str, Session] = {}
        self.held: dict[Member, Held] = {}
        self.dropped: dict[Member, Outcome] = {}
        self.anew: set[tuple[GroupKey, Attempt]] = set()
        self.recorded = recorded
        self.recorded_groups = {member[:2] for member in recorded}
        self.retired: dict[str, int] = {}
        self.numbers: dict[int, int] = {}
        self.in_flight: dict[int, Request] = {}
        self.ending: list[str] = []
        self.is_open = False
        self.is_busy = False
        self.lease_ends = (0.0, 0.0)
        self.commits: list[Commit] = []
        self.restoring: dict[str, Record] | None = None
        self.installed: dict[str, Record] | None = None
        self.checker = LifeChecker(self)
        return self.checker

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def prepared(self, until: float) -> None:
        """A prepare was answered; its lease ends at `until` or later."""
        if not self.is_open:
            self.lease_ends = (until, max(until, self.lease_ends[1]))
        self.is_open = self.is_busy = True

    def extended(self, until: float) -> None:
        """A call was sent that may extend the lease."""
        self.lease_ends = (self.lease_ends[0], max(self.lease_ends[1], until))

    def may_resume(self) -> None:
        """A resume was sent: from now on held outcomes may be told."""
        self.is_open = False

    def resumed(self) -> None:
        """The process goes on, by a resume or because the lease is over or a restore failed: sessions that waited for
        it have ended."""
        demand(not self.opens(), "a checkpoint was ended that nobody resumed")
        self.is_open = self.is_busy = False
        for session in self.ending:
            self.ended(session)
        self.ending = []

    def went_on(self) -> None:
        """C15: every held caller has been told."""
        checker = self.checker
        for run, group in checker.reported_while_open.items():
            waits = checker.newest_run.get(group) == run and group in checker.open_of
            demand(not waits, "a held caller was not told at the resume")
        checker.reported_while_open.clear()

    def never_published(self, directories: Iterable[Path]) -> None:
        """A resume was answered: what does not stand now never will."""
        self.unpublished.update(each for each in directories if read_records(each) is None)

    def opens(self) -> bool:
        """Whether outcomes must be held now."""
        return self.is_open and self.now < self.lease_ends[0] - 0.001  # Unix times are no finer than that

    def look_at_lease(self, phase: str) -> None:
        """A server that was left alone has resumed by itself."""
        demand(phase == "idle" or self.now <= self.lease_ends[1] + 5, "a lease is over and the server has not resumed")

    def commit_begins(self, directory: Path, scope: frozenset[Episode] | None) -> None:
        """What has to be in its files, as of now; one that failed before has left none."""
        self.look_at_commits()
        self.commits = [each for each in self.commits if each.checked or each.directory != directory]
        chosen = {
            name: (each, each.member, self._must_be_exported(each))
            for name, each in self.sessions.items()
            if scope is None or each.episode in scope
        }
        self.commits.append(Commit(directory, scope, self.now, chosen))

    def look_at_commits(self) -> None:
        """Check every checkpoint that stands by now, and that none stands which may not."""
        for commit in self.commits:
            if not commit.checked and (records := read_records(commit.directory)) is not None:
                commit.checked = True
                self._check_commit(commit, records)
        for directory in self.unpublished:
            demand(read_records(directory) is None, "a checkpoint was published after its resume")

    def committed(self, directory: Path, scope: frozenset[Episode] | None, keys: list[str]) -> None:
        """A commit was answered."""
        self.look_at_commits()
        records = read_records(directory)
        demand(records is not None, "a commit was answered and its checkpoint does not stand")
        demand(keys == sorted({each.episode.key for each in records.values()}), "a commit named other episodes")
        for each in self.sessions.values():
            unused = each.restored and not each.used and each.changed < self.now
            demand(scope is None or each.episode in scope or not unused, "a session that was left out stayed")

    def _must_be_exported(self, session: Session) -> bool:
        """Whether somebody was told an outcome of the group that the session's member is in."""
        member = session.member
        if member is None:
            return False
        return member in self.held or member[:2] in self.checker.published

    def _check_commit(self, commit: Commit, records: dict[str, Record]) -> None:
        calm = {name for name, (each, *_) in commit.sessions.items() if each.changed < commit.at}
        demand(calm <= records.keys(), "an open session is not in the checkpoint")
        for name, record in records.items():
            demand(name in commit.sessions, "a session is in the checkpoint that is not open, or not in its scope")
            session, member, must = commit.sessions[name]
            demand(record.episode == session.episode, "a session is in the checkpoint as another episode's")
            if name in calm:
                demand(record.member is not None or not must, "an outcome that was told is not in the checkpoint")
                demand(record.member in (None, member), "a session is in the checkpoint with another member")
            if record.member is not None:
                self._check_outcome(record)

    def _check_outcome(self, record: Record) -> None:
        assert record.member is not None
        outcome, held = record.outcome, self.held.get(record.member)
        demand(outcome == self.checker.told.get(record.member, outcome), "a checkpoint says another outcome")
        if held is not None and record.member[:2] not in self.checker.newest_run:
            demand(outcome == held.outcome, "an outcome changed from one checkpoint to the next")
        elif isinstance(outcome, Rewarded):
            demand(outcome.reward in self.issued, "a checkpoint holds a reward that the judge never gave")
            source, life, run = self.issued[outcome.reward]
            demand(member_of(source) == record.member, "a checkpoint holds another member's reward")
            demand(said_by(source) == record.said, "a checkpoint holds a reward of another answer")
            demand(life == self.life and run not in self.checker.reported_while_open, "a held outcome was exported")

    # -- restore -----------------------------------------------------------------------------------------------------

    def restore_begins(self, directory: Path, scope: frozenset[Episode] | None) -> None:
        """What the process is told to restore."""
        found = read_records(directory)
        if found is not None and self.restoring is None:
            self.restoring = {n: each for n, each in found.items() if scope is None or each.episode in scope}

    def installs(self) -> None:
        """From now on what was restored is what every later caller gets."""
        demand(self.restoring is not None and not self.installed, "a restore out of nothing")
        self.installed = self.restoring
        for name, record in self.installed.items():
            episode = Episode(record.episode.rollout_id, record.episode.attempt + 1)
            self.sessions[name] = Session(episode, True, False, record.member, record.said, self.now)
            if record.member is not None and record.outcome is not None and record.said is not None:
                held = self.held.setdefault(record.member, Held(record.said, record.outcome))
                demand(held.outcome == record.outcome, "one member with two outcomes in a checkpoint")
                held.sessions.add(name)
        for member, outcome in self.recorded.items():
            if member in self.held:
                demand(self.held[member].outcome == outcome, "a checkpoint holds another outcome than its caller")
        self._check_one_run_a_group()

    def _check_one_run_a_group(self) -> None:
        runs: dict[object, object] = {}
        for member, outcome in [*self.recorded.items(), *((m, held.outcome) for m, held in self.held.items())]:
            if isinstance(outcome, Rewarded):
                run = self.issued[outcome.reward][1:]
                demand(runs.setdefault(member[:2], run) == run, "a group's outcomes are of different runs")

    def restored(self, keys: list[str]) -> None:
        """A restore was answered."""
        demand(self.installed is not None, "a restore was answered that installed nothing")
        episodes = {Episode(e.episode.rollout_id, e.episode.attempt + 1).key for e in self.installed.values()}
        demand(keys == sorted(episodes), "a restore named other episodes")

    # -- sessions ----------------------------------------------------------------------------------------------------

    def session_of(self, session: str | None, episode: Episode) -> str | None:
        """The session that a request is in."""
        found = self.sessions.get(session or "")
        return session if found is not None and found.episode == episode else None

    def used(self, session: str | None, episode: Episode) -> str | None:
        """The same; a request uses it."""
        named = self.session_of(session, episode)
        if named is not None:
            self.sessions[named].used = True
        return named

    def seeded(self, session: str, episode: Episode) -> None:
        demand(not self.is_retired(episode), "a retired episode got a session")
        if session not in self.sessions:
            demand(not self.is_busy, "a session was opened while a checkpoint is open")
            self.sessions[session] = Session(episode, changed=self.now)
        demand(self.sessions[session].episode == episode, "an episode got another episode's session")

    def _is_left_out(self, session: Session) -> bool:
        scopes = [
            commit.scope for commit in self.commits if commit.checked or read_records(commit.directory) is not None
        ]
        outside = any(scope is not None and session.episode not in scope for scope in scopes)
        return outside and session.restored and not session.used

    def ended(self, session: str) -> None:
        """A session was closed, or its `/verify` was answered and no close follows."""
        gone = self.sessions.pop(session, None)
        if gone is not None and gone.member in self.held:
            self.held[gone.member].sessions.discard(session)
            self.held[gone.member].replayed = True

    def dropped_session(self, session: str) -> None:
        """A session was retired or deleted (C23)."""
        each = self.sessions.get(session)
        demand(each is not None, "a session was deleted that is not open")
        demand(self.is_retired(each.episode) or self._is_left_out(each), "a session was deleted that is needed")
        gone = self.sessions.pop(session, None)
        held = None if gone is None or gone.member is None else self.held.get(gone.member)
        if held is not None and gone is not None and gone.member is not None:
            held.sessions.discard(session)
            if not held.sessions and not held.replayed:
                self.dropped[gone.member] = self.held.pop(gone.member).outcome
                if all(member[:2] != gone.member[:2] for member in self.held):
                    self.may_form_anew(gone.member[:2])  # C23: of its restored members none is left

    def may_form_anew(self, group: tuple[GroupKey, Attempt]) -> None:
        """What callers had recorded of it binds nobody any more."""
        self.recorded_groups.discard(group)
        self.recorded = {member: each for member, each in self.recorded.items() if member[:2] != group}
        self.anew.add(group)

    def verify_ended(self, serial: int, *, told: bool) -> None:
        """A `/verify` is over; `told`: with 200."""
        request = self.in_flight.pop(serial)
        if told and request.session is not None and not request.follows:
            if self.is_busy and self.session_of(request.session, request.episode):
                self.ending.append(request.session)
            else:
                self.ended(request.session)

    def is_retired(self, episode: Episode) -> bool:
        return episode.attempt <= self.retired.get(episode.rollout_id, -1)

    def retires(self, episodes: Iterable[Episode]) -> None:
        """A retire was taken: these are refused from now on."""
        for rollout_id, attempt in episodes:
            self.retired[rollout_id] = max(attempt, self.retired.get(rollout_id, -1))

    def has_retired(self, episodes: Iterable[Episode]) -> None:
        """It was answered: nothing of them is in flight, and their sessions are freed."""
        newest = {each.rollout_id: each.attempt for each in sorted(episodes)}
        busy = [
            each for each in self.in_flight.values() if each.episode.attempt <= newest.get(each.episode.rollout_id, -1)
        ]
        demand(not busy, "an episode was retired whose requests are in flight")
        left = [
            each for each in self.sessions.values() if each.episode.attempt <= newest.get(each.episode.rollout_id, -1)
        ]
        demand(not left, "a retired episode's session stayed")

    # -- members -----------------------------------------------------------------------------------------------------

    def promised(self, arrival: Arrival) -> bool:
        """Whether a checkpoint held the outcome of this very answer, and an open session still needs it."""
        held = self.held.get(member_of(arrival))
        return held is not None and bool(held.sessions) and held.said == said_by(arrival)

    def brought(self, arrival: Arrival, session: str | None) -> None:
        """An arrival was accepted; `session`: the one that the server says brought it."""
        request = self.in_flight[arrival.material]  # type: ignore[index]
        named = self.session_of(request.session, request.episode)
        demand(session == named, "a member was brought in a session that the request does not name")
        member = member_of(arrival)
        number = self.numbers[arrival.material] = len(self.numbers) + 1  # type: ignore[index]
        for older in [each for each in self.held if each.key == member.key and each.attempt < member.attempt]:
            del self.held[older]
        if named is not None:
            this = self.sessions[named]
            if this.member in self.held and this.member != member:
                self.held[this.member].sessions.discard(named)
            this.member, this.said, this.changed, this.number = member, said_by(arrival), self.now, number
            if member in self.held:
                self.held[member].sessions.add(named)

    def begins_with(self, group: tuple[GroupKey, Attempt], serials: Iterable[int]) -> None:
        """These answers make a run of the group: what was brought before them went with an earlier one (C4)."""
        first = min(self.numbers[serial] for serial in serials)
        for each in self.sessions.values():
            if each.member is not None and each.member[:2] == group and each.number < first:
                each.member = each.said = None


class LifeChecker(Checker):
    """L24 in one life, with what it was restored with."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(default_score=3.0)
        self.ledger = ledger
        self.told: dict[Member, Outcome] = {}
        self.reported_while_open: dict[Run, tuple[GroupKey, Attempt]] = {}
        self.group_of: dict[Run, tuple[GroupKey, Attempt]] = {}
        self.at_once: Ticket | None = None

    def accepted(self, ticket: Ticket, arrival: Arrival) -> None:
        if self.ledger.promised(arrival):
            self.at_once = ticket
        super().accepted(ticket, arrival)

    def judging_started(self, effect: StartJudging) -> None:
        super().judging_started(effect)
        for material in effect.materials:
            run, _, arrival = self.judged[material]  # type: ignore[index]
            self.ledger.issued[float(material)] = (arrival, self.ledger.life, run)  # type: ignore[arg-type]
        group = self.group_of[effect.run] = (effect.key, effect.attempt)
        self.ledger.begins_with(group, effect.materials)  # type: ignore[arg-type]
        demand(group not in self.ledger.recorded_groups, "a group was judged again whose outcome a caller had recorded")
        standing = [m for m, held in self.ledger.held.items() if m[:2] == group and held.sessions]
        demand(not standing, "a group was judged again whose outcome a checkpoint held")

    def judge_reports(self, run: Run) -> None:
        if self.ledger.opens() and run in self.running:
            self.reported_while_open[run] = self.group_of[run]
        super().judge_reports(run)

    def settled(self, effect: Settle) -> None:
        arrival, outcome = self.open[effect.ticket], effect.outcome
        member, group = member_of(arrival), (arrival.key, arrival.attempt)
        held, run = self.ledger.held.get(member), self.newest_run.get(group)
        if isinstance(outcome, GroupFailure):
            self._failed(arrival, outcome)
            super().settled(effect)
            return
        demand(
            run is None or run not in self.reported_while_open or not self.ledger.opens(),
            "a held outcome was told while the checkpoint is open",
        )
        if held is not None and run is None:
            demand(
                outcome == held.outcome and said_by(arrival) == held.said, "another outcome than the checkpoint held"
            )
            held.replayed = True
            self._forget(effect.ticket)
            self.replied_count += 1
        else:
            demand(run is not None, "an outcome out of nothing")
            super().settled(effect)
        self.told[member] = outcome

    def _failed(self, arrival: Arrival, failure: GroupFailure) -> None:
        demand(not self.ledger.promised(arrival) or failure.kind == "superseded", "a promise ended as a failed group")
        self.reported_while_open.pop(self.newest_run.get(arrival[:2], Run(-1)), None)
        request = self.ledger.in_flight.get(arrival.material)  # type: ignore[call-overload]
        waits_in_vain = arrival[:2] in self.ledger.recorded_groups and request is not None and request.protected
        demand(
            failure.kind != "collection_timeout" or not waits_in_vain,
            "a deadline was waited out for siblings that are done",
        )

    def batch_over(self) -> None:
        super().batch_over()
        demand(self.at_once not in self.open, "an outcome that a checkpoint held was waited for")
        self.at_once = None

    def formed_anew(self, arrival: Arrival) -> None:
        """It waits: what was known of its group before is over."""
        self.published.pop(arrival[:2], None)
        for member in [each for each in self.told if each[:2] == arrival[:2]]:
            del self.told[member]


def demand(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)
