"""The values that every room speaks of: frozen, slotted, without behaviour.

Sizes and ranges: a slot is an integer from 0 to N-1; an attempt an integer from 0 to 2**63-1; a fingerprint is opaque
bytes that are equal exactly where the JSON values are equal (L21).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NewType, TypeAlias

GroupId = NewType("GroupId", str)
Slot: TypeAlias = int
Attempt: TypeAlias = int
Run = NewType("Run", int)
"""Names one life of one group. Never used twice, though an id and attempt can form twice."""
Ticket = NewType("Ticket", int)
"""Names one caller that waits for one member. Never used twice."""
Fingerprint = NewType("Fingerprint", bytes)


class UnnamedKey(NamedTuple):
    """The key of a group without an id (L20). `kind` is what identifies it beside its question: `task` (label: the task
    index), `prompt` (label: the prompt id) or `question` (label: None)."""

    kind: str
    label: int | str | None
    question: Fingerprint
    attempt: Attempt


GroupKey: TypeAlias = GroupId | UnnamedKey
"""A group id as it came, or what stands in for one."""


class Arrival(NamedTuple):
    """One answer on its way into its group. Fields were validated: 0 <= slot < size, 0 <= attempt < 2**63, size >= 1.

    `material` is what the host keeps of the answer for judging, `topic` what it keeps of the question; the core looks
    into neither. `slot` is None where `member_id` asks the server for one.
    """

    key: GroupKey
    attempt: Attempt
    size: int
    slot: Slot | None
    question: Fingerprint
    answer: Fingerprint
    material: object
    topic: object
    member_id: str | None = None


class Message(NamedTuple):
    """One turn of a conversation as the judge sees it: role (user, assistant, system, developer) and plain text."""

    role: str
    content: str


Conversation: TypeAlias = tuple[Message, ...]


class Topic(NamedTuple):
    """What a group is judged on: the conversation (J4) and the request's principle, None where it sent none."""

    conversation: Conversation
    principle: str | None = None


class AnswerTexts(NamedTuple):
    """What scoring needs of an answer. `answer` and `reasoning` are as J5 joins them: `answer` of white space alone or
    nothing is the text `None`; `reasoning` may be empty."""

    answer: str
    reasoning: str


class Pair(NamedTuple):
    """One planned comparison: slot `i` sits in the first seat, slot `j` in the second, for the `judge`-th time."""

    i: Slot
    j: Slot
    judge: int


class Listing(NamedTuple):
    """One planned list: the slots in the order in which a judge is shown them (two or more, none twice), in the
    `judge`-th call for the group."""

    slots: tuple[Slot, ...]
    judge: int


class Reading(NamedTuple):
    """The three numbers of a judge's reply (J11): how good each answer is, and which is better (low: the first)."""

    score_1: float
    score_2: float
    ranking: float


class Verdict(NamedTuple):
    """A reading for a planned pair."""

    i: Slot
    j: Slot
    judge: int
    score_1: float
    score_2: float
    ranking: float


class Metrics(NamedTuple):
    """J18: mean and population standard deviation of all scores as the judge gave them, share of verdicts that needed
    the tie-break (0..1)."""

    mean_individual_score: float
    std_individual_score: float
    tiebreak_usage_rate: float


class Measures(NamedTuple):
    """F4: how far a group's verdicts can be trusted.

    `position_bias`: how much more than the second seat the first one scored on average, in points; None without
    verdicts. `swap_flip_rate`: of the pairs judged in both orders, the share (0..1) in which the swap turned the
    verdict; None where none was. `cycles`: of the `triples` of answers that all met and none of which drew, how many
    beat each other in a circle. `ties`: verdicts that nobody won. `ambiguous_replies`: verdicts whose reply held others
    too. `default_scores`: verdicts for which these stood in. `calls_saved`: calls that equal answers made needless
    (F6). `spread`: the population standard deviation of the rewards. `is_flat`: all rewards are equal, and teach
    nothing.
    """

    position_bias: float | None
    swap_flip_rate: float | None
    cycles: int
    triples: int
    ties: int
    ambiguous_replies: int
    default_scores: int
    calls_saved: int
    spread: float
    is_flat: bool


class JudgeUsage(NamedTuple):
    """What one judge was asked (requests, each try one) and what it counted. `money` is None where it has no price."""

    judge: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    money: float | None


class JurorReport(NamedTuple):
    """What one juror of a panel gave a group: its verdicts; why it was left out (None: it was not); how often (0..1)
    its verdict on a pair preferred another answer than that of another juror, None where it met none."""

    name: str
    verdicts: int
    left_out: str | None
    disagreement: float | None


@dataclass(frozen=True, slots=True)
class Rewarded:
    """The outcome of one member: a finite reward. `failure_kind` and `failure_reason` are set only where default scores
    stood in for unreadable verdicts (J13), `group_size_judged` only where not all members came: how many did, and were
    judged (F8)."""

    reward: float
    failure_kind: str | None = None
    failure_reason: str | None = None
    group_size_judged: int | None = None


@dataclass(frozen=True, slots=True)
class JudgeFailure:
    """The outcome of every member of a group whose judge failed. `reason` is at most 2,000 characters;
    `group_size_judged` as in `Rewarded`."""

    reason: str
    group_size_judged: int | None = None


@dataclass(frozen=True, slots=True)
class GroupFailure:
    """The outcome of an attempt that failed as a group. `kind` is collection_timeout, superseded, internal or
    shutting_down."""

    kind: str
    reason: str


Outcome: TypeAlias = Rewarded | JudgeFailure | GroupFailure


@dataclass(frozen=True, slots=True)
class Judgement:
    """What judging a group brought: rewards in slot order (of the members that came, F8), the verdicts behind them
    (as J2 orders them), their metrics, the note of J13 where default scores stood in, each reward's standard error
    (in slot order; None where unknown, empty where nothing was asked for), and the group's measures. `usage` is
    what it cost, by judge. Of a panel `jurors` says what each did, and `disagreement` how often (0..1) two of them
    differed on a pair (F10)."""

    rewards: tuple[float, ...]
    verdicts: tuple[Verdict, ...]
    metrics: Metrics | None
    failure_kind: str | None = None
    failure_reason: str | None = None
    errors: tuple[float | None, ...] = ()
    measures: Measures | None = None
    usage: tuple[JudgeUsage, ...] = ()
    jurors: tuple[JurorReport, ...] = ()
    disagreement: float | None = None
