"""The tree of refusals and failures, sorted by whose fault they are. It knows no HTTP.

    GroupJudgeError
    |-- ConfigurationError            whoever starts the server
    |-- CallerError                   whoever sent the request
    |   |-- InvalidRequest            malformed JSON, a missing or mistyped field, a slot out of range
    |   |-- BodyTooLarge
    |   |-- Unauthorized              no token, or another one
    |   |-- NotFound                  nothing is known under this name
    |   |-- Refusal                   well-formed, but the state of its group does not admit it
    |       |-- QuestionMismatch      another question than this group's
    |       |-- Superseded            an older attempt than the newest
    |       |-- ResultGone            the attempt finished and its result was evicted
    |       |-- SizeMismatch          members disagree on N
    |       |-- AnswerConflict        the slot holds another answer
    |       |-- GroupClosed           this slot is not part of the judged group
    |       |-- StaleAttempt          a retired episode
    |-- ServerError                   nobody who sent the request
    |   |-- Overloaded                a configured limit is reached
    |   |-- SpoolFull                 no room to keep a body that waits
    |   |-- GroupFailed               the attempt failed as a group: no member has an outcome
    |   |-- ShuttingDown
    |-- DeadlinePassed                a client's: nobody gave an outcome in time
    |-- UnexpectedReply               a client's: something that is no reply of this server
    |-- InvalidCheckpoint             whoever wrote or names the files
    |-- JudgeError                    the judge
        |-- JudgeFailed               a pair has no verdict and will get none
            |-- BudgetSpent           because what the judge may cost is used up

Every class has a `code`, the word by which machines tell it apart (H5). A raised error means that nothing changed.
"""

from __future__ import annotations

from typing import ClassVar, TypedDict

HIGHER_ATTEMPT = "dispatch the whole group again with a higher _ng_group_attempt for every member"
"""What a server advises where the state of a group is final."""


class GroupJudgeError(Exception):
    """Base of everything this package raises on purpose. `code` names the kind, `str(error)` says what to change."""

    code: ClassVar[str] = "internal"


class ConfigurationError(GroupJudgeError):
    """A bad configuration: the text names the key, the value and what is allowed."""

    code = "invalid_configuration"


class CallerError(GroupJudgeError):
    """The request cannot be served as it is."""


class FieldProblem(TypedDict):
    """One fault of a request: where (`loc`, field names and indexes), what (`msg`), and its kind (`type`)."""

    loc: list[str | int]
    msg: str
    type: str


class InvalidRequest(CallerError):
    """A malformed request; `problems` has one entry for each fault found."""

    code = "invalid_request"

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("; ".join(p["msg"] for p in problems))
        self.problems = problems

    @classmethod
    def at(cls, *loc: str | int, msg: str, type: str = "value_error") -> InvalidRequest:
        """One problem at `loc` (for a body: starting with the field's name)."""
        return cls([{"loc": ["body", *loc], "msg": msg, "type": type}])


class BodyTooLarge(CallerError):
    """The body (after expansion) exceeds the configured limit."""

    code = "too_large"


class Unauthorized(CallerError):
    """The server wants its bearer token."""

    code = "unauthorized"


class NotFound(CallerError):
    """No such group, member or path is known."""

    code = "not_found"


class Refusal(CallerError):
    """The group's state does not admit this request. It changed nothing."""


class QuestionMismatch(Refusal):
    code = "question_mismatch"


class Superseded(Refusal):
    code = "superseded"


class ResultGone(Refusal):
    code = "result_gone"


class SizeMismatch(Refusal):
    code = "size_mismatch"


class AnswerConflict(Refusal):
    code = "answer_conflict"


class GroupClosed(Refusal):
    code = "group_closed"


class StaleAttempt(Refusal):
    code = "stale_attempt"


class ServerError(GroupJudgeError):
    """The request was fine; the server cannot serve it."""


class Overloaded(ServerError):
    code = "overloaded"


class SpoolFull(ServerError):
    """No room on disk, or no file left to open, for a body that waits for its group."""

    code = "overloaded"


class GroupFailed(ServerError):
    """The attempt failed as a group: every request for it is answered so (L5)."""

    code = "group_failed"

    @property
    def reason(self) -> str:
        """Why, without the advice that follows: who sets no ids and attempts cannot take it."""
        return str(self).removesuffix(f"; {HIGHER_ATTEMPT}")


class ShuttingDown(ServerError):
    code = "shutting_down"


class DeadlinePassed(GroupJudgeError, TimeoutError):
    """A client had no outcome before its deadline; the text names the last thing that it met. The member may be with
    its group all the same: the same call again is safe."""

    code = "deadline_passed"


class UnexpectedReply(GroupJudgeError):
    """A client got a reply that this server does not give, or an internal error; the text holds its beginning."""

    code = "unexpected_reply"


class InvalidCheckpoint(GroupJudgeError):
    """A checkpoint that cannot be restored; the text names the file or the group, and what is wrong with it."""

    code = "invalid_checkpoint_state"


class JudgeError(GroupJudgeError):
    """The judge's fault."""


class JudgeFailed(JudgeError):
    """A comparison has no verdict and will get none; the group is a judge failure (H4).

    `reason` is for the caller (at most 2,000 characters are sent; it may quote the judge), `summary` for logs: what
    kind and, where there was one, which status, without any text of the judge (L26).
    """

    code = "judge_failed"

    def __init__(self, reason: str, summary: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.summary = summary


class BudgetSpent(JudgeFailed):
    """What the judge may cost is used up: no group will be judged until it is started anew with a higher budget."""
