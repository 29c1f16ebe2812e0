"""What an arrival or a question meets: every refusal but those of the seats, in the order of L7. Nothing changes."""

from __future__ import annotations

from groupjudge.core.group import Group
from groupjudge.core.memory import Memory
from groupjudge.core.phases import Phase
from groupjudge.core.retention import Record, Result
from groupjudge.errors import GroupFailed, InvalidCheckpoint, NotFound, QuestionMismatch, ResultGone, Superseded
from groupjudge.model import Arrival, Attempt, Fingerprint, GroupId, GroupKey, Slot


def met_by(arrival: Arrival, active: Group | None, memory: Memory) -> Group | Result | None:
    """What the arrival belongs to, `active` being the active group of its key; None: it begins an attempt. Raises
    QuestionMismatch, Superseded, ResultGone."""
    if active is not None:
        return None if _is_newer(arrival, active) else active
    newest = memory.known(arrival.key)
    if newest is None or _is_newer(arrival, newest):
        return None
    if isinstance(newest, Record):
        raise _gone(newest)
    return newest


def _is_newer(arrival: Arrival, newest: Group | Result | Record) -> bool:
    """Whether the arrival begins an attempt of its own, `newest` being what is known of its key."""
    if arrival.question != newest.question:
        raise QuestionMismatch("another question or principle than this group id's")
    if arrival.attempt < newest.attempt:
        raise _superseded(arrival.attempt, newest)
    return arrival.attempt > newest.attempt


def asked_for(key: GroupId, attempt: Attempt, slot: Slot, active: Group | None, memory: Memory) -> Group | Result:
    """What holds the member that somebody asks for (A2). Raises NotFound, Superseded, ResultGone, GroupFailed."""
    newest = active or memory.known(key)
    if newest is None or attempt > newest.attempt:
        raise NotFound("no such group and attempt is known")
    if attempt < newest.attempt:
        raise _superseded(attempt, newest)
    if isinstance(newest, Record):
        raise _gone(newest)
    if isinstance(newest, Result) and newest.phase is Phase.GROUP_FAILED:
        raise failed(newest)
    if slot >= newest.seats.size or newest.seats.answers[slot] is None:
        raise NotFound(f"no member is known in slot {slot} of this group and attempt")
    return newest


def newest_attempt(key: GroupKey, active: Group | None, memory: Memory) -> Attempt:
    """The newest attempt that is known of a key; -1 where none is."""
    known = active or memory.known(key)
    return -1 if known is None else known.attempt


def check_unknown(key: GroupId, attempt: Attempt, question: Fingerprint, active: Group | None, memory: Memory) -> None:
    """C19: a restore may not meet what this process knows of an id. Raises InvalidCheckpoint."""
    known = active or memory.known(key)
    if known is not None and (known.question != question or known.attempt == attempt):
        what = "with the same attempt" if known.question == question else "with another question"
        raise InvalidCheckpoint(f"group {key[:128]!r} is known to this process already, {what}")


def failed(result: Result) -> GroupFailed:
    """Why nobody gets an outcome of this attempt."""
    return GroupFailed(getattr(result.outcomes[0], "reason", "the group failed"))


def _superseded(attempt: Attempt, newest: Group | Result | Record) -> Superseded:
    return Superseded(f"attempt {attempt} is older than this group's newest, attempt {newest.attempt}")


def _gone(newest: Record) -> ResultGone:
    return ResultGone(f"attempt {newest.attempt} finished and its result is no longer retained")
