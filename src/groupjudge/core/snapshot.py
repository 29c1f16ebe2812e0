"""A session's state as it stands in a checkpoint (C16), and every check on the way back in (C19, C20).

The state names its fingerprint scheme: fingerprints of another scheme cannot be compared, so such a state is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from groupjudge.core.backing import SessionId
from groupjudge.core.memory import Exported, Restored
from groupjudge.errors import InvalidCheckpoint
from groupjudge.model import Fingerprint, GroupId, JudgeFailure, Outcome, Rewarded

JUDGE_FAILED = "judge_failed"
DEFAULT_SCORES = "groupjudge:default_scores"
MAX_REASON = 2000
MAX_SIZE = 1 << 20
_MAX_ATTEMPT = 2**63
_LARGEST = 1 << 1023
_DIGEST = re.compile(r"[0-9a-f]{64}")

_ALWAYS = frozenset(("group_id", "attempt", "size", "question", "slot", "answer", "scheme"))
_SOMETIMES = frozenset(("member_id", "reward", "failure_kind", "failure_reason"))


def to_state(member: Exported, scheme: str) -> dict[str, Any]:
    """The state of a session whose member has an outcome."""
    state: dict[str, Any] = {
        "group_id": member.key,
        "attempt": member.attempt,
        "size": member.size,
        "question": member.question.hex(),
        "slot": member.slot,
        "answer": member.answer.hex(),
        "scheme": scheme,
    }
    if member.member_id is not None:
        state["member_id"] = member.member_id
    return state | _outcome_fields(member.outcome)


def _outcome_fields(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, JudgeFailure):
        return {"failure_kind": JUDGE_FAILED, "failure_reason": outcome.reason}
    assert isinstance(outcome, Rewarded), "a group failure is no row"
    fields: dict[str, Any] = {"reward": outcome.reward}
    if outcome.failure_kind is not None:
        fields |= {"failure_kind": outcome.failure_kind, "failure_reason": outcome.failure_reason}
    return fields


def from_state(state: Mapping[str, Any], scheme: str, where: str) -> Exported | None:
    """A state read back; None for an empty one. Raises InvalidCheckpoint, beginning with `where`."""
    if not state:
        return None

    def need(holds: bool, what: str) -> None:
        if not holds:
            raise InvalidCheckpoint(f"{where}: {what}")

    need(state.keys() >= _ALWAYS, f"a state has {', '.join(sorted(_ALWAYS))}")
    need(state.keys() <= _ALWAYS | _SOMETIMES, "a state has unknown keys")
    need(state["scheme"] == scheme, f"the fingerprints are not of scheme {scheme!r}, which this build knows")
    key, member_id = state["group_id"], state.get("member_id")
    need(_is_text(key, 512), "group_id is no text of 1 to 512 characters")
    need("member_id" not in state or _is_text(member_id, 512), "member_id is no text of 1 to 512 characters")
    need(_is_count(state["attempt"], _MAX_ATTEMPT), "attempt is no integer of 0 or more")
    need(_is_count(state["size"], MAX_SIZE) and state["size"] >= 2, "size is no integer of 2 or more")
    need(_is_count(state["slot"], state["size"]), "slot is no integer from 0 to size - 1")
    question, answer = _fingerprint(state["question"], need), _fingerprint(state["answer"], need)
    named = (GroupId(key), state["attempt"], state["size"], question, state["slot"], member_id, answer)
    return Exported(*named, _outcome(state, need))


def _outcome(state: Mapping[str, Any], need: Callable[[bool, str], None]) -> Outcome:
    kind, reason = state.get("failure_kind"), state.get("failure_reason")
    need((kind is None) == (reason is None), "failure_kind and failure_reason come together")
    need(reason is None or _is_text(reason, MAX_REASON, empty=True), "failure_reason is no text of 2,000 characters")
    if "reward" in state:
        reward = state["reward"]
        need(_is_finite(reward), "reward is no finite number")
        need(kind in (None, DEFAULT_SCORES), "failure_kind of a rewarded member is unknown")
        return Rewarded(float(reward), kind, reason)
    need(kind == JUDGE_FAILED, "neither a reward nor a judge failure")
    return JudgeFailure(str(reason))


def _fingerprint(value: object, need: Callable[[bool, str], None]) -> Fingerprint:
    need(isinstance(value, str) and _DIGEST.fullmatch(value) is not None, "a fingerprint is 64 hexadecimal digits")
    return Fingerprint(bytes.fromhex(str(value)))


def _is_finite(value: object) -> bool:
    """Also of integers that no float holds."""
    return (type(value) is float and isfinite(value)) or (type(value) is int and abs(value) <= _LARGEST)


def _is_count(value: object, end: int) -> bool:
    return type(value) is int and 0 <= value < end


def _is_text(value: object, limit: int, *, empty: bool = False) -> bool:
    return isinstance(value, str) and (empty or bool(value)) and len(value) <= limit


def restored(states: Sequence[tuple[SessionId, Mapping[str, Any], str]], scheme: str) -> list[Restored]:
    """The members of all sessions (id, state, where it stands), which agree with each other (C20). Raises
    InvalidCheckpoint."""
    members: list[Restored] = []
    first_of: dict[GroupId, Exported] = {}
    by_slot: dict[tuple[GroupId, int], Exported] = {}
    by_name: dict[tuple[GroupId, str], Exported] = {}
    for session, state, where in states:
        member = from_state(state, scheme, where)
        if member is None:
            continue
        members.append(Restored(session, member))
        _agree(first_of.setdefault(member.key, member), member, where)
        if by_slot.setdefault((member.key, member.slot), member) != member:
            raise InvalidCheckpoint(f"{where}: another session names another member in this slot")
        if member.member_id is not None and by_name.setdefault((member.key, member.member_id), member) != member:
            raise InvalidCheckpoint(f"{where}: another session names another slot for this member id")
    return members


def _agree(first: Exported, member: Exported, where: str) -> None:
    for name, of in _GROUP_WIDE.items():
        if of(first) != of(member):
            raise InvalidCheckpoint(f"{where}: sessions of one group disagree on its {name}")


_GROUP_WIDE: Mapping[str, Callable[[Exported], object]] = {
    "attempt": lambda member: member.attempt,
    "size": lambda member: member.size,
    "question": lambda member: member.question,
    "kind of outcome": lambda member: type(member.outcome),
    "naming of slots": lambda member: member.member_id is None,
}
