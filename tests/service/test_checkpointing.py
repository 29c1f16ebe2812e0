"""The server as a participant: what each control call does (C7-C12, C15-C25)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupjudge.checkpoints import files
from groupjudge.checkpoints.records import Episode
from groupjudge.core.book import Limits
from groupjudge.errors import GroupJudgeError, ShuttingDown, StaleAttempt
from groupjudge.model import JudgeFailure, Rewarded
from groupjudge.service import checkpointing
from groupjudge.service.control import ControlError
from groupjudge.service.wire import group_row

from .room import GRACE, Room, settled

EMPTY_REPORT = {"ready": True, "blockers": [], "blocker_count": 0, "restarts": []}


async def refused(code: str, call: Any) -> str:
    """The detail of a refusal with this code."""
    with pytest.raises(GroupJudgeError) as error:
        await call
    found = error.value.reason_code if isinstance(error.value, ControlError) else error.value.code
    assert found == code, error.value
    return str(error.value)


def manifests_in(directory: Path) -> list[Path]:
    """All that was published."""
    return list(directory.rglob("manifest.json"))


def sync(call: Any, *args: Any) -> Any:
    """A call that waits for nothing, as one that may."""

    async def later() -> Any:
        return call(*args)

    return later()


class SlowFiles:
    """Writes and reads wait, each in its thread, until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = threading.Semaphore(0)
        self.free = threading.Event()
        self.calls = 0
        for name in ("write", "read"):
            monkeypatch.setattr(files, name, self._slow(getattr(files, name)))

    def _slow(self, real: Any) -> Any:
        def call(*args: Any) -> Any:
            self.calls += 1
            self.began.release()
            assert self.free.wait(30)
            return real(*args)

        return call

    async def until_begun(self) -> None:
        assert await asyncio.to_thread(self.began.acquire, timeout=30)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowFiles]:
    slow = SlowFiles(monkeypatch)
    yield slow
    slow.free.set()


# -- prepare, status -------------------------------------------------------------------------------------------------


async def test_a_prepare_is_ready_at_once() -> None:
    """C9: seeds and closes take no time once they are admitted, and a verify is not counted."""
    room = Room()
    session = await room.seed("r")
    room.verify(0, session)
    reply = room.prepare()
    counts = {"inflight": 0, "sessions": 1}
    assert reply == {"phase": "prepared", "report": {**EMPTY_REPORT, "counts": counts}}
    await room.participant.resume("ck")
    await room.seed("s")
    await refused("stale_checkpoint", sync(room.prepare))
    assert room.prepare("ck2")["report"]["counts"]["sessions"] == 2
    assert room.prepare("ck2")["report"]["counts"]["sessions"] == 2


async def test_the_status_says_where_the_participant_stands(tmp_path: Path) -> None:
    """C10."""
    room = Room()
    idle = room.participant.status()
    assert {key: idle[key] for key in ("kind", "instance", "phase", "checkpoint_id", "mode", "verify")} == {
        "kind": "resources",
        "instance": "inst",
        "phase": "idle",
        "checkpoint_id": None,
        "mode": "exported",
        "verify": "replay",
    }
    assert idle["lease_expires_at"] is None
    room.prepare()
    await room.commit(tmp_path)
    status = room.participant.status()
    assert (status["phase"], status["checkpoint_id"]) == ("committed", "ck")
    assert status["lease_expires_at"] == pytest.approx(room.soon() + GRACE, abs=5)


# -- holding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
async def test_outcomes_are_held_while_a_checkpoint_is_open_and_told_at_the_resume(tmp_path: Path, fails: bool) -> None:
    """C15, C16: judging itself goes on; what is held is in no checkpoint."""
    room = Room()
    room.fails = fails
    sessions = [await room.seed(f"r{slot}") for slot in (0, 1)]
    room.prepare()
    calls = [room.verify(slot, session, f"r{slot}") for slot, session in enumerate(sessions)]
    await settled()
    assert room.judged == 1
    assert [call.is_told for call in calls] == [False, False]
    await room.commit(tmp_path)
    assert [record.state for record in files.read(tmp_path, "inst")[1]] == [{}, {}]
    await room.participant.resume("ck")
    expected = [JudgeFailure("the judge is ill")] * 2 if fails else [Rewarded(1.0), Rewarded(2.0)]
    assert [call.outcome for call in calls] == expected


async def test_what_was_due_before_a_prepare_is_not_held() -> None:
    """C15: though no timer has rung."""
    room = Room(limits=Limits(judging_timeout_s=50))
    room.free.clear()
    calls = [room.verify(0), room.verify(1)]
    room.clock.skew += 50
    room.prepare()
    assert all(call.is_told for call in calls)


# -- commit ----------------------------------------------------------------------------------------------------------


async def test_a_commit_exports_every_open_session_and_what_its_member_got(tmp_path: Path) -> None:
    """C10, C16, C17: rewards; nothing for the others; not those that have ended."""
    room = Room()
    ended, kept = await room.finished()
    idle, waiting = await room.seed("idle"), await room.seed("waiting-a2")
    room.verify(0, waiting, "waiting-a2", group="h")
    await room.close(ended, "g0")
    room.prepare()
    reply = await room.commit(tmp_path)
    manifest, records = files.read(tmp_path, "inst")
    assert reply == {
        "phase": "committed",
        "manifest": manifest.as_dict(),
        "episode_ids": ["g1", "idle", "waiting-a2"],
    }
    assert {record.session_id: record.episode for record in records} == {
        kept: ("g1", 0),
        idle: ("idle", 0),
        waiting: ("waiting", 2),
    }
    states = {record.session_id: record.state for record in records}
    assert (states[kept]["group_id"], states[kept]["slot"], states[kept]["reward"]) == ("g", 1, 2.0)
    assert (states[idle], states[waiting]) == ({}, {})


async def test_a_commit_again_gives_the_first_reply_and_writes_nothing(tmp_path: Path) -> None:
    """C7: whatever its deadline; another directory or scope is a conflict."""
    room = Room()
    await room.seed("r")
    room.prepare()
    first = await room.commit(tmp_path / "ck")
    (tmp_path / "ck" / "gym" / "resources" / "inst" / "manifest.json").unlink()
    assert await room.commit(tmp_path / "ck") == first
    assert await room.participant.commit("ck", room.soon(-50), str(tmp_path / "ck"), None) == first
    await refused("checkpoint_conflict", room.commit(tmp_path / "other"))
    await refused("checkpoint_conflict", room.commit(tmp_path / "ck", scope=frozenset({Episode("r")})))
    (tmp_path / "link").symlink_to(tmp_path / "ck")
    assert await room.commit(tmp_path / "link") == first


async def test_a_commit_that_comes_while_one_is_writing_waits_for_it(tmp_path: Path, slow: SlowFiles) -> None:
    """C7: it is written once; a caller that leaves stops nothing."""
    room = Room()
    await room.seed("r")
    room.prepare()
    gone, first, second = [asyncio.ensure_future(room.commit(tmp_path)) for _ in range(3)]
    await slow.until_begun()
    gone.cancel()
    await settled()
    slow.free.set()
    assert await first == await second
    assert slow.calls == 1


async def test_a_write_that_takes_longer_than_its_deadline_goes_on(tmp_path: Path, slow: SlowFiles) -> None:
    """C8: `deadline_exceeded`; the same commit again finds it."""
    room = Room()
    await room.seed("r")
    room.prepare()
    waiting = asyncio.ensure_future(room.commit(tmp_path))
    await slow.until_begun()
    await room.clock.moves(101)
    await refused("deadline_exceeded", waiting)
    await refused("deadline_exceeded", room.participant.commit("ck", room.soon(-1), str(tmp_path), None))
    again = asyncio.ensure_future(room.commit(tmp_path))
    slow.free.set()
    assert (await again)["phase"] == "committed"
    assert slow.calls == 1


@pytest.mark.parametrize("how", ["resume", "lease"])
async def test_a_resume_stops_a_write_and_nothing_is_published_after_it(
    tmp_path: Path, slow: SlowFiles, how: str
) -> None:
    """C12, C11: the controller's or the lease's; the commit is stale then, and a new checkpoint may use the place."""
    room = Room()
    await room.seed("r")
    room.prepare()
    waiting = asyncio.ensure_future(room.commit(tmp_path))
    await slow.until_begun()
    if how == "resume":
        assert await room.participant.resume("ck") == {"phase": "idle", "idempotent": False}
    else:
        await asyncio.gather(refused("deadline_exceeded", waiting), room.clock.moves(100 + GRACE))
    assert room.plane.phase.value == "idle"
    slow.free.set()
    if how == "resume":
        await refused("stale_checkpoint", waiting)
    await asyncio.gather(*room.participant._work.values(), return_exceptions=True)
    assert not (tmp_path / "gym" / "resources" / "inst" / "manifest.json").exists()
    await refused("stale_checkpoint", room.commit(tmp_path))
    room.prepare("ck2")
    assert (await room.commit(tmp_path, "ck2"))["manifest"]["checkpoint_id"] == "ck2"


@pytest.mark.parametrize("how", ["resume", "lease"])
async def test_a_resume_waits_for_a_link_that_is_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """C12, C11: so that after it nothing is published; meanwhile everything else goes on."""
    linking, free = threading.Event(), threading.Event()
    real = files.os.link

    def link(*args: Any) -> None:
        linking.set()
        assert free.wait(30)
        real(*args)

    room = Room()
    await room.seed("r")
    room.prepare()
    monkeypatch.setattr(files.os, "link", link)
    waiting = asyncio.ensure_future(room.commit(tmp_path))
    assert await asyncio.to_thread(linking.wait, 30)
    if how == "resume":
        resuming = asyncio.ensure_future(room.participant.resume("ck"))
    else:
        await room.clock.moves(100 + GRACE)
    await settled()
    assert room.plane.phase.value == "prepared"
    free.set()
    if how == "resume":
        assert (await resuming)["phase"] == "idle"
        assert files.read(tmp_path, "inst")[0].checkpoint_id == "ck"
    await asyncio.gather(waiting, return_exceptions=True)
    while room.plane.phase.value != "idle":  # noqa: ASYNC110 -- a thread is on its way
        await asyncio.sleep(0.001)
    await asyncio.gather(*room.participant._work.values(), return_exceptions=True)


async def test_a_resume_before_a_write_has_begun_stops_it_too(tmp_path: Path) -> None:
    """C12."""
    room = Room()
    for number in range(600):
        await room.seed(f"r{number}")
    room.prepare()
    waiting = asyncio.ensure_future(room.commit(tmp_path))
    while not room.participant._work:  # noqa: ASYNC110 -- a thread resolves the directory
        await asyncio.sleep(0)
    await room.participant.resume("ck")
    await refused("stale_checkpoint", waiting)
    assert manifests_in(tmp_path) == []


async def test_a_commit_that_cannot_be_written_may_be_sent_again(tmp_path: Path) -> None:
    """C8: there or elsewhere."""
    room = Room()
    await room.seed("r")
    room.prepare()
    (tmp_path / "ck").write_text("no directory")
    assert "Not a directory" in await refused("write_failed", room.commit(tmp_path / "ck" / "deep"))
    await refused("write_failed", room.commit(tmp_path / "ck"))
    (tmp_path / "ck").unlink()
    assert (await room.commit(tmp_path / "ck"))["phase"] == "committed"


async def test_a_commit_whose_export_breaks_publishes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C12: half of the sessions are no checkpoint."""

    def broken(entries: object) -> list[str]:
        raise RuntimeError("a defect")

    room = Room()
    await room.finished()
    monkeypatch.setattr(room.participant._lines, "lines", broken)
    room.prepare()
    with pytest.raises(RuntimeError, match="a defect"):
        await room.commit(tmp_path / "ck")
    await room.participant.resume("ck")
    assert manifests_in(tmp_path) == []


async def test_a_commit_where_another_checkpoint_stands_is_a_conflict(tmp_path: Path) -> None:
    """C8, C12."""
    room = Room()
    await room.checkpoint(tmp_path)
    room.prepare("ck2")
    await refused("checkpoint_conflict", room.commit(tmp_path, "ck2"))


async def test_a_commit_leaves_out_what_is_outside_its_scope(tmp_path: Path) -> None:
    """C23: live sessions are only left out."""
    room = Room()
    inside, outside = await room.seed("in"), await room.seed("out")
    await room.checkpoint(tmp_path, scope=frozenset({Episode("in"), Episode("nobody")}))
    assert [record.session_id for record in files.read(tmp_path, "inst")[1]] == [inside]
    assert {each.session for each in room.table} == {inside, outside}


@pytest.mark.parametrize("directory", ["/elsewhere", "relative", ""])
async def test_a_directory_outside_the_root_is_refused(tmp_path: Path, directory: str) -> None:
    """C13: for commit and restore; nothing is begun."""
    room = Room(root=str(tmp_path))
    room.prepare()
    await refused("invalid_checkpoint_state", room.participant.commit("ck", room.soon(), directory, None))
    assert (await room.commit(tmp_path))["phase"] == "committed"
    await room.participant.resume("ck")
    await refused("invalid_checkpoint_state", room.participant.restore("re", room.soon(), directory, None))
    assert room.plane.phase.value == "idle"


# -- restore ---------------------------------------------------------------------------------------------------------


async def crashed(directory: Path, **how: Any) -> list[str]:
    """A server with a finished group of two, both sessions open, checkpointed and gone."""
    room = Room()
    room.fails = how.get("fails", False)
    sessions = await room.finished()
    await room.checkpoint(directory, how.get("key", "ck"))
    return sessions


@pytest.mark.parametrize("fails", [False, True])
async def test_a_restored_member_gets_its_own_outcome_at_once(tmp_path: Path, fails: bool) -> None:
    """C21, C22: under its old cookie and its episode's next attempt; no judge call; an ordinary session then."""
    sessions = await crashed(tmp_path, fails=fails)
    room = Room()
    reply = await room.restore(tmp_path)
    assert reply == {"phase": "restored", "source_checkpoint_id": "ck", "restored": ["g0-a1", "g1-a1"]}
    assert await room.restore(tmp_path) == reply
    assert await room.participant.resume("re") == {"phase": "idle", "idempotent": False}
    expected = [JudgeFailure("the judge is ill")] * 2 if fails else [Rewarded(1.0), Rewarded(2.0)]
    for slot, session in enumerate(sessions):
        call = room.verify(slot, session, f"g{slot}-a1")
        assert call.visit.entry is room.table.get(session)  # type: ignore[arg-type]
        assert call.outcome == expected[slot]
    assert room.judged == 0
    room.book.check()


async def test_only_the_episodes_that_are_asked_for_are_restored(tmp_path: Path) -> None:
    """C10."""
    sessions = await crashed(tmp_path)
    room = Room()
    scope = frozenset({Episode("g1"), Episode("nobody")})
    assert (await room.restore(tmp_path, scope=scope))["restored"] == ["g1-a1"]
    assert [each.session for each in room.table] == [sessions[1]]
    assert room.phase_of() == "completed"
    _, (view,) = room.host.groups(9)
    row = group_row(view, room.host.now())
    assert (row["members"], row["outcome"]) == ([1], {"rewards": [None, 2.0]})
    assert room.verify(1, sessions[1], "g1-a1").outcome == Rewarded(2.0)


async def test_requests_wait_from_the_restore_to_the_resume(tmp_path: Path, slow: SlowFiles) -> None:
    """C9: from the very call on, or a session might be served before the files are read."""
    slow.free.set()
    await crashed(tmp_path)
    await slow.until_begun()
    slow.free.clear()
    room = Room()
    restoring = asyncio.ensure_future(room.restore(tmp_path))
    await slow.until_begun()
    seeding = asyncio.ensure_future(room.seed("r"))
    await settled()
    assert not seeding.done()
    slow.free.set()
    await restoring
    await settled()
    assert not seeding.done()
    await room.participant.resume("re")
    await seeding


async def test_only_a_fresh_process_restores(tmp_path: Path) -> None:
    """C19: one that has served a session, or holds restored ones, does not."""
    await crashed(tmp_path)
    served = Room()
    await served.close(await served.seed("r"))
    await refused("invalid_phase", served.restore(tmp_path))
    assert served.participant.status()["phase"] == "idle"
    await served.seed("s")
    restored = Room()
    await restored.restore(tmp_path)
    await restored.participant.resume("re")
    await refused("invalid_phase", restored.restore(tmp_path, "re2"))


async def test_a_group_that_the_process_knows_refuses_the_restore(tmp_path: Path) -> None:
    """C19: it is named, and nothing is installed."""
    await crashed(tmp_path)
    room = Room()
    room.verify(0)
    assert "'g'" in await refused("invalid_checkpoint_state", room.restore(tmp_path))
    assert len(room.table) == 0
    assert room.phase_of() == "collecting"


@pytest.mark.parametrize("fault", ["missing", "twice", "scheme", "byte", "outside the scope", "disagree"])
async def test_a_restore_that_fails_leaves_nothing_behind_and_reopens_admission(tmp_path: Path, fault: str) -> None:
    """C19, C20, C25: the file is named; the same id may try again."""
    await crashed(tmp_path)
    place = files.directory_of(tmp_path, "inst")
    manifest, _ = files.read(tmp_path, "inst")
    path = place / manifest.records_file
    lines = path.read_text().splitlines(keepends=True)
    scope: frozenset[Episode] | None = None
    if fault == "missing":
        path.unlink()
    elif fault == "byte":
        path.write_text("".join(lines).replace('"reward":2.0', '"reward":3.0'))
    else:
        changed = {
            "twice": [lines[0], lines[0]],
            "scheme": [lines[0], lines[1].replace('"scheme":"', '"scheme":"x-')],
            "outside the scope": [lines[0], lines[1].replace('"reward":2.0', '"reward":1e999')],
            "disagree": [lines[0], lines[1].replace('"size":2', '"size":3')],
        }[fault]
        scope = frozenset({Episode("g0")}) if fault == "outside the scope" else None
        rewritten(place, changed)
    room = Room()
    why = await refused("invalid_checkpoint_state", room.restore(tmp_path, scope=scope))
    assert why.startswith("records-")
    assert room.participant.status()["phase"] == "idle"
    assert len(room.table) == 0
    assert room.phase_of() is None
    room.book.check()
    for each in place.iterdir():
        each.unlink()
    rewritten(place, lines)
    assert (await room.restore(tmp_path))["phase"] == "restored"


def rewritten(place: Path, lines: list[str]) -> None:
    """Other records, with a manifest that fits them."""
    for each in place.iterdir():
        each.unlink()
    files.write(place.parents[2], "inst", "ck", ["".join(lines).encode()], files.Publication())


async def test_a_restore_that_fails_lets_waiting_requests_go_on(tmp_path: Path, slow: SlowFiles) -> None:
    """C25."""
    room = Room()
    restoring = asyncio.ensure_future(room.restore(tmp_path))
    await slow.until_begun()
    seeding = asyncio.ensure_future(room.seed("r"))
    slow.free.set()
    await refused("invalid_checkpoint_state", restoring)
    assert await seeding


async def test_a_restore_whose_lease_runs_out_while_it_reads_installs_nothing(tmp_path: Path, slow: SlowFiles) -> None:
    """C11, C25."""
    slow.free.set()
    await crashed(tmp_path)
    await slow.until_begun()
    slow.free.clear()
    room = Room()
    restoring = asyncio.ensure_future(room.restore(tmp_path))
    await slow.until_begun()
    await asyncio.gather(refused("deadline_exceeded", restoring), room.clock.moves(100 + GRACE))
    slow.free.set()
    await asyncio.gather(*room.participant._work.values(), return_exceptions=True)
    assert (len(room.table), room.phase_of()) == (0, None)
    assert room.participant.status()["phase"] == "idle"
    assert await room.seed("r")


async def test_a_restore_with_a_past_deadline_begins_nothing(tmp_path: Path) -> None:
    """C8."""
    room = Room()
    await refused("deadline_exceeded", room.participant.restore("re", room.soon(-1), str(tmp_path), None))
    assert room.participant.status()["checkpoint_id"] is None
    assert await room.seed("r")


# -- after a restore -------------------------------------------------------------------------------------------------


async def test_two_checkpoints_and_restores_before_the_replay(tmp_path: Path) -> None:
    """C22: the member still gets its own outcome."""
    sessions = await crashed(tmp_path / "1")
    second = Room()
    await second.restore(tmp_path / "1")
    await second.participant.resume("re")
    await second.checkpoint(tmp_path / "2", "ck2")
    third = Room()
    assert (await third.restore(tmp_path / "2"))["restored"] == ["g0-a2", "g1-a2"]
    await third.participant.resume("re")
    assert third.verify(1, sessions[1], "g1-a2").outcome == Rewarded(2.0)
    assert third.verify(0, sessions[0], "g0-a2").outcome == Rewarded(1.0)
    assert third.judged == 0


async def test_a_commit_with_a_scope_deletes_the_restored_sessions_outside_it_that_nobody_has_used(
    tmp_path: Path,
) -> None:
    """C23: their members go with them, and the group can form anew under the same attempt; nothing is refused later."""
    sessions = await crashed(tmp_path / "1")
    room = Room()
    await room.restore(tmp_path / "1")
    await room.participant.resume("re")
    used = room.verify(0, sessions[0], "g0-a1")
    assert used.outcome == Rewarded(1.0)
    room.prepare()
    await room.commit(tmp_path / "2", scope=frozenset({Episode("other")}))
    assert [each.session for each in room.table] == [sessions[0]]
    await room.participant.resume("ck")
    assert room.verify(0, sessions[0], "g0-a1").outcome == Rewarded(1.0)
    await room.seed("g1-a1")
    room.book.check()


async def test_a_commit_deletes_no_restored_session_in_its_scope_and_no_new_one_outside(tmp_path: Path) -> None:
    """C23: one that nobody has used yet may still be waited for."""
    sessions = await crashed(tmp_path / "1")
    room = Room()
    await room.restore(tmp_path / "1")
    await room.participant.resume("re")
    new = await room.seed("new")
    await room.checkpoint(tmp_path / "2", scope=frozenset({Episode("g1", 1)}))
    assert {each.session for each in room.table} == {sessions[1], new}
    assert room.verify(1, sessions[1], "g1-a1").outcome == Rewarded(2.0)


async def test_a_session_that_a_request_uses_while_others_are_deleted_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C23, C26: they go slice by slice, and a caller must not lose its outcome meanwhile."""
    sessions = await crashed(tmp_path / "1")
    room = Room()
    await room.restore(tmp_path / "1")
    await room.participant.resume("re")
    monkeypatch.setattr(checkpointing, "SLICE", 1)
    room.prepare()
    committing = asyncio.ensure_future(room.commit(tmp_path / "2", scope=frozenset()))
    while len(room.table) == 2:  # noqa: ASYNC110 -- a thread writes
        await asyncio.sleep(0)
    (left,) = [each.session for each in room.table]
    slot = sessions.index(left)
    call = room.verify(slot, left, f"g{slot}-a1")
    await committing
    assert call.outcome == Rewarded(1.0 + slot)
    assert [each.session for each in room.table] == [left]


async def test_a_group_whose_restored_sessions_are_all_deleted_can_form_anew(tmp_path: Path) -> None:
    """C23: the attempt record went too."""
    await crashed(tmp_path / "1")
    room = Room()
    await room.restore(tmp_path / "1")
    await room.participant.resume("re")
    await room.checkpoint(tmp_path / "2", scope=frozenset())
    assert (len(room.table), room.phase_of()) == (0, None)
    calls = [room.verify(slot, answer="another") for slot in (0, 1)]
    await settled()
    assert [call.outcome for call in calls] == [Rewarded(1.0), Rewarded(2.0)]
    assert room.judged == 1


async def test_a_commit_that_fails_or_is_resumed_deletes_nothing(tmp_path: Path) -> None:
    """C23: only once its files stand."""
    await crashed(tmp_path / "1")
    room = Room()
    await room.restore(tmp_path / "1")
    await room.participant.resume("re")
    (tmp_path / "2").write_text("no directory")
    room.prepare()
    await refused("write_failed", room.commit(tmp_path / "2", scope=frozenset()))
    assert len(room.table) == 2


async def test_spared_results_outlive_their_time_while_their_sessions_are_open(tmp_path: Path) -> None:
    """C18, C21: restored from now on; dropped when the last session that needs it ends."""
    sessions = await crashed(tmp_path)
    room = Room(limits=Limits(ttl_s=60, max_results=1, max_attempt_records=1))
    await room.restore(tmp_path)
    await room.participant.resume("re")
    await room.clock.moves(1000)
    await room.finished("h")
    assert room.verify(1, sessions[1], "g1-a1").outcome == Rewarded(2.0)
    await room.close(sessions[0], "g0-a1")
    assert room.phase_of() == "completed"
    await room.close(sessions[1], "g1-a1")
    assert room.phase_of() is None


# -- retire, forget --------------------------------------------------------------------------------------------------


async def test_a_retired_episodes_sessions_are_freed() -> None:
    """C24: with those of its earlier attempts; sorted keys in the reply."""
    room = Room()
    await room.seed("r")
    await room.seed("r-a1")
    later = await room.seed("r-a2")
    reply = await room.participant.retire("x", room.soon(), frozenset({Episode("r", 1), Episode("b")}))
    assert reply == {"retired": ["b", "r-a1"]}
    assert [each.session for each in room.table] == [later]
    assert room.participant.forget("x", room.soon(), ["r", "b", "r"]) == {"forgotten": ["b", "r"]}
    await room.seed("r")


async def test_retiring_waits_for_requests_in_flight() -> None:
    """C24: a verify that waits for its group is one; new ones are refused meanwhile."""
    room = Room()
    session = await room.seed("r")
    call = room.verify(0, session)
    room.verify(0, None, "other", group="h")
    retiring = asyncio.ensure_future(room.participant.retire("x", room.soon(), frozenset({Episode("r")})))
    await settled()
    assert not retiring.done()
    with pytest.raises(StaleAttempt):
        room.verify(1, session)
    room.verify(1, None, "third")
    await settled()
    assert call.outcome == Rewarded(1.0)
    assert await retiring == {"retired": ["r"]}
    assert not room.table.is_open(session)  # type: ignore[arg-type]
    assert room.host.exported(session) is None  # type: ignore[arg-type]


async def test_requests_that_end_at_once_are_all_waited_for() -> None:
    """C24: a group tells its callers in one breath."""
    room = Room()
    calls = [room.verify(slot, None, f"r{slot}") for slot in (0, 1)]
    episodes = frozenset({Episode("r0"), Episode("r1")})
    retiring = asyncio.ensure_future(room.participant.retire("x", room.soon(), episodes))
    assert await retiring == {"retired": ["r0", "r1"]}
    assert all(call.is_told for call in calls)


async def test_a_retirement_that_waits_too_long_says_who_is_busy_and_goes_on_refusing() -> None:
    """C24, C8."""
    room = Room()
    session = await room.seed("r")
    room.verify(0, session)
    retiring = asyncio.ensure_future(room.participant.retire("x", room.soon(), frozenset({Episode("r", 3)})))
    await settled()
    await room.clock.moves(101)
    assert await refused("deadline_exceeded", retiring) == "requests of these episodes are still in flight: r"
    assert room.table.is_open(session)  # type: ignore[arg-type]
    with pytest.raises(StaleAttempt):
        await room.seed("r-a3")


async def test_nothing_is_retired_or_forgotten_while_a_checkpoint_is_open() -> None:
    """C24, C7: in the restored phase it is."""
    room = Room()
    session = await room.seed("r")
    room.prepare()
    await refused("invalid_phase", room.participant.retire("ck", room.soon(), frozenset({Episode("r")})))
    await refused("invalid_phase", sync(room.participant.forget, "ck", room.soon(), ["r"]))
    await room.participant.resume("ck")
    room.verify(0, session)
    retiring = asyncio.ensure_future(room.participant.retire("x", room.soon(), frozenset({Episode("r")})))
    await settled()
    room.prepare("x")
    room.verify(1, None, "other")
    await room.clock.moves(200)
    await refused("deadline_exceeded", retiring)


async def test_a_retirement_frees_nothing_of_a_checkpoint_that_was_opened_while_it_waited() -> None:
    """C24."""
    room = Room()
    session = await room.seed("r")
    call = room.verify(0, session)
    retiring = asyncio.ensure_future(room.participant.retire("x", room.soon(), frozenset({Episode("r")})))
    await settled()
    room.prepare("x")
    room.host.leave(call._waiting)  # type: ignore[arg-type]
    room.episodes.left(call.visit)
    await refused("invalid_phase", retiring)
    assert room.table.is_open(session)  # type: ignore[arg-type]


async def test_episodes_are_retired_after_a_restore_before_its_resume(tmp_path: Path) -> None:
    """C7, C23, C24: their members go, the others stay; the sessions of the next attempt are freed."""
    sessions = await crashed(tmp_path)
    room = Room()
    await room.restore(tmp_path)
    await room.participant.retire("re", room.soon(), frozenset({Episode("g0", 1)}))
    await room.participant.resume("re")
    with pytest.raises(GroupJudgeError, match="not part of it"):
        room.verify(0)
    assert room.verify(1, sessions[1], "g1-a1").outcome == Rewarded(2.0)
    room.book.check()


# -- the lease -------------------------------------------------------------------------------------------------------


async def test_when_the_lease_runs_out_the_server_resumes_by_itself() -> None:
    """C11: not before; held callers are told, waiting requests go on, the id is spent."""
    room = Room()
    room.prepare()
    calls = [room.verify(0), room.verify(1)]
    seeding = asyncio.ensure_future(room.seed("r"))
    await room.clock.moves(100 + GRACE - 1)
    assert room.participant.status()["phase"] == "prepared"
    assert not seeding.done()
    await room.clock.moves(1)
    assert room.participant.status()["phase"] == "idle"
    await seeding
    assert [call.outcome for call in calls] == [Rewarded(1.0), Rewarded(2.0)]
    await refused("stale_checkpoint", sync(room.prepare))


async def test_every_call_extends_the_lease_and_none_shrinks_it(tmp_path: Path) -> None:
    """C11: also one that comes too late for its own deadline."""
    room = Room()
    room.prepare()
    at = room.soon(200) + GRACE
    reply = room.participant.renew("ck", room.soon(200))
    assert reply["lease_expires_at"] == pytest.approx(at, abs=0.5)
    assert room.participant.renew("ck", room.soon(0))["lease_expires_at"] == pytest.approx(at, abs=0.5)
    room.participant.prepare("ck", room.soon(300))
    await room.clock.moves(300)
    await room.participant.commit("ck", room.soon(100), str(tmp_path), None)
    await room.clock.moves(100 + GRACE - 1)
    assert room.participant.status()["phase"] == "committed"
    await room.clock.moves(1)
    assert room.participant.status()["phase"] == "idle"
    await refused("invalid_phase", sync(room.participant.renew, "new", room.soon()))


@pytest.mark.parametrize("deadline", [1e300, -1e300, 0.0])
async def test_deadlines_far_away_are_deadlines(deadline: float) -> None:
    """C6: any finite one is taken."""
    room = Room()
    assert room.participant.prepare("ck", deadline)["phase"] == "prepared"
    await settled()
    assert room.participant.status()["phase"] == ("prepared" if deadline > 0 else "idle")


# -- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["commit", "restore"])
async def test_whoever_waits_for_files_is_told_when_the_server_stops(
    tmp_path: Path, slow: SlowFiles, what: str
) -> None:
    """L19: and nothing is published any more."""
    room = Room()
    if what == "commit":
        await room.seed("r")
        room.prepare()
    waiting = asyncio.ensure_future(getattr(room, what)(tmp_path))
    await slow.until_begun()
    await room.participant.close()
    with pytest.raises(ShuttingDown):
        await waiting
    slow.free.set()
    with pytest.raises(ShuttingDown):
        await getattr(room, what)(tmp_path, *(["ck"] if what == "commit" else []))
    await asyncio.to_thread(lambda: None)
    assert manifests_in(tmp_path) == []
    assert not room.participant._work


async def test_a_lease_that_runs_out_after_the_end_wakes_nobody() -> None:
    """L19."""
    room = Room()
    room.prepare()
    await room.participant.close()
    await room.clock.moves(1000)
    assert room.participant.status()["phase"] == "prepared"
