"""The phases and the lease of the control plane (C7, C8, C11), decided without clock, task or lock.

    idle --prepare--> preparing --ready--> prepared --commit--> committed
    idle --restore--> restored
    any of them --resume, or the lease runs out--> idle

A checkpoint is open from prepare to resume; `restored` is not open. A finished operation gives its first reply again
until the resume. Every method raises ControlError where the protocol refuses the call, and then changed nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from groupjudge.errors import GroupJudgeError

REMEMBERED = 64


class ControlPhase(Enum):
    """Where the control plane stands."""

    IDLE = "idle"
    PREPARING = "preparing"
    PREPARED = "prepared"
    COMMITTED = "committed"
    RESTORED = "restored"


OPEN = frozenset((ControlPhase.PREPARING, ControlPhase.PREPARED, ControlPhase.COMMITTED))


class ControlError(GroupJudgeError):
    """A refused control call; `reason_code` is the code that C8 gives it."""

    def __init__(self, reason_code: str, detail: str) -> None:
        super().__init__(detail)
        self.reason_code = reason_code


Reply = dict[str, Any]


@dataclass(slots=True)
class _Active:
    """The checkpoint that the control plane is busy with: replies by operation, and what each was asked for."""

    checkpoint_id: str
    lease_until: float
    replies: dict[str, Reply] = field(default_factory=dict)
    asked: dict[str, Hashable] = field(default_factory=dict)


class ControlPlane:
    """`now` is monotonic, in seconds; a `deadline` lies on the same clock (the caller turns Unix time into it)."""

    def __init__(self, lease_grace_s: float) -> None:
        self._grace = lease_grace_s
        self._active: _Active | None = None
        self._resumed: OrderedDict[str, None] = OrderedDict()
        self.phase = ControlPhase.IDLE

    @property
    def checkpoint_id(self) -> str | None:
        """The active checkpoint's id."""
        return None if self._active is None else self._active.checkpoint_id

    @property
    def lease_until(self) -> float | None:
        """When the server resumes by itself."""
        return None if self._active is None else self._active.lease_until

    @property
    def is_open(self) -> bool:
        """Whether a checkpoint is open: admission is closed, outcomes are held."""
        return self.phase in OPEN

    @property
    def is_busy(self) -> bool:
        """Whether requests that are not replayable wait: a checkpoint is open, or restored state is not resumed yet."""
        return self.phase is not ControlPhase.IDLE

    def expire(self, now: float) -> str | None:
        """Where the lease has run out: resume, and return the id that was active."""
        if self._active is None or now < self._active.lease_until:
            return None
        gone = self._active.checkpoint_id
        self._go_idle(gone)
        return gone

    # -- prepare ---------------------------------------------------------------------------------------------------

    def prepare(self, checkpoint_id: str, deadline: float) -> Reply | None:
        """Open a checkpoint, or look at the open one. None: wait until nothing is in flight, then call `ready`."""
        self._admit(checkpoint_id)
        if self.phase is ControlPhase.RESTORED:
            raise ControlError("invalid_phase", "restored state is not resumed yet")
        if self._active is None:
            self._begin(checkpoint_id, deadline)
            self.phase = ControlPhase.PREPARING
        self._extend(deadline)
        return self._first_reply("prepare")

    def ready(self, checkpoint_id: str, reply: Reply) -> Reply:
        """Nothing is in flight any more: `reply` is what prepare answers from now on."""
        active = self._must_be(checkpoint_id)
        if self.phase is ControlPhase.PREPARING:
            self.phase = ControlPhase.PREPARED
            active.replies["prepare"] = {**reply, "phase": self.phase.value}
        return active.replies["prepare"]

    # -- commit and restore ----------------------------------------------------------------------------------------

    def commit(self, checkpoint_id: str, deadline: float, now: float, asked: Hashable) -> Reply | None:
        """Begin or repeat a commit of `asked` (directory and scope). None: write, then call `committed`."""
        self._admit(checkpoint_id)
        if self.phase not in (ControlPhase.PREPARED, ControlPhase.COMMITTED):
            raise ControlError("invalid_phase", f"commit needs a prepared checkpoint, the phase is {self.phase.value}")
        return self._operation("commit", deadline, now, asked)

    def committed(self, checkpoint_id: str, reply: Reply) -> Reply:
        """The files stand."""
        return self._done(checkpoint_id, "commit", ControlPhase.COMMITTED, reply)

    def write_failed(self, checkpoint_id: str) -> None:
        """The commit failed: it may be sent again, to another directory too."""
        if self._active is not None and self._active.checkpoint_id == checkpoint_id:
            self._active.asked.pop("commit", None)

    def restore(self, checkpoint_id: str, deadline: float, now: float, asked: Hashable) -> Reply | None:
        """Begin or repeat a restore. None: read and install, then call `restored` or `restore_failed`."""
        self._admit(checkpoint_id)
        if self.phase not in (ControlPhase.IDLE, ControlPhase.RESTORED):
            raise ControlError("invalid_phase", "a checkpoint is open")
        if self._active is None:
            _not_after(deadline, now)
            self._begin(checkpoint_id, deadline)
            self.phase = ControlPhase.RESTORED
        return self._operation("restore", deadline, now, asked)

    def restored(self, checkpoint_id: str, reply: Reply) -> Reply:
        """The state is installed."""
        return self._done(checkpoint_id, "restore", ControlPhase.RESTORED, reply)

    def restore_failed(self, checkpoint_id: str) -> None:
        """Nothing was installed: idle again, and the id is not spent (C25)."""
        if self._active is not None and self._active.checkpoint_id == checkpoint_id:
            self._active = None
            self.phase = ControlPhase.IDLE

    # -- resume, renew, the others ---------------------------------------------------------------------------------

    def resume(self, checkpoint_id: str) -> Reply:
        """Go back to idle. An id that is not active is spent from then on, so that a late prepare of it is stale."""
        if self._active is not None and self._active.checkpoint_id != checkpoint_id:
            if checkpoint_id in self._resumed:
                return {"phase": self.phase.value, "idempotent": True}
            raise ControlError("checkpoint_conflict", f"checkpoint {self._active.checkpoint_id!r} is active")
        idempotent = self._active is None
        self._go_idle(checkpoint_id)
        return {"phase": self.phase.value, "idempotent": idempotent}

    def renew(self, checkpoint_id: str, deadline: float) -> float:
        """Extend the lease; returns when it ends."""
        self._admit(checkpoint_id)
        if self._active is None:
            raise ControlError("invalid_phase", "no checkpoint is active")
        self._extend(deadline)
        return self._active.lease_until

    def admits_retirement(self, checkpoint_id: str, deadline: float) -> None:
        """`retire` and `forget` are refused while a checkpoint is open (C24)."""
        self._admit(checkpoint_id)
        if self.is_open:
            raise ControlError("invalid_phase", "a checkpoint is open")
        if self._active is not None:
            self._extend(deadline)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _admit(self, checkpoint_id: str) -> None:
        if checkpoint_id in self._resumed:
            raise ControlError("stale_checkpoint", f"checkpoint {checkpoint_id!r} was resumed")
        if self._active is not None and self._active.checkpoint_id != checkpoint_id:
            raise ControlError("checkpoint_conflict", f"checkpoint {self._active.checkpoint_id!r} is active")

    def _begin(self, checkpoint_id: str, deadline: float) -> None:
        self._active = _Active(checkpoint_id, deadline + self._grace)

    def _extend(self, deadline: float) -> None:
        assert self._active is not None
        self._active.lease_until = max(self._active.lease_until, deadline + self._grace)

    def _first_reply(self, operation: str) -> Reply | None:
        assert self._active is not None
        return self._active.replies.get(operation)

    def _operation(self, name: str, deadline: float, now: float, asked: Hashable) -> Reply | None:
        assert self._active is not None
        before = self._active.asked.get(name, asked)
        if before != asked:
            raise ControlError("checkpoint_conflict", f"this {name} was asked for with another directory or scope")
        self._extend(deadline)
        if (reply := self._active.replies.get(name)) is not None:
            return reply
        _not_after(deadline, now)
        self._active.asked[name] = asked
        return None

    def _done(self, checkpoint_id: str, operation: str, phase: ControlPhase, reply: Reply) -> Reply:
        active = self._must_be(checkpoint_id)
        self.phase = phase
        return active.replies.setdefault(operation, {**reply, "phase": phase.value})

    def _must_be(self, checkpoint_id: str) -> _Active:
        if self._active is None or self._active.checkpoint_id != checkpoint_id:
            raise ControlError("stale_checkpoint", f"checkpoint {checkpoint_id!r} was resumed meanwhile")
        return self._active

    def _go_idle(self, checkpoint_id: str) -> None:
        self._active = None
        self.phase = ControlPhase.IDLE
        self._resumed[checkpoint_id] = None
        self._resumed.move_to_end(checkpoint_id)
        while len(self._resumed) > REMEMBERED:
            self._resumed.popitem(last=False)


def _not_after(deadline: float, now: float) -> None:
    if deadline <= now:
        raise ControlError("deadline_exceeded", "the deadline has passed")
