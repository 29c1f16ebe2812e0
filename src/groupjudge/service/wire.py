"""The JSON shapes of refusals (H5), the one table from an error's code to its status, and other small replies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from groupjudge.answers.echo import JUDGE_FAILED, MAX_REASON, size_judged
from groupjudge.core.views import GroupView
from groupjudge.errors import HIGHER_ATTEMPT, FieldProblem, GroupFailed, GroupJudgeError, InvalidRequest
from groupjudge.model import (
    AnswerTexts,
    Attempt,
    GroupFailure,
    GroupId,
    JudgeFailure,
    Judgement,
    Outcome,
    Rewarded,
    Slot,
    Topic,
    UnnamedKey,
)

STATUS: Mapping[str, int] = MappingProxyType(
    {
        "invalid_request": 422,
        "too_large": 413,
        "superseded": 409,
        "question_mismatch": 409,
        "answer_conflict": 409,
        "group_closed": 409,
        "result_gone": 409,
        "size_mismatch": 409,
        "stale_attempt": 409,
        "group_failed": 503,
        "shutting_down": 503,
        "judge_failed": 503,
        "overloaded": 429,
        "unauthorized": 401,
        "not_found": 404,
        "method_not_allowed": 405,
        "body_timeout": 408,
        "unsupported_media_type": 415,
        "internal": 500,
    }
)
RETRY_AFTER_S = 5
PENDING_RETRY_S = 1
MAX_ERROR_BYTES = 4096
_MAX_PROBLEMS = 16
_MAX_TEXT = 2000
_MAX_TEXT_BYTES = 3600
SHOWN_TEXTS = 200_000
MOST_TURNS = 200

_FRESH_ID = (
    "a group without an id keeps its failure until it is no longer retained: send a fresh _ng_group_id, shared by "
    "every member of the group"
)
REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        "superseded": "send the newest attempt, or drop this one",
        "question_mismatch": "use a fresh _ng_group_id for other work",
        "answer_conflict": f"the first answer of a slot counts; to replace it, {HIGHER_ATTEMPT}",
        "group_closed": f"to judge another set of answers, {HIGHER_ATTEMPT}",
        "result_gone": HIGHER_ATTEMPT,
        "size_mismatch": "send the same _ng_group_size for every member of a group",
        "group_failed": HIGHER_ATTEMPT,
        "overloaded": "send it again later",
        "shutting_down": "send it again once the server is back",
    }
)


class Reply(NamedTuple):
    """A small JSON reply."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


def json_reply(value: Any, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Reply:
    """A reply with `value` as its JSON body."""
    return Reply(status, msgspec.json.encode(value), headers)


def refusal(code: str, text: str, *, unnamed: bool = False) -> Reply:
    """The reply of a refusal: what is wrong, and what to do about it. `unnamed`: the request's group has no id."""
    remedy = _FRESH_ID if unnamed and code == "group_failed" else REMEDIES.get(code)
    detail = _bounded(text) + (f"; {remedy}" if remedy else "")
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if code == "overloaded":
        headers = ((b"retry-after", str(RETRY_AFTER_S).encode()),)
    if code == "unauthorized":
        headers = ((b"www-authenticate", b"Bearer"),)
    if code == "body_timeout":
        # What still comes of the body would be taken for a request.
        headers = ((b"connection", b"close"),)
    return json_reply({"detail": detail, "code": code}, STATUS[code], headers)


def of_error(error: GroupJudgeError, *, unnamed: bool = False) -> Reply:
    """The reply that a raised error becomes."""
    if isinstance(error, InvalidRequest):
        return _invalid(error)
    return refusal(error.code if error.code in STATUS else "internal", str(error), unnamed=unnamed)


def judge_failure_reason(reason: str, *, unnamed: bool) -> str:
    """What a masked reply says: of a group without an id also what to do about it (L20)."""
    if not unnamed:
        return reason
    remedy = f"; {_FRESH_ID}"
    return reason[: MAX_REASON - len(remedy)] + remedy


def of_failure(failure: GroupFailure, *, unnamed: bool = False) -> Reply:
    """The reply to a caller that waited for a group which failed as a group."""
    if failure.kind == "shutting_down":
        return refusal("shutting_down", failure.reason)
    return of_error(GroupFailed(failure.reason), unnamed=unnamed)


def _invalid(error: InvalidRequest) -> Reply:
    """A list of problems, cut so that the reply stays small."""
    shown = [_shown_problem(problem) for problem in error.problems[:_MAX_PROBLEMS]]
    reply = json_reply({"detail": shown, "code": error.code}, STATUS[error.code])
    while len(reply.body) > MAX_ERROR_BYTES and len(shown) > 1:
        shown.pop()
        reply = json_reply({"detail": shown, "code": error.code}, STATUS[error.code])
    return reply


def _shown_problem(problem: FieldProblem) -> FieldProblem:
    loc = [_plain(step)[:100] if isinstance(step, str) else step for step in problem["loc"][:8]]
    return {"loc": loc, "msg": _plain(problem["msg"])[:200], "type": _plain(problem["type"])[:60]}


def _bounded(text: str) -> str:
    """The beginning of a text, as much of it as a small reply can hold however it is spelled there."""
    text = _plain(text)[:_MAX_TEXT]
    while len(msgspec.json.encode(text)) > _MAX_TEXT_BYTES:
        text = text[: len(text) * 3 // 4]
    return text


def _plain(text: str) -> str:
    """Text that any encoder takes."""
    return text.encode("utf-8", "replace").decode()


def comparison(judgement: Judgement | None, rewards: Iterable[float]) -> Reply:
    """The reply of `/compare` (H6)."""
    if judgement is None:
        return json_reply({"rewards": list(rewards), "comparison_results": None, "metrics": None})
    rows, metrics = verdict_rows(judgement), metric_row(judgement)
    return json_reply({"rewards": list(judgement.rewards), "comparison_results": rows, "metrics": metrics})


def judged_group(outcomes: Sequence[Outcome], judgement: Judgement | None) -> Reply:
    """The reply of `/v1/judge` (A1). Of a judge failure the rewards are null: no reward is not a reward of 0."""
    rows = [_outcome_row(outcome) for outcome in outcomes]
    return json_reply(
        {
            "rewards": [row["reward"] for row in rows],
            "outcomes": rows,
            "verdicts": None if judgement is None else verdict_rows(judgement),
            "metrics": None if judgement is None else metric_row(judgement),
        }
    )


def _outcome_row(outcome: Outcome) -> dict[str, object]:
    if isinstance(outcome, Rewarded):
        kind = outcome.failure_kind
        reason = None if outcome.failure_reason is None else _plain(outcome.failure_reason[:MAX_REASON])
        return {"reward": outcome.reward, "mask_sample": False, "failure_kind": kind, "failure_reason": reason}
    failed = {"reward": None, "mask_sample": True, "failure_kind": JUDGE_FAILED}
    return {**failed, "failure_reason": _plain(outcome.reason[:MAX_REASON])}


class Place(NamedTuple):
    """Where a member sits: what `GET /v1/groups/{id}/{attempt}/{slot}` asks for."""

    group_id: GroupId
    attempt: Attempt
    slot: Slot


def _segment(group_id: GroupId) -> str:
    """The id in a path. Of dots alone, it would be taken for the folder itself or the one above."""
    return group_id.replace(".", "%2E") if group_id in (".", "..") else quote(group_id, safe="")


def pending(place: Place, member_id: str | None, *, applied: bool = False) -> Reply:
    """202: the member's outcome is to be fetched (A2). `applied`: this answers `Prefer: respond-async`."""
    where = f"/v1/groups/{_segment(place.group_id)}/{place.attempt}/{place.slot}".encode()
    headers = ((b"location", where), (b"retry-after", b"%d" % PENDING_RETRY_S))
    preference = ((b"preference-applied", b"respond-async"),) if applied else ()
    return json_reply({"status": "pending", **_identity(place, member_id)}, 202, headers + preference)


def member_outcome(place: Place, member_id: str | None, outcome: Rewarded | JudgeFailure) -> Reply:
    """A member's outcome without any echo (A2): what `/verify` says of it, and its identity. As there, the reward of a
    judge failure is 0.0 and `mask_sample` says that it is none (H4)."""
    fields = _outcome_row(outcome)
    if isinstance(outcome, JudgeFailure):
        reason = fields["failure_reason"]
        fields |= {"reward": 0.0, "_ng_failure_class": JUDGE_FAILED, "_ng_failure_judge_error": reason}
    return json_reply({**fields, **size_judged(outcome.group_size_judged), **_identity(place, member_id)})


def _identity(place: Place, member_id: str | None) -> dict[str, object]:
    identity: dict[str, object] = {
        "_ng_group_id": place.group_id,
        "_ng_group_attempt": place.attempt,
        "_ng_rollout_index": place.slot,
    }
    return identity if member_id is None else {**identity, "_ng_member_id": member_id}


def verdict_rows(judgement: Judgement) -> list[dict[str, float]]:
    """The verdicts as `/compare` lists them."""
    return [
        {
            "response_i": v.i,
            "response_j": v.j,
            "judge_idx": v.judge,
            "score_1": v.score_1,
            "score_2": v.score_2,
            "ranking": v.ranking,
        }
        for v in judgement.verdicts
    ]


def metric_row(judgement: Judgement) -> dict[str, float] | None:
    """The metrics as `/compare` shows them (J18)."""
    return judgement.metrics._asdict() if judgement.metrics else None


def trust_rows(judgement: Judgement) -> dict[str, Any]:
    """How sure a group's rewards are (F4): each one's standard error, and the group's measures; null without
    verdicts."""
    measures = judgement.measures
    return {
        "standard_errors": list(judgement.errors) or None,
        "measures": None if measures is None else measures._asdict(),
    }


def judges_rows(judgement: Judgement) -> dict[str, Any]:
    """What judging cost by judge, and of a panel what each juror did and how often two differed (F10, F12). The juror
    of a verdict is `judge_idx` modulo their number."""
    rows: dict[str, Any] = {"usage": [each._asdict() for each in judgement.usage]}
    if judgement.jurors:
        rows["jurors"] = [juror._asdict() for juror in judgement.jurors]
        rows["disagreement"] = judgement.disagreement
    return rows


def group_row(view: GroupView, now: float) -> dict[str, Any]:
    """One group in `/v1/groups`: no text, no fingerprint. Ages are in seconds."""
    named = not isinstance(view.key, UnnamedKey)
    return {
        "id": view.key if named else None,
        "key": None if named else {"kind": view.key[0], "label": view.key[1]},
        "attempt": view.attempt,
        "phase": view.phase,
        "size": view.size,
        **size_judged(view.size_judged),
        "members": list(view.present),
        "missing": sorted(set(range(view.size)).difference(view.present)),
        "callers": view.callers,
        "age_s": round(now - view.started, 3),
        "judging_s": _between(view.complete_since, view.finished, now),
        "finished_s_ago": None if view.finished is None else round(now - view.finished, 3),
        "outcome": None if view.outcomes is None else _shown(view.outcomes, view.present),
    }


def group_details(view: GroupView, now: float, shown: dict[str, Any] | None = None) -> dict[str, Any]:
    """One group in `/v1/groups/{id}/{attempt}` (F5): its row, and of a completed one rewards, verdicts, metrics,
    standard errors and measures. `shown`: its texts, where they may be."""
    row = group_row(view, now) | ({} if shown is None else {"texts": shown})
    if view.judgement is not None:
        row["rewards"] = list(view.judgement.rewards)
        row["verdicts"] = verdict_rows(view.judgement)
        row["metrics"] = metric_row(view.judgement)
        row |= trust_rows(view.judgement)
        row |= judges_rows(view.judgement)
        if view.size_judged is not None:
            row |= {name: _by_slot(view, row[name]) for name in ("rewards", "standard_errors") if row[name]}
    return row


def _by_slot(view: GroupView, values: Sequence[object]) -> list[object]:
    """One value a slot, of one for each member that was judged; null for those that did not come (F8)."""
    by_slot = dict(zip(view.present, values, strict=True))
    return [by_slot.get(slot) for slot in range(view.size)]


def texts(topic: Topic, answers: Sequence[AnswerTexts | None]) -> dict[str, Any]:
    """The question and the answers of an active group, where `server.show_texts` lets them be shown: each text at most
    as long as leaves the whole bounded; `cut` says whether one was longer."""
    most = max(200, SHOWN_TEXTS // (len(topic.conversation) + 2 * len(answers) + 1))
    whole = [message.content for message in topic.conversation]
    whole += [text for answer in answers if answer is not None for text in answer]
    return {
        "question": [{"role": m.role, "content": _plain(m.content[:most])} for m in topic.conversation[:MOST_TURNS]],
        "principle": None if topic.principle is None else _plain(topic.principle[:most]),
        "answers": [
            {"slot": slot, "text": _plain(answer.answer[:most]), "reasoning": _plain(answer.reasoning[:most])}
            for slot, answer in enumerate(answers)
            if answer is not None
        ],
        "cut": len(topic.conversation) > MOST_TURNS or any(len(text) > most for text in whole),
    }


def _between(since: float | None, until: float | None, now: float) -> float | None:
    return None if since is None else round((now if until is None else until) - since, 3)


def _shown(outcomes: tuple[Outcome, ...], present: tuple[int, ...]) -> dict[str, Any]:
    """Of a restored group only the members that came back have an outcome."""
    first = outcomes[present[0]]
    if isinstance(first, Rewarded):
        told = dict.fromkeys(range(len(outcomes)))
        return {"rewards": list((told | {slot: getattr(outcomes[slot], "reward", None) for slot in present}).values())}
    if isinstance(first, JudgeFailure):
        return {"failure": "judge_failed"}
    return {"failure": first.kind, "reason": first.reason}
