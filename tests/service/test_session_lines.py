"""Lines that are written before a commit asks for them say what they would say if they were written then (C16, C26)."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from groupjudge.answers.fingerprint import SCHEME
from groupjudge.checkpoints.records import Lines
from groupjudge.errors import Refusal
from groupjudge.service.session_lines import SessionLines

from .room import Room, settled


def fresh(room: Room, session: str) -> str:
    """The session's line, written now."""
    entry = room.table.get(session)  # type: ignore[arg-type]
    assert entry is not None
    return Lines(SCHEME).line(entry.session, entry.episode, room.host.exported(entry.session))


def kept(room: Room, session: str) -> str | None:
    entry = room.table.get(session)  # type: ignore[arg-type]
    assert entry is not None
    return entry.line


def now(room: Room, session: str) -> str:
    """What a commit would write."""
    entry = room.table.get(session)  # type: ignore[arg-type]
    assert entry is not None
    (line,) = SessionLines(room.host).lines([entry])
    return line


def state(line: str) -> Any:
    return json.loads(line)["state"]


async def test_a_line_is_written_when_its_member_has_its_outcome() -> None:
    """C26: so that a commit finds it."""
    room = Room()
    sessions = await room.finished()
    assert [kept(room, each) for each in sessions] == [fresh(room, each) for each in sessions]
    assert [state(fresh(room, each))["reward"] for each in sessions] == [1.0, 2.0]


async def test_no_line_is_kept_before_there_is_an_outcome() -> None:
    """C16."""
    room = Room()
    room.free.clear()
    sessions = await room.finished()
    assert [state(now(room, each)) for each in sessions] == [{}, {}]
    room.free.set()
    await settled()
    assert [state(now(room, each))["slot"] for each in sessions] == [0, 1]


async def test_a_line_of_a_group_that_a_newer_attempt_replaced_says_nothing_more() -> None:
    """C16, L11: nor when that attempt has its own outcome."""
    room = Room()
    sessions = await room.finished()
    room.verify(0, None, "other", attempt=1)
    assert [state(now(room, each)) for each in sessions] == [{}, {}]
    room.verify(1, None, "other", attempt=1)
    await settled()
    assert [state(now(room, each)) for each in sessions] == [{}, {}]


async def test_a_session_that_brings_another_member_says_that_one() -> None:
    """C4: of the same group by an exact retry, or of a group that has no outcome yet."""
    room = Room()
    first, _ = await room.finished()
    room.verify(1, first, "g0", close_follows=False, ends=False)
    assert state(now(room, first))["slot"] == 1
    room.verify(0, first, "g0", group="h")
    assert state(now(room, first)) == {}


def records_in(directory: Path) -> str:
    """The one file of records in a checkpoint."""
    (records,) = directory.glob("gym/resources/inst/*.jsonl")
    return records.read_text()


MOVES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1), st.sampled_from("gh"), st.integers(0, 1), st.booleans()),
    max_size=25,
)


@given(MOVES)
@settings(max_examples=40)
def test_kept_lines_are_what_would_be_written_now(moves: list[tuple[int, int, str, int, bool]]) -> None:
    """C16: whatever sessions bring, retry and replace."""

    async def play() -> None:
        room = Room()
        sessions = [await room.seed(f"r{number}") for number in range(3)]
        for number, slot, group, attempt, waits in moves:
            with suppress(Refusal):
                room.verify(slot, sessions[number], f"r{number}", group=group, attempt=attempt)
            if waits:
                await settled()
            assert [now(room, each) for each in sessions] == [fresh(room, each) for each in sessions]

    asyncio.run(play())


async def test_a_commit_writes_the_kept_lines(tmp_path: Path) -> None:
    """C26."""
    room = Room()
    sessions = await room.finished()
    await room.checkpoint(tmp_path)
    assert records_in(tmp_path) == "".join(kept(room, each) or "" for each in sessions)
