"""States out and in again (C16, C19, C20); the lines around them are in tests/checkpoints."""

from __future__ import annotations

from typing import Any

import pytest

from groupjudge.core.backing import SessionId
from groupjudge.core.memory import Exported, Restored
from groupjudge.core.snapshot import DEFAULT_SCORES, from_state, restored, to_state
from groupjudge.errors import InvalidCheckpoint
from groupjudge.model import Fingerprint, GroupId, JudgeFailure, Rewarded

SCHEME = "a-scheme"


def member(slot: int = 0, **changes: Any) -> Exported:
    """A member of a group of three."""
    fields: dict[str, Any] = {
        "key": GroupId("g"),
        "attempt": 1,
        "size": 3,
        "question": Fingerprint(b"q" * 32),
        "slot": slot,
        "member_id": None,
        "answer": Fingerprint(bytes([slot]) * 32),
        "outcome": Rewarded(1.5 + slot),
    }
    return Exported(**{**fields, **changes})


def test_a_state_comes_back_as_the_member_that_it_was() -> None:
    """C16: rewards, rewards with default scores, judge failures; with a member id and without."""
    for outcome in (Rewarded(0.1), Rewarded(3.0, DEFAULT_SCORES, "why"), JudgeFailure("why"), JudgeFailure("")):
        for name in (None, "m"):
            exported = member(2, outcome=outcome, member_id=name)
            assert from_state(to_state(exported, SCHEME), SCHEME, "") == exported
    assert from_state({}, SCHEME, "") is None


HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"more": 1}, "unknown keys"),
        ({"group_id": ...}, "a state has"),
        ({"scheme": "another"}, "scheme"),
        ({"scheme": None}, "scheme"),
        ({"group_id": ""}, "group_id"),
        ({"group_id": "g" * 513}, "group_id"),
        ({"group_id": 1}, "group_id"),
        ({"member_id": None}, "member_id"),
        ({"member_id": ""}, "member_id"),
        ({"attempt": -1}, "attempt"),
        ({"attempt": 2**63}, "attempt"),
        ({"attempt": True}, "attempt"),
        ({"attempt": 1.0}, "attempt"),
        ({"size": 1}, "size"),
        ({"size": 2**20}, "size"),
        ({"slot": 3}, "slot"),
        ({"slot": -1}, "slot"),
        ({"slot": None}, "slot"),
        ({"question": HEX[1:]}, "fingerprint"),
        ({"question": HEX.upper()}, "fingerprint"),
        ({"answer": "a " * 32}, "fingerprint"),
        ({"answer": "g" * 64}, "fingerprint"),
        ({"answer": HEX + "\n"}, "fingerprint"),
        ({"answer": 1}, "fingerprint"),
        ({"reward": float("nan")}, "reward"),
        ({"reward": float("-inf")}, "reward"),
        ({"reward": 10**400}, "reward"),
        ({"reward": True}, "reward"),
        ({"reward": "1"}, "reward"),
        ({"reward": None}, "reward"),
        ({"reward": ...}, "neither"),
        ({"failure_kind": "judge_failed", "failure_reason": "why"}, "failure_kind"),
        ({"failure_kind": DEFAULT_SCORES}, "come together"),
        ({"failure_reason": "why"}, "come together"),
        ({"failure_kind": DEFAULT_SCORES, "failure_reason": 1}, "failure_reason"),
        ({"failure_kind": DEFAULT_SCORES, "failure_reason": "x" * 2001}, "failure_reason"),
        ({"reward": ..., "failure_kind": DEFAULT_SCORES, "failure_reason": "why"}, "neither"),
    ],
)
def test_a_state_with_a_fault_is_refused_with_its_place(changes: dict[str, Any], what: str) -> None:
    """C16, C19: every field is looked at; `...` leaves it out."""
    state = to_state(member(), SCHEME) | changes
    with pytest.raises(InvalidCheckpoint, match=f"^here: .*{what}"):
        from_state({key: value for key, value in state.items() if value is not ...}, SCHEME, "here")


def test_what_is_just_within_its_bounds_is_taken() -> None:
    """C16."""
    edge = {"group_id": "g" * 512, "member_id": "m" * 512, "attempt": 2**63 - 1, "size": 2, "slot": 1, "reward": -1}
    taken = from_state(to_state(member(), SCHEME) | edge, SCHEME, "")
    assert taken is not None
    assert (taken.attempt, taken.size, taken.slot, taken.outcome) == (2**63 - 1, 2, 1, Rewarded(-1.0))
    assert isinstance(taken.outcome.reward, float)  # type: ignore[union-attr]
    long = {"failure_kind": "judge_failed", "failure_reason": "x" * 2000}
    failed = {key: value for key, value in to_state(member(), SCHEME).items() if key != "reward"} | long
    assert from_state(failed, SCHEME, "") is not None


def taken_up(*members: Exported) -> list[Restored]:
    """All of them from sessions of their own."""
    states = [(SessionId(f"s{n}"), to_state(each, SCHEME), f"line {n}") for n, each in enumerate(members, 1)]
    return restored([*states, (SessionId("idle"), {}, "last line")], SCHEME)


def test_sessions_that_agree_are_all_taken_up() -> None:
    """C20: two sessions may name the same member; other groups are none of their business."""
    members = [member(0), member(1), member(0), member(1, key=GroupId("h"), attempt=7, size=2)]
    assert [each.member for each in taken_up(*members)] == members
    assert [each.session for each in taken_up(*members)] == ["s1", "s2", "s3", "s4"]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (member(1, attempt=2), "attempt"),
        (member(1, size=4), "size"),
        (member(1, question=Fingerprint(b"p" * 32)), "question"),
        (member(1, outcome=JudgeFailure("why")), "kind of outcome"),
        (member(1, member_id="m"), "naming of slots"),
        (member(0, answer=Fingerprint(b"x" * 32)), "another member"),
        (member(0, outcome=Rewarded(9.0)), "another member"),
    ],
)
def test_sessions_of_one_group_that_disagree_refuse_the_restore(other: Exported, what: str) -> None:
    """C20: the second of them is named."""
    with pytest.raises(InvalidCheckpoint, match=f"^line 3: .*{what}"):
        taken_up(member(0), member(2) if other.slot else member(0), other)


def test_a_member_id_names_one_slot() -> None:
    """C20, A3."""
    with pytest.raises(InvalidCheckpoint, match=r"^line 2: another session names another slot"):
        taken_up(member(0, member_id="m"), member(1, member_id="m"))
    assert len(taken_up(member(0, member_id="m"), member(1, member_id="n"), member(0, member_id="m"))) == 3
