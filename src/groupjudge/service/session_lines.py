"""What open sessions say in a checkpoint, as lines of text that are written before anybody asks for one.

A line is written when its session's member has its outcome, and stays right as long as the session brings no other
member and hangs on the same backing (a newer attempt of the group takes it away). So a commit of many sessions has
little to do but to look and to join, and takes about as long as writing its bytes (C26).
"""

from __future__ import annotations

from collections.abc import Iterable

from groupjudge.answers.fingerprint import SCHEME
from groupjudge.checkpoints.records import Lines
from groupjudge.service.host import Host
from groupjudge.service.sessions import OpenSession


class SessionLines:
    """The lines of sessions whose members are in `host`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lines = Lines(SCHEME)

    def lines(self, entries: Iterable[OpenSession]) -> list[str]:
        """Their lines as of now."""
        return [
            entry.line
            if entry.line is not None and entry.backing is not None and entry.session in entry.backing.sessions
            else self.write(entry)
            for entry in entries
        ]

    def write(self, entry: OpenSession) -> str:
        """The session's line, which is kept where its member has its outcome."""
        member = self._host.exported(entry.session)
        line = self._lines.line(entry.session, entry.episode, member)
        if member is not None:
            entry.line, entry.backing = line, self._host.backing_of(entry.session)
        return line
