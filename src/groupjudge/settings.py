"""The configuration as values: every key of H12 with its bounds and relations, validated once and then frozen.

Where the values come from (file, environment, command line) is `configuration.py`'s business. What each key does and
what it may hold stands here and nowhere else.

Two rules hold throughout: numbers are finite and never booleans or texts, and every error names the key (`group.size`)
in full, because whoever reads it has several files open.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

MASK = "********"
"""What is shown in place of a secret. No secret may be this text: it would come from a printed configuration."""

SECRET_NAMES = frozenset({"auth_token", "api_key", "secret"})
"""Keys whose values are never shown, whatever section they stand in."""

PARAMS_OF_THE_SERVER = {"messages": "", "input": "", "stream": "", "model": "; use judge.model"}
"""Fields of a judge request that `judge.params` may not set, each with what to do instead."""

_DEEPEST_PARAM = 32
_JUDGE_KEY = re.compile(r"(?<![\w./])judge\.(?=[a-z])")


class Problem(NamedTuple):
    """Something wrong with one or several keys: the sentence for a person, and the dotted keys it is about."""

    text: str
    keys: tuple[str, ...]

    def inside(self, loc: tuple[int | str, ...]) -> Problem:
        """The same for the section at `loc`: what is said of `judge` is said of an item of `judges` where it is one."""
        if loc[:1] != ("judges",) or len(loc) < 2:
            return self
        there = f"judges.{loc[1]}."
        return Problem(_JUDGE_KEY.sub(there, self.text), tuple(_JUDGE_KEY.sub(there, key) for key in self.keys))


def problems_error(problems: list[Problem]) -> PydanticCustomError:
    """The pydantic error (`type` "problems") that carries `problems` in its context, for whoever reports it."""
    text = "; ".join(problem.text for problem in problems)
    return PydanticCustomError("problems", "{text}", {"text": text, "problems": problems})


def _not_the_mask(value: str) -> str:
    if value == MASK:
        raise PydanticCustomError("mask", "Input should be the secret itself, not the mask of a printed configuration")
    return value


def _fit_for_a_header(value: str) -> str:
    if not value or not all("!" <= character <= "~" for character in value):
        raise PydanticCustomError("token", "Input should be one or more ASCII characters without white space")
    return value


def _tuple_of_list(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _low_before_high(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] >= value[1]:
        raise PydanticCustomError("range", "Input should be two numbers [low, high] with low below high")
    return value


def _param_problems(value: object, key: str, depth: int = 0) -> Iterator[Problem]:
    """What in a parameter is no JSON: each fault with its dotted key. Null, booleans, texts and finite numbers are."""
    if depth > _DEEPEST_PARAM:
        yield Problem(f"{key} must not be nested deeper than {_DEEPEST_PARAM} levels", (key,))
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if not isinstance(name, str):
                yield Problem(f"{key} must have texts as keys, not {str(name)[:40]}; put it in quotes", (key,))
            yield from _param_problems(inner, f"{key}.{name}", depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _param_problems(inner, f"{key}.{index}", depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(f"{key} must be a finite number, not {value}", (key,))
    elif value is not None and not isinstance(value, str | bool | int | float):
        kind = type(value).__name__
        yield Problem(f"{key} must be a value that JSON knows, not a {kind}; put it in quotes", (key,))


def _checked_params(value: dict[str, Any]) -> dict[str, Any]:
    problems = list(_param_problems(value, "judge.params"))
    for name, remedy in PARAMS_OF_THE_SERVER.items():
        if name in value:
            key = f"judge.params.{name}"
            problems.append(Problem(f"{key} must be left out: the server sets it{remedy}", (key,)))
    if problems:
        raise problems_error(problems)
    return value


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # reading it raises where it is no port
        (parts.hostname or "").encode("idna")  # ... where no name server could be asked for it
    except ValueError:
        return False
    bare = url.isprintable() and " " not in url and not parts.query and not parts.fragment
    return bare and parts.scheme in ("http", "https") and bool(parts.hostname)


def without_login(url: str) -> str:
    """`url` with the user and password of its host masked; any other text as it is."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if not mark or "@" not in host:
        return url
    return f"{scheme}{mark}{MASK}@{host.rpartition('@')[2]}{slash}{path}"


Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
Unsigned = Annotated[float, Field(ge=0)]
Port = Annotated[int, Field(ge=0, le=65535)]
Text = Annotated[str, Field(min_length=1)]
Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$", max_length=64)]
# Travels in an `Authorization` header: nothing in it may break the header.
Token = Annotated[str, AfterValidator(_fit_for_a_header), AfterValidator(_not_the_mask)]
Range = Annotated[tuple[float, float], BeforeValidator(_tuple_of_list), AfterValidator(_low_before_high)]
Params = Annotated[dict[str, Any], AfterValidator(_checked_params)]


class _Section(BaseModel):
    # Inputs stay out of pydantic's own texts: a value may be a secret.
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="after")
    def _relations_hold(self) -> _Section:
        problems = list(self.relations())
        if problems:
            raise problems_error(problems)
        return self

    def relations(self) -> Iterator[Problem]:
        """What is wrong between keys that are each right on their own."""
        yield from ()


class ServerSettings(_Section):
    """How the server listens. `auth_token` guards all but the health routes and the checkpoint control plane."""

    host: Text = "127.0.0.1"
    port: Port = 8600
    auth_token: Annotated[Token | None, Field(repr=False)] = None
    body_timeout_s: Seconds = 60.0
    grace_s: Seconds = 10.0
    show_texts: bool = False


class LimitSettings(_Section):
    """What one request and all of them together may take. `max_active_groups` null: no limit."""

    max_body_bytes: Count = 268_435_456
    max_active_groups: Count | None = None
    max_group_size: Count = 1024
    spool_threshold_bytes: Count = 65_536


class GroupSettings(_Section):
    """The size of a group where no member says one, and how long it may collect and be judged.

    `on_collection_timeout` says what becomes of a group with an id that is not complete then: it fails, or those of its
    members that came are judged among themselves, where they are `min_members` or more (F8).
    """

    size: Count = 16
    collection_timeout_s: Seconds = 1800.0
    judging_timeout_s: Seconds = 1800.0
    on_collection_timeout: Literal["fail", "judge_present"] = "fail"
    min_members: Annotated[int, Field(ge=2)] = 2


class RetentionSettings(_Section):
    """How long and how many finished groups are kept. `ttl_s` null: no time limit."""

    ttl_s: Seconds | None = 3600.0
    max_results: Count = 4096
    max_attempt_records: Count = 4096


class PriceSettings(_Section):
    """What a judge's tokens cost, in any one currency for a million of them (F12)."""

    prompt: Unsigned = 0.0
    completion: Unsigned = 0.0


class BudgetSettings(_Section):
    """What a judge may cost while the process runs: requests, tokens of both kinds, money (F12); null: no limit."""

    calls: Count | None = None
    tokens: Count | None = None
    money: Annotated[float, Field(gt=0)] | None = None


class JudgeSettings(_Section):
    """The judge: where it is, how it is asked and how often, and what its replies may be.

    `template` is the path of a file that replaces the built-in prompt (J8). `params` go into every judge request as
    they are: any JSON object but the fields in `PARAMS_OF_THE_SERVER`. `min_concurrency` null: the calls at once are
    `max_concurrency` and do not adapt; a limit a minute that is null: none. `list_size` and `list_overlap` are for
    `listwise` (F9): how many answers one call scores, and how many of them the next list shows again.
    """

    format: Literal["template", "genrm", "responses", "listwise", "local"] = "template"
    base_url: str = "http://127.0.0.1:8000/v1"
    model: Text | None = None
    api_key: Annotated[Token | None, Field(repr=False)] = None
    params: Params = Field(default_factory=lambda: {"temperature": 0.6, "top_p": 0.95, "max_tokens": 16384})
    template: Text | None = None
    list_size: Annotated[int, Field(ge=2, le=64)] = 8
    list_overlap: Count = 2
    structured_output: bool = True
    request_timeout_s: Seconds = 1800.0
    retries: Annotated[int, Field(ge=0)] = 3
    retry_sleep_s: Unsigned = 0.2
    max_concurrency: Count = 512
    min_concurrency: Count | None = None
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    price: PriceSettings = PriceSettings()
    budget: BudgetSettings = BudgetSettings()
    on_unreadable: Literal["fail", "default_scores"] = "fail"
    on_conflict: Literal["last", "retry"] = "last"
    empty_answer_text: str = "None"
    trust_env: bool = False

    def relations(self) -> Iterator[Problem]:
        """A judge over HTTP needs an address to which a path can be added; the local one ignores it."""
        if self.min_concurrency is not None and self.min_concurrency > self.max_concurrency:
            yield Problem(
                f"judge.min_concurrency ({self.min_concurrency}) must be at most judge.max_concurrency "
                f"({self.max_concurrency})",
                ("judge.min_concurrency", "judge.max_concurrency"),
            )
        if self.list_overlap >= self.list_size:
            yield Problem(
                f"judge.list_overlap ({self.list_overlap}) must be below judge.list_size ({self.list_size})",
                ("judge.list_overlap", "judge.list_size"),
            )
        if self.budget.money is not None and not (self.price.prompt or self.price.completion):
            yield Problem(
                "judge.budget.money needs judge.price: without it nothing costs any",
                ("judge.budget.money", "judge.price"),
            )
        if self.format != "local" and not _is_web_address(self.base_url):
            shown = MASK if "@" in self.base_url else self.base_url[:80]
            yield Problem(
                "judge.base_url must be an address such as http://127.0.0.1:8000/v1, with http:// or https:// "
                f"and a host, without spaces, '?' and '#', not {shown!r}",
                ("judge.base_url",),
            )


class ListedJudge(JudgeSettings):
    """One of several judges (F10). Those with the same `juror` (null: the same `model`) are replicas: one judge at
    several addresses. Different ones are a panel. `name` (null: its place in the list) is what metrics call it."""

    name: Label | None = None
    juror: Label | None = None


_ITS_OWN = frozenset(
    {"name", "juror", "base_url", "api_key", "request_timeout_s", "trust_env", "price", "budget"}
    | {"max_concurrency", "min_concurrency", "requests_per_minute", "tokens_per_minute"}
)
"""The keys in which replicas may differ: the others decide what a verdict is."""


def jurors_of(judges: Sequence[ListedJudge]) -> dict[str, list[int]]:
    """The numbers of the judges that are one juror, by what makes them one; in the order of the list."""
    jurors: dict[str, list[int]] = {}
    for number, judge in enumerate(judges):
        jurors.setdefault(judge.juror or judge.model or "", []).append(number)
    return jurors


def name_of(judge: JudgeSettings, key: str) -> str:
    """What a judge is called whose configuration stands at `key`."""
    return (judge.name if isinstance(judge, ListedJudge) else None) or key


def juror_name(judge: JudgeSettings, key: str) -> str:
    """What the juror is called whose first judge's configuration stands at `key`."""
    return (judge.juror or judge.model if isinstance(judge, ListedJudge) else None) or name_of(judge, key)


def _replica_problems(judges: Sequence[ListedJudge], numbers: Sequence[int]) -> Iterator[Problem]:
    """Replicas must give the same verdicts."""
    first = judges[numbers[0]]
    for number in numbers[1:]:
        keys = (f"judges.{numbers[0]}", f"judges.{number}")
        differing = [
            k for k in first.__class__.model_fields if k not in _ITS_OWN and _differs(first, judges[number], k)
        ]
        if first.format == "local":
            yield Problem(f"{keys[0]} and {keys[1]}: the local judge has no replicas; leave one out", keys)
        elif differing:
            yield Problem(
                f"{keys[0]} and {keys[1]} are replicas of one judge and must not differ in {', '.join(differing)}: "
                "make them the same, or give each a juror of its own for a panel",
                tuple(f"{key}.{name}" for key in keys for name in differing),
            )


def _differs(a: BaseModel, b: BaseModel, key: str) -> bool:
    """Whether two sections differ in a key; `1`, `1.0` and `true` do."""
    return repr(getattr(a, key)) != repr(getattr(b, key))


class ComparisonSettings(_Section):
    """Which pairs of a group are judged, how often, by which principle, and from when on (J1, J2, F1, F6, F7).

    `calls_per_answer` is for `circulant`, and for `adaptive` where `budget_calls` is null. `budget_calls` counts all
    calls of a group; the first round of `adaptive` is asked in full, so it is at least one call an answer.
    """

    strategy: Literal["circular", "all_pairs", "circulant", "adaptive"] = "circular"
    judges_per_pair: Annotated[int, Field(ge=1, le=1000)] = 1
    calls_per_answer: Count = 3
    both_orders: bool = False
    budget_calls: Count | None = None
    seed: Annotated[int, Field(ge=0, lt=2**64)] = 0
    equal_answers: Literal["each", "once"] = "each"
    start: Literal["complete", "eager"] = "complete"
    jurors: Literal["all", "in_turn"] = "all"
    use_principle: bool = False
    default_principle: Text = (
        "Judge which answer is more correct, more helpful and clearer, and follows the instructions better."
    )


class ScoringSettings(_Section):
    """From verdicts to rewards (J14-J17). A range that is null admits any finite number.

    `default_score` and `default_ranking` may lie outside the ranges on purpose: the ranges say what a judge may reply,
    and a default that no judge can give is a way to mark members without a verdict.
    """

    aggregator: Literal["simple_tiebreaker", "least_squares", "bradley_terry", "win_rate"] = "simple_tiebreaker"
    default_score: float = 3.0
    default_ranking: float = 3.5
    score_range: Range | None = (1.0, 5.0)
    ranking_range: Range | None = (1.0, 6.0)
    reasoning_bonus: Unsigned = 0.0
    answer_bonus: Unsigned = 0.0
    top_percentile: Annotated[float, Field(ge=0, le=1)] = 0.2
    reasoning_length_penalty: Unsigned = 0.0
    answer_length_penalty: Unsigned = 0.0
    style_penalty: Unsigned = 0.0
    emoji: Literal["reference", "strict"] = "reference"


class CheckpointSettings(_Section):
    """Taking part in checkpoints (C5). `instance` is a safe path component; `root_dir` null: any directory."""

    enabled: bool = False
    auth_token: Annotated[Token | None, Field(repr=False)] = None
    instance: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128)] = "groupjudge"
    lease_grace_s: Seconds = 60.0
    root_dir: Text | None = None

    def relations(self) -> Iterator[Problem]:
        """The control plane is never open to everybody."""
        if self.enabled and self.auth_token is None:
            yield Problem(
                "checkpoint.auth_token must be set where checkpoint.enabled is true, not null",
                ("checkpoint.enabled", "checkpoint.auth_token"),
            )


class SessionSettings(_Section):
    """The key that signs session cookies. `secret` null: a random one, kept in `state_dir`."""

    secret: Annotated[Text | None, AfterValidator(lambda v: v and _not_the_mask(v)), Field(repr=False)] = None
    state_dir: Text | None = None


Judges = Annotated[tuple[ListedJudge, ...], BeforeValidator(_tuple_of_list), Field(min_length=1)]


class Settings(_Section):
    """The whole configuration. `Settings()` is the default one.

    Raises pydantic's `ValidationError` for unknown keys and bad values; `configuration.load` turns it into an error
    for people.
    """

    server: ServerSettings = ServerSettings()
    limits: LimitSettings = LimitSettings()
    group: GroupSettings = GroupSettings()
    retention: RetentionSettings = RetentionSettings()
    judge: JudgeSettings = JudgeSettings()
    judges: Judges | None = None
    comparison: ComparisonSettings = ComparisonSettings()
    scoring: ScoringSettings = ScoringSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    session: SessionSettings = SessionSettings()

    def relations(self) -> Iterator[Problem]:
        """Members that say no size must not be refused for the size they are given; a budget must do for a group."""
        if self.group.size > self.limits.max_group_size:
            yield Problem(
                f"group.size ({self.group.size}) must be at most limits.max_group_size ({self.limits.max_group_size})",
                ("group.size", "limits.max_group_size"),
            )
        if self.group.min_members > self.limits.max_group_size:
            yield Problem(
                f"group.min_members ({self.group.min_members}) must be at most limits.max_group_size "
                f"({self.limits.max_group_size})",
                ("group.min_members", "limits.max_group_size"),
            )
        yield from self._budget_problems()
        yield from self._list_problems()
        if self.judges is not None:
            yield from self._judges_relations(self.judges)

    def _budget_problems(self) -> Iterator[Problem]:
        comparison = self.comparison
        if comparison.budget_calls is None:
            return
        if comparison.strategy != "adaptive":
            yield Problem(
                f"comparison.budget_calls must be null where comparison.strategy is {comparison.strategy}: "
                "only adaptive has a budget",
                ("comparison.budget_calls", "comparison.strategy"),
            )
        least = self.group.size * comparison.judges_per_pair * (2 if comparison.both_orders else 1)
        if comparison.budget_calls < least:
            yield Problem(
                f"comparison.budget_calls ({comparison.budget_calls}) must be at least {least}, the first round of a "
                "group of group.size",
                ("comparison.budget_calls", "group.size"),
            )

    def _list_problems(self) -> Iterator[Problem]:
        """A judge of lists is asked for no pairs: what says which pairs would be ignored without a word."""
        listwise = [key for key, judge in self.all_judges.items() if judge.format == "listwise"]
        if listwise and self.comparison.strategy != "circular":
            yield Problem(
                f"comparison.strategy must be left out where {listwise[0]}.format is listwise, not "
                f"{self.comparison.strategy}: lists have no pairs to choose",
                ("comparison.strategy", f"{listwise[0]}.format"),
            )
        if listwise and self.judges is not None and len(jurors_of(self.judges)) > 1:
            yield Problem(
                f"{listwise[0]}.format must not be listwise in a panel: give all judges the same model or juror",
                (f"{listwise[0]}.format",),
            )
        if self.comparison.start == "eager" and (listwise or self.comparison.equal_answers == "once"):
            why = f"{listwise[0]}.format is listwise" if listwise else "comparison.equal_answers is once"
            text = f"comparison.start must be complete where {why}: what is asked then shows when all are there"
            yield Problem(text, ("comparison.start", why.partition(" ")[0]))
        if listwise and self.comparison.both_orders:
            yield Problem(
                f"comparison.both_orders must be false where {listwise[0]}.format is listwise: raise "
                "comparison.judges_per_pair, each time another order is shown",
                ("comparison.both_orders", f"{listwise[0]}.format"),
            )

    def _judges_relations(self, judges: Sequence[ListedJudge]) -> Iterator[Problem]:
        """One judge or several; several that can be told apart, and replicas that are the same."""
        if "judge" in self.model_fields_set:
            given = [f"judge.{key}" for key in self.judge.__class__.model_fields if key in self.judge.model_fields_set]
            yield Problem(
                f"judge and judges exclude each other: move {', '.join(given) or 'judge'} into the items of judges, or "
                "leave judges out",
                (*given, "judges"),
            )
        names = [name_of(judge, f"judges.{number}") for number, judge in enumerate(judges)]
        for number, name in enumerate(names):
            if names.index(name) < number:
                keys = (f"judges.{names.index(name)}.name", f"judges.{number}.name")
                yield Problem(f"{keys[0]} and {keys[1]} must not both be {name!r}", keys)
        for numbers in jurors_of(judges).values():
            yield from _replica_problems(judges, numbers)

    @property
    def all_judges(self) -> dict[str, JudgeSettings]:
        """Every judge by the key of its section."""
        if self.judges is None:
            return {"judge": self.judge}
        return {f"judges.{number}": judge for number, judge in enumerate(self.judges)}
