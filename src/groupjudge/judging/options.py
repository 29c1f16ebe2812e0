"""How a judge over HTTP is asked: the keys of `judge` in the configuration as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from groupjudge.judging.formats import FormatName
from groupjudge.judging.usage import Budget, Prices


@dataclass(frozen=True, slots=True)
class HttpJudgeOptions:
    """Where the judge is and how it is asked; the keys of `judge` in the configuration, by the same names (H12).
    `use_principle` is `comparison.use_principle`. Times are in seconds. `key` is where these options stand in the
    configuration, for errors; `name` is what usage is told under."""

    base_url: str
    format: FormatName = "template"
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    params: Mapping[str, Any] = field(default_factory=dict)
    template: str | None = None
    structured_output: bool = True
    request_timeout_s: float = 1800.0
    retries: int = 3
    retry_sleep_s: float = 0.2
    max_concurrency: int = 512
    min_concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    empty_answer_text: str = "None"
    trust_env: bool = False
    use_principle: bool = False
    prices: Prices | None = None
    budget: Budget | None = None
    name: str = "judge"
    key: str = "judge"
