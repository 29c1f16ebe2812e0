"""Sessions (H7, C2): a random id in a signed cookie, and, where checkpointing is on, the table of those that are open.

A session without an episode is its cookie alone. One with an episode is in the table from its seeding to its end, and
what it brought is remembered with its group (core/backing.py).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from itsdangerous import BadSignature, Signer
from starlette.requests import cookie_parser

from groupjudge.checkpoints.files import flush_directory
from groupjudge.checkpoints.records import Episode
from groupjudge.core.backing import Backing, SessionId
from groupjudge.errors import ConfigurationError, StaleAttempt

COOKIE = "groupjudge_session"
_OURS = COOKIE.encode() + b"="
_SECRET_FILE = "session.secret"
_SECRET_LENGTH = 64


class Cookies:
    """Session ids to cookies and back; a cookie that somebody else signed names no session."""

    def __init__(self, secret: str) -> None:
        self._signer = Signer(secret, salt="groupjudge.session", key_derivation="hmac", digest_method=hashlib.sha256)

    @staticmethod
    def said_in(header: bytes) -> str:
        """The value of our cookie in a `cookie` header as it came, nothing proven; empty where there is none."""
        if header.startswith(_OURS) and b";" not in header and b'"' not in header:
            return header[len(_OURS) :].decode("latin-1").strip()
        said = header.decode("latin-1")
        return cookie_parser(said).get(COOKIE, "") if COOKIE in said else ""

    def named_by(self, header: bytes) -> SessionId | None:
        """The id in a `cookie` header, if it is one of ours."""
        try:
            return SessionId(self._signer.unsign(self.said_in(header)).decode())
        except (BadSignature, UnicodeError):
            return None

    def value_of(self, session: SessionId) -> str:
        """The one value that names a session."""
        return self._signer.sign(session).decode()

    def give(self, session: SessionId) -> tuple[bytes, bytes]:
        """The header that gives its receiver a session."""
        return self.given(self.value_of(session).encode())

    @staticmethod
    def given(value: bytes) -> tuple[bytes, bytes]:
        """The same of a value that is known."""
        return (b"set-cookie", b"%s=%s; Path=/; HttpOnly; SameSite=Lax" % (COOKIE.encode(), value))

    @staticmethod
    def take_back() -> tuple[bytes, bytes]:
        """The header that takes the cookie back."""
        return (b"set-cookie", f"{COOKIE}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0".encode())


def new_session_id() -> SessionId:
    """An id that nobody can guess."""
    return SessionId(secrets.token_urlsafe(24))


def signing_secret(secret: str | None, state_dir: str | None) -> str:
    """The key that signs cookies: the configured one, else the one kept in `state_dir` (made there at first), else a
    new one. Raises ConfigurationError where `state_dir` cannot be used."""
    if secret is not None:
        return secret
    if state_dir is None:
        return secrets.token_hex(32)
    path = Path(state_dir) / _SECRET_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _make_secret(path)
        kept = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"session.state_dir: cannot keep the session secret in {path}: {error}") from None
    if len(kept) < _SECRET_LENGTH:
        raise ConfigurationError(f"session.state_dir: {path} holds no session secret; remove it, and one is made")
    return kept


def _make_secret(path: Path) -> None:
    """Whole or not at all, readable by its owner only, and never replaced."""
    if path.exists():
        return
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(_SECRET_LENGTH // 2))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
        flush_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(slots=True)
class OpenSession:
    """A session of an episode (`key`: how paths name that): whether a restore brought it back, and whether a request
    has used it since; whether its last `/verify` that was put off said that a close follows (A2); the value of its
    cookie, once it was needed; its line in a checkpoint with what that hangs on, where it was written already
    (service/session_lines.py)."""

    session: SessionId
    episode: Episode
    key: str
    restored: bool = False
    used: bool = True
    is_open: bool = True
    close_follows: bool = False
    cookie: bytes = b""
    line: str | None = None
    backing: Backing | None = None

    def cookie_by(self, cookies: Cookies) -> bytes:
        """The one value that names it."""
        self.cookie = self.cookie or cookies.value_of(self.session).encode()
        return self.cookie


class SessionTable:
    """The open sessions of episodes, the retired episodes, and the requests of each episode that are in flight."""

    def __init__(self) -> None:
        self._open: dict[SessionId, OpenSession] = {}
        self._of_rollout: dict[str, dict[SessionId, None]] = {}
        self._retired: dict[str, int] = {}
        self._in_flight: dict[Episode, int] = {}
        self.has_served = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_fresh(self) -> bool:
        """Whether a checkpoint may be restored: no session was served, and none is open (C19)."""
        return not self.has_served and not self._open

    def __iter__(self) -> Iterator[OpenSession]:
        return iter(self.entries())

    def entries(self) -> tuple[OpenSession, ...]:
        """All of them as of now."""
        return tuple(self._open.values())

    def get(self, session: SessionId) -> OpenSession | None:
        """An open session."""
        return self._open.get(session)

    def is_open(self, session: SessionId) -> bool:
        """Whether the session has not ended."""
        return session in self._open

    def seed(self, episode: Episode, session: SessionId) -> OpenSession:
        """Open a new session of an episode."""
        self.has_served = True
        entry = OpenSession(session, episode, episode.key)
        self._add(entry)
        return entry

    def restore(self, session: SessionId, episode: Episode) -> None:
        """Open a session again, bound to its episode's next attempt (C21)."""
        self._add(OpenSession(session, episode, episode.key, restored=True, used=False))

    def _add(self, entry: OpenSession) -> None:
        self._open[entry.session] = entry
        self._of_rollout.setdefault(entry.episode.rollout_id, {})[entry.session] = None

    def named(self, cookie: str, key: str | None, cookies: Cookies) -> OpenSession | None:
        """The session that the cookie names, where it is open and the request is its episode's (`key`): a cookie under
        another prefix is none, and neither is a forged one."""
        entry = self._open.get(SessionId(cookie.rpartition(".")[0]))
        if entry is None or entry.key != key:
            return None
        if not hmac.compare_digest(entry.cookie_by(cookies), cookie.encode("utf-8", "replace")):
            return None
        return entry

    def use(self, entry: OpenSession) -> None:
        """A request came in it."""
        entry.used = True
        self.has_served = True

    def end(self, session: SessionId) -> bool:
        """Close a session; says whether it was open."""
        entry = self._open.pop(session, None)
        if entry is None:
            return False
        entry.is_open = False
        siblings = self._of_rollout[entry.episode.rollout_id]
        del siblings[session]
        if not siblings:
            del self._of_rollout[entry.episode.rollout_id]
        return True

    # -- retirement ------------------------------------------------------------------------------------------------

    def refuse_retired(self, episode: Episode | None) -> None:
        """C24: raises StaleAttempt for a request of a retired episode."""
        if episode is not None and episode.attempt <= self._retired.get(episode.rollout_id, -1):
            raise StaleAttempt(f"episode {episode.key[:128]} was retired")

    def retire(self, episodes: Iterable[Episode]) -> None:
        """Refuse the episodes and their earlier attempts from now on."""
        for rollout_id, attempt in episodes:
            self._retired[rollout_id] = max(attempt, self._retired.get(rollout_id, -1))

    def forget(self, rollout_ids: Iterable[str]) -> None:
        """Refuse nothing of these rollouts any more."""
        for rollout_id in rollout_ids:
            self._retired.pop(rollout_id, None)

    def sessions_of(self, newest: Mapping[str, int]) -> list[OpenSession]:
        """The open sessions of these rollouts, up to these attempts."""
        found = (self._open[each] for rollout_id in newest for each in self._of_rollout.get(rollout_id, ()))
        return [entry for entry in found if entry.episode.attempt <= newest[entry.episode.rollout_id]]

    # -- requests in flight ----------------------------------------------------------------------------------------

    def enter(self, episode: Episode) -> None:
        """A request of the episode has come."""
        self._in_flight[episode] = self._in_flight.get(episode, 0) + 1

    def leave(self, episode: Episode) -> None:
        """A request of the episode was answered."""
        rest = self._in_flight.pop(episode) - 1
        if rest:
            self._in_flight[episode] = rest

    def in_flight(self, newest: Mapping[str, int]) -> list[Episode]:
        """Which episodes of these rollouts, up to these attempts, have requests in flight."""
        return [busy for busy in self._in_flight if busy.attempt <= newest.get(busy.rollout_id, -1)]


def newest_attempts(episodes: Iterable[Episode]) -> dict[str, int]:
    """The newest attempt of each rollout that is named."""
    newest: dict[str, int] = {}
    for rollout_id, attempt in episodes:
        newest[rollout_id] = max(attempt, newest.get(rollout_id, -1))
    return newest
