"""Episodes and the lines of a checkpoint (C1, C14, C16)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.checkpoints.records import (
    Episode,
    Lines,
    SessionRecord,
    episode_of,
    episode_of_key,
    from_line,
    is_rollout_id,
    to_line,
)
from groupjudge.core.backing import SessionId
from groupjudge.core.memory import Exported
from groupjudge.core.snapshot import from_state, to_state
from groupjudge.errors import InvalidCheckpoint
from groupjudge.model import GroupId, JudgeFailure, Rewarded

from .members import EPISODES, SCHEME, SESSIONS, exported, member

# -- episodes --------------------------------------------------------------------------------------------------------


@given(EPISODES)
def test_an_episode_comes_back_from_its_key_and_from_its_json(episode: Episode) -> None:
    """C1."""
    assert episode_of_key(episode.key) == episode
    assert episode_of({"rollout_id": episode.rollout_id, "attempt": episode.attempt}) == episode


@pytest.mark.parametrize(
    ("key", "episode"),
    [
        ("r", Episode("r")),
        ("r-a1", Episode("r", 1)),
        ("r-a10", Episode("r", 10)),
        ("r-a0", Episode("r-a0")),
        ("r-a01", Episode("r-a01")),
        ("r-b1", Episode("r-b1")),
        ("r-a1-a2", None),
        ("-a1", None),
        (".r", None),
        ("", None),
        ("r\n", None),
        ("r-a1\n", None),
        ("r-a9223372036854775807", Episode("r", 2**63 - 1)),
        ("r-a9223372036854775808", None),
        (f"r-a{'9' * 5000}", None),
        ("r" * 5000, Episode("r" * 5000)),
    ],
)
def test_what_a_key_names(key: str, episode: Episode | None) -> None:
    """C1: an attempt of one or more is behind the rollout id, which ends in none itself."""
    assert episode_of_key(key) == episode


@pytest.mark.parametrize(
    "value",
    [
        None,
        "r",
        [],
        {},
        {"attempt": 0},
        {"rollout_id": "r", "x": 1},
        {"rollout_id": 1},
        {"rollout_id": "r-a1"},
        {"rollout_id": "r", "attempt": -1},
        {"rollout_id": "r", "attempt": True},
        {"rollout_id": "r", "attempt": 1.0},
        {"rollout_id": "r", "attempt": None},
        {"rollout_id": "r", "attempt": 2**63},
    ],
)
def test_what_names_no_episode(value: Any) -> None:
    """C1."""
    assert episode_of(value) is None


def test_the_attempt_of_an_episode_is_0_where_none_is_said() -> None:
    """C1."""
    assert episode_of({"rollout_id": "r"}) == Episode("r", 0)
    assert not is_rollout_id(b"r")


# -- lines -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(SESSIONS, EPISODES, exported() | st.none()), max_size=8))
def test_what_goes_into_a_line_comes_back_from_it(sessions: list[tuple[SessionId, Episode, Exported | None]]) -> None:
    """C14, C16: each line is one JSON object, whatever stands in the one before."""
    lines = Lines(SCHEME)
    for session, episode, kept in sessions:
        line = lines.line(session, episode, kept)
        assert line.endswith("\n")
        assert line.count("\n") == 1
        record = from_line(line.encode(), "here")
        assert record[:2] == (session, episode)
        assert from_state(record.state, SCHEME, "here") == kept


@given(SESSIONS, EPISODES, exported())
def test_a_line_says_what_the_plain_way_says(session: SessionId, episode: Episode, exported: Exported) -> None:
    """C16: the short way of the usual members is a way of writing, not another format."""
    plain = to_line(SessionRecord(session, episode, to_state(exported, SCHEME)))
    assert json.loads(Lines(SCHEME).line(session, episode, exported)) == json.loads(plain)


def test_members_of_different_groups_do_not_share_what_their_groups_say() -> None:
    """C16: one group after the other, and back; attempts, sizes and questions too."""
    lines = Lines(SCHEME)
    for each in (member(0), member(1, key=GroupId("h")), member(1), member(1, attempt=3), member(1, size=5)):
        line = lines.line(SessionId("s"), Episode("r"), each)
        assert json.loads(line)["state"] == to_state(each, SCHEME)


@pytest.mark.parametrize(
    ("outcome", "fields"),
    [
        (Rewarded(2.0), {"reward": 2.0}),
        (Rewarded(2.0, "k", "why"), {"reward": 2.0, "failure_kind": "k", "failure_reason": "why"}),
        (JudgeFailure("why"), {"failure_kind": "judge_failed", "failure_reason": "why"}),
    ],
)
def test_a_line_as_it_stands_in_the_file(outcome: Any, fields: dict[str, Any]) -> None:
    """C14, C16: exactly these keys."""
    line = Lines(SCHEME).line(SessionId("s"), Episode("r", 2), member(3, outcome=outcome))
    state = {"group_id": "g", "attempt": 0, "size": 4, "question": "71" * 32, "scheme": SCHEME, "slot": 3}
    assert json.loads(line) == {
        "session_id": "s",
        "episode_id": {"rollout_id": "r", "attempt": 2},
        "state": {**state, "answer": "03" * 32, **fields},
        "owner": None,
    }


GOOD = {"session_id": "s", "episode_id": {"rollout_id": "r", "attempt": 0}, "state": {}, "owner": None}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"session_id": NaN}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "a record has"),
        (json.dumps(GOOD | {"more": 1}).encode(), "a record has"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "owner"}).encode(), "a record has"),
        (json.dumps(GOOD | {"session_id": 1}).encode(), "session_id"),
        (json.dumps(GOOD | {"session_id": ""}).encode(), "session_id"),
        (json.dumps(GOOD | {"session_id": "s" * 257}).encode(), "session_id"),
        (json.dumps(GOOD | {"session_id": "s\r\nset-cookie: x"}).encode(), "session_id"),
        (json.dumps(GOOD | {"episode_id": "r"}).encode(), "episode_id"),
        (json.dumps(GOOD | {"episode_id": {"rollout_id": "r", "attempt": 2**63 - 1}}).encode(), "episode_id"),
        (json.dumps(GOOD | {"state": None}).encode(), "state"),
        (json.dumps(GOOD | {"owner": "me"}).encode(), "owner"),
    ],
)
def test_a_line_that_is_no_record_is_refused_with_its_place(line: bytes, what: str) -> None:
    """C14, C19: one error names the place and what is wrong."""
    with pytest.raises(InvalidCheckpoint, match=f"^file, line 7: .*{what}"):
        from_line(line, "file, line 7")
    assert from_line(json.dumps(GOOD).encode(), "") == SessionRecord("s", Episode("r"), {})
