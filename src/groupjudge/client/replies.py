"""From a reply to a value, or to the error that it means."""

from __future__ import annotations

import json
from typing import Any

from groupjudge import errors
from groupjudge.client.values import Judged, JudgeFailure, Outcome, Reply, Rewarded
from groupjudge.errors import GroupJudgeError, InvalidRequest, UnexpectedReply

_TEXT_ERRORS: tuple[type[GroupJudgeError], ...] = (
    errors.BodyTooLarge,
    errors.Unauthorized,
    errors.NotFound,
    errors.QuestionMismatch,
    errors.Superseded,
    errors.ResultGone,
    errors.SizeMismatch,
    errors.AnswerConflict,
    errors.GroupClosed,
    errors.StaleAttempt,
    errors.Overloaded,
    errors.GroupFailed,
    errors.ShuttingDown,
)
_BY_CODE = {kind.code: kind for kind in _TEXT_ERRORS}
_PROXY_STATUSES = (502, 503, 504)


def outcome_in(reply: Reply) -> Outcome:
    """The outcome in a 200 of `/verify`, or of a member's own path. Raises what the server refused with."""
    return _outcome(_fields_of(reply))


def judged_in(reply: Reply) -> Judged:
    """The outcomes in a 200 of `/v1/judge`. Raises what the server refused with."""
    fields = _fields_of(reply)
    try:
        rows = enumerate(fields["outcomes"])
        outcomes = tuple(_outcome({**row, "_ng_rollout_index": slot}) for slot, row in rows)
        return Judged(outcomes, fields["verdicts"], fields["metrics"])
    except (KeyError, TypeError) as error:
        raise _unexpected(reply) from error


def _outcome(fields: dict[str, Any]) -> Outcome:
    try:
        slot = fields["_ng_rollout_index"]
        if fields["mask_sample"]:
            return JudgeFailure(str(fields["failure_reason"]), slot, fields.get("group_size_judged"))
        note = (fields["failure_kind"], fields["failure_reason"], fields.get("group_size_judged"))
        return Rewarded(float(fields["reward"]), slot, *note)
    except (KeyError, TypeError, ValueError) as error:
        raise UnexpectedReply(f"200 without an outcome: {error!r:.200}") from error


def _fields_of(reply: Reply) -> dict[str, Any]:
    if reply.status != 200:
        raise error_in(reply)
    fields = _object(reply)
    if fields is None:
        raise _unexpected(reply)
    return fields


def error_in(reply: Reply) -> GroupJudgeError:
    """The error that a refusal stands for, of the class that has its code."""
    fields = _object(reply) or {}
    code, detail = fields.get("code"), fields.get("detail")
    if code == InvalidRequest.code and isinstance(detail, list):
        return InvalidRequest(detail)
    kind = _BY_CODE.get(str(code))
    return _unexpected(reply) if kind is None else kind(str(detail))


def seconds_to_wait(reply: Reply, otherwise: float) -> float | None:
    """How long to wait before the same request is worth another try; None where this reply is the last word.
    `otherwise` is for replies that do not say."""
    code = (_object(reply) or {}).get("code")
    from_elsewhere = reply.status in _PROXY_STATUSES and code not in _BY_CODE and code != "judge_failed"
    if reply.status == 429 or code in ("shutting_down", "body_timeout") or from_elsewhere:
        said = reply.headers.get("retry-after", "")
        return float(said) if said.isascii() and said.isdigit() else otherwise
    return None


def _object(reply: Reply) -> dict[str, Any] | None:
    try:
        value = json.loads(reply.body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _unexpected(reply: Reply) -> UnexpectedReply:
    return UnexpectedReply(f"{reply.status}: {reply.body[:500].decode('utf-8', 'replace')}")
