"""Exported members, and strategies for them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from groupjudge.checkpoints.records import Episode
from groupjudge.core.backing import SessionId
from groupjudge.core.memory import Exported
from groupjudge.core.snapshot import DEFAULT_SCORES
from groupjudge.model import Fingerprint, GroupId, JudgeFailure, Outcome, Rewarded

SCHEME = "a-scheme"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
DIGESTS = st.binary(min_size=32, max_size=32).map(Fingerprint)
ROLLOUT_IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,30}(?<!-a[0-9])(?<!-a[0-9]{2})", fullmatch=True).filter(
    lambda text: "-a" not in text
)
EPISODES = st.builds(Episode, ROLLOUT_IDS, st.integers(0, 2**63 - 2))
SESSIONS = st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True).map(SessionId)
REWARDS = st.floats(allow_nan=False, allow_infinity=False)
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    REWARDS.map(Rewarded),
    st.builds(Rewarded, REWARDS, st.just(DEFAULT_SCORES), TEXTS),
    TEXTS.map(JudgeFailure),
)


@st.composite
def exported(draw: st.DrawFn) -> Exported:
    size = draw(st.integers(2, 1024))
    named = (draw(TEXTS.map(GroupId)), draw(st.integers(0, 2**63 - 1)), size, draw(DIGESTS))
    slot = draw(st.integers(0, size - 1))
    return Exported(*named, slot, draw(st.none() | TEXTS), draw(DIGESTS), draw(OUTCOMES))


def member(slot: int = 0, **changes: Any) -> Exported:
    """A member of a group of four, with a reward of its own."""
    fields: dict[str, Any] = {
        "key": GroupId("g"),
        "attempt": 0,
        "size": 4,
        "question": Fingerprint(b"q" * 32),
        "slot": slot,
        "member_id": None,
        "answer": Fingerprint(bytes([slot]) * 32),
        "outcome": Rewarded(1.5 + slot),
    }
    return Exported(**{**fields, **changes})
