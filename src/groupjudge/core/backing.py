"""Which sessions brought which members (C4), and which members of a restored group still wait for their replay (C23).

A `Backing` belongs to one group and goes with it from its life into its result; `Backings` finds the one a session is
in. The last member that a session brought counts, so a session is in one backing at most, and nothing here grows with
the length of a run.
"""

from __future__ import annotations

from typing import NewType

from groupjudge.model import GroupId, Run, Slot

SessionId = NewType("SessionId", str)


class Backing:
    """The open sessions of one group, each with the slot that it brought. `unreplayed` are the slots of a restored
    group whose sessions have not asked again yet."""

    __slots__ = ("key", "run", "sessions", "unreplayed")

    def __init__(self, key: GroupId, run: Run) -> None:
        self.key = key
        self.run = run
        self.sessions: dict[SessionId, Slot] = {}
        self.unreplayed: set[Slot] = set()

    def backs(self, slot: Slot) -> bool:
        """Whether an open session still names the slot."""
        return slot in self.sessions.values()


class Backings:
    """Each open session's backing."""

    def __init__(self) -> None:
        self._by_session: dict[SessionId, Backing] = {}

    def __len__(self) -> int:
        return len(self._by_session)

    def get(self, session: SessionId) -> Backing | None:
        """The backing that a session is in."""
        return self._by_session.get(session)

    def bind(self, session: SessionId, backing: Backing | None, slot: Slot) -> None:
        """The session has brought this member; `backing` None: one that is not remembered."""
        self.let_go(session)
        if backing is not None:
            self._by_session[session] = backing
            backing.sessions[session] = slot

    def let_go(self, session: SessionId) -> None:
        """The session backs nothing any more."""
        backing = self._by_session.pop(session, None)
        if backing is not None:
            del backing.sessions[session]

    def forget(self, backing: Backing) -> None:
        """The group's records are gone: with it, or at shutdown."""
        for session in backing.sessions:
            del self._by_session[session]
        backing.sessions.clear()
        backing.unreplayed.clear()
