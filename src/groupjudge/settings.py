"""The configuration as values: every key of H12 with its bounds, validated once and then frozen.

Where the values come from (file, environment, command line) is `configuration.py`'s business.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
Unsigned = Annotated[float, Field(ge=0)]
Port = Annotated[int, Field(ge=0, le=65535)]


class _Section(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class ServerSettings(_Section):
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Port = 8600
    auth_token: Annotated[str, Field(min_length=1)] | None = None
    body_timeout_s: Seconds = 60.0
    grace_s: Seconds = 10.0
    show_texts: bool = False


class LimitSettings(_Section):
    max_body_bytes: Count = 268_435_456
    max_active_groups: Count | None = None
    max_group_size: Count = 1024
    spool_threshold_bytes: Count = 65_536


class GroupSettings(_Section):
    size: Count = 16
    collection_timeout_s: Seconds = 1800.0
    judging_timeout_s: Seconds = 1800.0


class RetentionSettings(_Section):
    ttl_s: Seconds | None = 3600.0
    max_results: Count = 4096
    max_attempt_records: Count = 4096


class JudgeSettings(_Section):
    format: Literal["template", "genrm", "responses", "local"] = "template"
    base_url: str = "http://127.0.0.1:8000/v1"
    model: str | None = None
    api_key: str | None = None
    params: dict[str, Any] = Field(
        default_factory=lambda: {"temperature": 0.6, "top_p": 0.95, "max_tokens": 16384}
    )
    template: str | None = None
    structured_output: bool = True
    request_timeout_s: Seconds = 1800.0
    retries: Annotated[int, Field(ge=0)] = 3
    retry_sleep_s: Unsigned = 0.2
    max_concurrency: Count = 512
    on_unreadable: Literal["fail", "default_scores"] = "fail"
    on_conflict: Literal["last", "retry"] = "last"
    empty_answer_text: str = "None"
    trust_env: bool = False

    @model_validator(mode="after")
    def _endpoint_is_a_web_address(self) -> JudgeSettings:
        if self.format != "local" and not self.base_url.startswith(("http://", "https://")):
            raise ValueError("judge.base_url must start with http:// or https://")
        return self


class ComparisonSettings(_Section):
    strategy: Literal["circular", "all_pairs"] = "circular"
    judges_per_pair: Count = 1
    use_principle: bool = False
    default_principle: Annotated[str, Field(min_length=1)] = (
        "Judge which answer is more correct, more helpful and clearer, and follows the instructions better."
    )


Range = tuple[float, float]


class ScoringSettings(_Section):
    aggregator: Literal["simple_tiebreaker"] = "simple_tiebreaker"
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
    enabled: bool = False
    auth_token: Annotated[str, Field(min_length=1)] | None = None
    instance: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = "groupjudge"
    lease_grace_s: Seconds = 60.0
    root_dir: str | None = None

    @model_validator(mode="after")
    def _control_plane_needs_a_token(self) -> CheckpointSettings:
        if self.enabled and self.auth_token is None:
            raise ValueError("checkpoint.enabled needs checkpoint.auth_token")
        return self


class SessionSettings(_Section):
    secret: str | None = None
    state_dir: str | None = None


class Settings(_Section):
    """The whole configuration. `Settings()` is the default one."""

    server: ServerSettings = ServerSettings()
    limits: LimitSettings = LimitSettings()
    group: GroupSettings = GroupSettings()
    retention: RetentionSettings = RetentionSettings()
    judge: JudgeSettings = JudgeSettings()
    comparison: ComparisonSettings = ComparisonSettings()
    scoring: ScoringSettings = ScoringSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    session: SessionSettings = SessionSettings()
