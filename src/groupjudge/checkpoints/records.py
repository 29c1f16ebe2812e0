"""One line of a checkpoint: a session, its episode, and what it needs restored (C14)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from groupjudge.core.backing import SessionId
from groupjudge.core.memory import Exported
from groupjudge.core.snapshot import to_state
from groupjudge.errors import InvalidCheckpoint
from groupjudge.model import Rewarded

_ROLLOUT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ATTEMPT_ENDING = re.compile(r"-a[1-9][0-9]*\Z")
# Goes into a cookie again: nothing in it may break a header.
_SESSION_ID = re.compile(r"[A-Za-z0-9._:~-]{1,256}")
MAX_ATTEMPT = 2**63
"""Attempts are below it."""


class Episode(NamedTuple):
    """One attempt at one rollout (C1)."""

    rollout_id: str
    attempt: int = 0

    @property
    def key(self) -> str:
        """How the episode is named in paths and replies."""
        return self.rollout_id if self.attempt == 0 else f"{self.rollout_id}-a{self.attempt}"


def is_rollout_id(value: object) -> bool:
    """Whether a value may name a rollout."""
    return isinstance(value, str) and _ROLLOUT_ID.fullmatch(value) is not None and _ATTEMPT_ENDING.search(value) is None


def episode_of_key(key: str) -> Episode | None:
    """The episode that a key names; None where it names none."""
    ending = _ATTEMPT_ENDING.search(key)
    rollout_id = key[: ending.start()] if ending else key
    attempt = int(key[ending.start() + 2 : ending.start() + 22]) if ending else 0
    if not is_rollout_id(rollout_id) or attempt >= MAX_ATTEMPT:
        return None
    return Episode(rollout_id, attempt)


def episode_of(value: object) -> Episode | None:
    """The episode that a JSON value `{rollout_id, attempt?}` names; None where it names none."""
    if not isinstance(value, dict) or not value.keys() <= {"rollout_id", "attempt"}:
        return None
    attempt = value.get("attempt", 0)
    if not is_rollout_id(value.get("rollout_id")) or type(attempt) is not int or not 0 <= attempt < MAX_ATTEMPT:
        return None
    return Episode(value["rollout_id"], attempt)


class SessionRecord(NamedTuple):
    """An exported session: its id, its episode, and its state (C16; `{}` where it needs nothing)."""

    session_id: str
    episode: Episode
    state: Mapping[str, Any]


def to_line(record: SessionRecord) -> str:
    """The record as one JSON line, its line break included."""
    episode = {"rollout_id": record.episode.rollout_id, "attempt": record.episode.attempt}
    row = {"session_id": record.session_id, "episode_id": episode, "state": record.state, "owner": None}
    return msgspec.json.encode(row).decode() + "\n"


class Lines:
    """Makes the lines of one checkpoint. Members that come group by group share the text of what their group says; the
    usual ones, which have a reward and nothing more to say, are written around it. That takes a third of the time."""

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme
        self._group: tuple[object, ...] = ()
        self._head = ""

    def line(self, session: SessionId, episode: Episode, member: Exported | None) -> str:
        """The session's line; `member` None: there is nothing to keep of it."""
        if member is None:
            return to_line(SessionRecord(session, episode, {}))
        outcome = member.outcome
        if member.member_id is not None or not isinstance(outcome, Rewarded) or outcome.failure_kind is not None:
            return to_line(SessionRecord(session, episode, to_state(member, self._scheme)))
        return (
            f'{{"session_id":"{session}",'
            f'"episode_id":{{"rollout_id":"{episode.rollout_id}","attempt":{episode.attempt}}},'
            f'"state":{{{self._of_group(member)},"slot":{member.slot},"answer":"{member.answer.hex()}",'
            f'"reward":{float(outcome.reward)!r}}},"owner":null}}\n'
        )

    def _of_group(self, member: Exported) -> str:
        group = (member.key, member.attempt, member.size, member.question)
        if group != self._group:
            self._group = group
            said = {
                "group_id": member.key,
                "attempt": member.attempt,
                "size": member.size,
                "question": member.question.hex(),
                "scheme": self._scheme,
            }
            self._head = msgspec.json.encode(said).decode()[1:-1]
        return self._head


def from_line(line: bytes, where: str) -> SessionRecord:
    """Read a line back. Raises InvalidCheckpoint, beginning with `where`."""
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidCheckpoint(f"{where}: not JSON ({str(error)[:100]})") from None
    if not isinstance(row, dict) or row.keys() != {"session_id", "episode_id", "state", "owner"}:
        raise InvalidCheckpoint(f"{where}: a record has session_id, episode_id, state and owner, and nothing else")
    session_id, state, episode = row["session_id"], row["state"], episode_of(row["episode_id"])
    if not isinstance(session_id, str) or _SESSION_ID.fullmatch(session_id) is None:
        raise InvalidCheckpoint(f"{where}: session_id is not 1 to 256 letters, digits and '._:~-'")
    if episode is None or episode.attempt + 1 == MAX_ATTEMPT:
        raise InvalidCheckpoint(f"{where}: episode_id names no episode")
    if not isinstance(state, dict):
        raise InvalidCheckpoint(f"{where}: state is no object")
    if row["owner"] is not None:
        raise InvalidCheckpoint(f"{where}: owner is not null")
    return SessionRecord(session_id, episode, state)
