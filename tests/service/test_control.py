"""The control plane beside a naive model of C7, C8 and C11, under a controller that repeats, reorders and abandons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from groupjudge.service.control import REMEMBERED, ControlError, ControlPhase, ControlPlane

GRACE = 10.0
IDS = st.sampled_from(["a", "b", "c"])
WHEN = st.sampled_from([-20.0, 0.0, 5.0, 30.0])
WHAT = st.sampled_from(["here", "there"])


@dataclass
class Model:
    """What has been called and answered, in a list; everything else is read out of it."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    """(operation, id) of what took effect: begin, ready, commit, restore, resume, gone."""
    leases: list[float] = field(default_factory=list)
    asked: dict[str, str] = field(default_factory=dict)
    replies: dict[str, Any] = field(default_factory=dict)

    @property
    def active(self) -> str | None:
        ends = [n for n, (name, _) in enumerate(self.calls) if name in ("resume", "gone")]
        rest = self.calls[ends[-1] + 1 :] if ends else self.calls
        return rest[0][1] if rest else None

    @property
    def phase(self) -> str:
        if self.active is None:
            return "idle"
        last = self.calls[-1][0]
        return {"begin": "preparing", "ready": "prepared", "commit": "committed", "restore": "restored"}[last]

    @property
    def resumed(self) -> list[str]:
        """The last ids that were resumed, each once, the latest first."""
        latest = [key for name, key in reversed(self.calls) if name == "resume"]
        return list(dict.fromkeys(latest))[:REMEMBERED]

    def refuses(self, key: str) -> str | None:
        if key in self.resumed:
            return "stale_checkpoint"
        return "checkpoint_conflict" if self.active not in (None, key) else None

    def begin(self, name: str, key: str) -> None:
        self.calls.append((name, key))
        self.leases, self.asked, self.replies = [], {}, {}

    def end(self, name: str, key: str) -> None:
        self.calls.append((name, key))
        self.leases = []

    @property
    def lease(self) -> float | None:
        return max(self.leases) + GRACE if self.leases else None


class Controllers(RuleBasedStateMachine):
    """Several controllers at once, none of which knows what the others do."""

    def __init__(self) -> None:
        super().__init__()
        self.plane = ControlPlane(GRACE)
        self.model = Model()
        self.now = 0.0
        self.replies = 0

    def told(self, expected: str | None, call: Any, *args: Any) -> Any:
        """The reply, or None where the call must be refused with this code; a refusal changes nothing."""
        if expected is None:
            return call(*args)
        before = (self.plane.phase, self.plane.checkpoint_id, self.plane.lease_until)
        with pytest.raises(ControlError) as error:
            call(*args)
        assert error.value.reason_code == expected
        after = (self.plane.phase, self.plane.checkpoint_id, self.plane.lease_until)
        assert after == before or expected == "deadline_exceeded"
        return None

    def reply(self) -> dict[str, Any]:
        self.replies += 1
        return {"number": self.replies}

    @rule(key=IDS, soon=WHEN)
    def prepare(self, key: str, soon: float) -> None:
        """C7."""
        model = self.model
        expected = model.refuses(key) or ("invalid_phase" if model.phase == "restored" else None)
        reply = self.told(expected, self.plane.prepare, key, self.now + soon)
        if expected is None:
            if model.active is None:
                model.begin("begin", key)
            model.leases.append(self.now + soon)
            assert reply == model.replies.get("prepare")

    @rule(key=IDS)
    def nothing_is_in_flight(self, key: str) -> None:
        """C7: a prepare that waited; meanwhile its checkpoint may have been resumed."""
        model = self.model
        if model.phase == "idle" or model.phase == "restored":
            return
        expected = None if model.active == key else "stale_checkpoint"
        reply = self.told(expected, self.plane.ready, key, self.reply())
        if expected is None:
            if model.phase == "preparing":
                model.calls.append(("ready", key))
                model.replies["prepare"] = {"number": self.replies, "phase": "prepared"}
            assert reply == model.replies["prepare"]

    def operation(self, name: str, key: str, soon: float, what: str, phases: tuple[str, ...]) -> None:
        model, deadline = self.model, self.now + soon
        expected = model.refuses(key) or (None if model.phase in phases else "invalid_phase")
        begins = model.active is None
        if expected is None and not begins and model.asked.get(name, what) != what:
            expected = "checkpoint_conflict"
        extends = expected is None and not begins
        if expected is None and deadline <= self.now and name not in model.replies:
            expected = "deadline_exceeded"
        if expected is None and begins:
            expected = "deadline_exceeded" if deadline <= self.now else None
        reply = self.told(expected, getattr(self.plane, name), key, deadline, self.now, what)
        if extends:
            model.leases.append(deadline)
        if expected is None:
            if begins:
                model.begin("restore", key)
                model.leases.append(deadline)
            model.asked[name] = what
            assert reply == model.replies.get(name)

    @rule(key=IDS, soon=WHEN, what=WHAT)
    def commit(self, key: str, soon: float, what: str) -> None:
        """C7, C8."""
        if self.model.active is None:
            self.model.replies = {}
        self.operation("commit", key, soon, what, ("prepared", "committed"))

    @rule(key=IDS, soon=WHEN, what=WHAT)
    def restore(self, key: str, soon: float, what: str) -> None:
        """C7, C8."""
        if self.model.active is None:
            self.model.replies = {}
        self.operation("restore", key, soon, what, ("idle", "restored"))

    @rule(key=IDS, how=st.sampled_from(["committed", "write_failed"]))
    def a_write_ends(self, key: str, how: str) -> None:
        """C7: late or in time."""
        model = self.model
        if model.active == key and "commit" not in model.asked:
            return
        if how == "write_failed":
            if "commit" in model.replies and model.active == key:
                return
            self.plane.write_failed(key)
            if model.active == key:
                del model.asked["commit"]
            return
        self.ends("commit", "committed", key)

    @rule(key=IDS, how=st.sampled_from(["restored", "restore_failed"]))
    def a_restore_ends(self, key: str, how: str) -> None:
        """C7, C25: late or in time."""
        model = self.model
        if model.active == key and "restore" not in model.asked:
            return
        if how == "restore_failed":
            if "restore" in model.replies and model.active == key:
                return
            self.plane.restore_failed(key)
            if model.active == key:
                model.end("gone", key)
            return
        self.ends("restore", "restored", key)

    def ends(self, name: str, phase: str, key: str) -> None:
        model = self.model
        expected = None if model.active == key else "stale_checkpoint"
        reply = self.told(expected, getattr(self.plane, phase), key, self.reply())
        if expected is None:
            model.replies.setdefault(name, {"number": self.replies, "phase": phase})
            if model.phase != phase:
                model.calls.append((name, key))
            assert reply == model.replies[name]

    @rule(key=IDS)
    def resume(self, key: str) -> None:
        """C7: also the abort; and the resume of what nobody knows."""
        model = self.model
        other = model.active not in (None, key)
        expected = "checkpoint_conflict" if other and key not in model.resumed else None
        reply = self.told(expected, self.plane.resume, key)
        if expected is None:
            idempotent = model.active != key
            if not other:
                model.end("resume", key)
            assert reply == {"phase": model.phase, "idempotent": idempotent}

    @rule(key=IDS, soon=WHEN)
    def renew(self, key: str, soon: float) -> None:
        """C11."""
        model = self.model
        expected = model.refuses(key) or (None if model.active else "invalid_phase")
        lease = self.told(expected, self.plane.renew, key, self.now + soon)
        if expected is None:
            model.leases.append(self.now + soon)
            assert lease == model.lease

    @rule(key=IDS, soon=WHEN)
    def retire_or_forget(self, key: str, soon: float) -> None:
        """C24."""
        model = self.model
        is_open = model.phase in ("preparing", "prepared", "committed")
        expected = model.refuses(key) or ("invalid_phase" if is_open else None)
        self.told(expected, self.plane.admits_retirement, key, self.now + soon)
        if expected is None and model.active is not None:
            model.leases.append(self.now + soon)

    @rule(seconds=st.sampled_from([0.0, 1.0, 10.0, 15.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        """C11: the lease runs out at its end, not before."""
        self.now += seconds
        model = self.model
        gone = model.active if model.lease is not None and model.lease <= self.now else None
        assert self.plane.expire(self.now) == gone
        if gone is not None:
            model.end("resume", gone)

    @invariant()
    def plane_and_model_agree(self) -> None:
        """C7, C9, C11."""
        model, plane = self.model, self.plane
        assert plane.phase.value == model.phase
        assert plane.checkpoint_id == model.active
        assert plane.lease_until == model.lease
        assert plane.is_open == (model.phase in ("preparing", "prepared", "committed"))


TestControllers = Controllers.TestCase
TestControllers.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def prepared(plane: ControlPlane, key: str = "a") -> None:
    assert plane.prepare(key, 100.0) is None
    plane.ready(key, {})


def test_a_whole_checkpoint() -> None:
    """C7: each reply carries the phase that the call led to."""
    plane = ControlPlane(GRACE)
    assert plane.prepare("a", 100.0) is None
    assert plane.phase is ControlPhase.PREPARING
    assert plane.ready("a", {"report": 1}) == {"report": 1, "phase": "prepared"}
    assert plane.commit("a", 100.0, 0.0, "here") is None
    assert plane.phase is ControlPhase.PREPARED
    assert plane.committed("a", {"manifest": 1}) == {"manifest": 1, "phase": "committed"}
    assert plane.prepare("a", 0.0) == {"report": 1, "phase": "prepared"}
    assert plane.resume("a") == {"phase": "idle", "idempotent": False}
    assert plane.resume("a") == {"phase": "idle", "idempotent": True}


def test_the_last_64_ids_that_were_resumed_are_remembered() -> None:
    """C8: the oldest is forgotten by the 65th, unless it was resumed again meanwhile."""
    plane = ControlPlane(GRACE)
    for number in range(64):
        plane.resume(f"id{number}")
    plane.resume("id0")
    plane.resume("one more")
    for number in (0, *range(2, 64)):
        with pytest.raises(ControlError, match=f"'id{number}'"):
            plane.prepare(f"id{number}", 100.0)
    assert plane.prepare("id1", 100.0) is None


def test_a_late_prepare_of_an_aborted_checkpoint_is_stale() -> None:
    """C7: though this participant had never heard of it."""
    plane = ControlPlane(GRACE)
    assert plane.resume("a")["idempotent"]
    with pytest.raises(ControlError) as error:
        plane.prepare("a", 100.0)
    assert error.value.reason_code == "stale_checkpoint"


def test_a_commit_that_failed_may_go_elsewhere() -> None:
    """C8: the same checkpoint, another directory."""
    plane = ControlPlane(GRACE)
    prepared(plane)
    plane.commit("a", 100.0, 0.0, "here")
    with pytest.raises(ControlError, match="directory or scope"):
        plane.commit("a", 100.0, 0.0, "there")
    plane.write_failed("a")
    assert plane.commit("a", 100.0, 0.0, "there") is None


def test_a_first_reply_is_given_though_the_deadline_has_passed() -> None:
    """C7: what is finished needs no time."""
    plane = ControlPlane(GRACE)
    prepared(plane)
    plane.commit("a", 100.0, 0.0, "here")
    reply = plane.committed("a", {})
    assert plane.commit("a", -5.0, 0.0, "here") == reply
    assert plane.lease_until == 110.0


def test_retiring_after_a_restore_extends_its_lease() -> None:
    """C11, C24."""
    plane = ControlPlane(GRACE)
    plane.restore("a", 100.0, 0.0, "here")
    plane.admits_retirement("a", 200.0)
    assert plane.lease_until == 210.0
    plane.admits_retirement("a", 50.0)
    assert plane.lease_until == 210.0


def test_a_restore_that_failed_spends_nothing() -> None:
    """C25: the same id may try again."""
    plane = ControlPlane(GRACE)
    assert plane.restore("a", 100.0, 0.0, "here") is None
    plane.restore_failed("other")
    assert plane.phase is ControlPhase.RESTORED
    plane.restore_failed("a")
    assert (plane.phase, plane.checkpoint_id, plane.lease_until) == (ControlPhase.IDLE, None, None)
    assert plane.restore("a", 100.0, 0.0, "there") is None
