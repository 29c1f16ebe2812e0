"""The configuration's keys, bounds and relations (H12)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from groupjudge.settings import MASK, Settings, jurors_of, without_login


def refusal(**sections: Any) -> str:
    """What `Settings` says of `sections`, each fault as "key: text" where pydantic knows the key."""
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(sections)
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in caught.value.errors())


def test_the_defaults_are_those_of_the_contract() -> None:
    """H12: the values in the contract's YAML, spot-checked where a wrong one would change a reward or a deadline."""
    settings = Settings()
    assert (settings.server.host, settings.server.port, settings.server.auth_token) == ("127.0.0.1", 8600, None)
    assert (settings.server.body_timeout_s, settings.server.grace_s, settings.server.show_texts) == (60, 10, False)
    assert settings.limits.model_dump() == {
        "max_body_bytes": 268435456,
        "max_active_groups": None,
        "max_group_size": 1024,
        "spool_threshold_bytes": 65536,
    }
    assert settings.group.model_dump() == {"size": 16, "collection_timeout_s": 1800, "judging_timeout_s": 1800} | {
        "on_collection_timeout": "fail",
        "min_members": 2,
    }
    assert settings.retention.model_dump() == {"ttl_s": 3600, "max_results": 4096, "max_attempt_records": 4096}
    judge = settings.judge
    assert judge.params == {"temperature": 0.6, "top_p": 0.95, "max_tokens": 16384}
    assert (judge.format, judge.base_url, judge.model, judge.api_key) == (
        "template",
        "http://127.0.0.1:8000/v1",
        None,
        None,
    )
    assert (judge.request_timeout_s, judge.retries, judge.retry_sleep_s, judge.max_concurrency) == (1800, 3, 0.2, 512)
    assert (judge.on_unreadable, judge.on_conflict, judge.empty_answer_text, judge.trust_env) == (
        "fail",
        "last",
        "None",
        False,
    )
    assert (settings.comparison.strategy, settings.comparison.judges_per_pair) == ("circular", 1)
    assert settings.comparison.use_principle is False
    assert settings.scoring.model_dump() == {
        "aggregator": "simple_tiebreaker",
        "default_score": 3.0,
        "default_ranking": 3.5,
        "score_range": (1.0, 5.0),
        "ranking_range": (1.0, 6.0),
        "reasoning_bonus": 0.0,
        "answer_bonus": 0.0,
        "top_percentile": 0.2,
        "reasoning_length_penalty": 0.0,
        "answer_length_penalty": 0.0,
        "style_penalty": 0.0,
        "emoji": "reference",
    }
    assert settings.checkpoint.model_dump() == {
        "enabled": False,
        "auth_token": None,
        "instance": "groupjudge",
        "lease_grace_s": 60,
        "root_dir": None,
    }
    assert settings.session.model_dump() == {"secret": None, "state_dir": None}


def numbers_of_the_configuration() -> list[tuple[str, str, Any]]:
    """(section, key, default) of every number."""
    dumped = Settings().model_dump()
    return [
        (section, key, value)
        for section, keys in dumped.items()
        if isinstance(keys, dict)
        for key, value in keys.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


@pytest.mark.parametrize(("section", "key", "default"), numbers_of_the_configuration())
def test_what_is_no_finite_number_is_no_value_of_a_number(section: str, key: str, default: Any) -> None:
    """H12: numbers are finite; booleans and texts are no numbers."""
    for value in (True, "1", "1.0", math.nan, math.inf, -math.inf, [1], {}):
        assert f"{section}.{key}: " in refusal(**{section: {key: value}}), value
    if key != "ttl_s":
        assert f"{section}.{key}: " in refusal(**{section: {key: None}})


@pytest.mark.parametrize(("section", "key", "default"), numbers_of_the_configuration())
def test_an_integer_stands_for_a_float_and_a_float_never_for_an_integer(section: str, key: str, default: Any) -> None:
    """H12: `ttl_s: 3600` is fine, `size: 16.0` is not."""
    if isinstance(default, float):
        value = Settings.model_validate({section: {key: 1}}).model_dump()[section][key]
        assert value == 1.0
        assert type(value) is float
    else:
        assert "integer" in refusal(**{section: {key: float(default)}})


@pytest.mark.parametrize(("section", "key", "default"), numbers_of_the_configuration())
def test_timeouts_are_above_zero_and_counts_at_least_one(section: str, key: str, default: Any) -> None:
    """H12: timeouts > 0, counts >= 1; only scores, pauses, bonuses and the port may be 0."""
    zero_allowed = {"port", "retries", "retry_sleep_s", "default_score", "default_ranking", "top_percentile", "seed"}
    if key in zero_allowed or key.endswith(("_bonus", "_penalty")):
        Settings.model_validate({section: {key: 0}})
    else:
        assert "greater than" in refusal(**{section: {key: 0}})
    if key not in {"default_score", "default_ranking"}:
        assert f"{section}.{key}: " in refusal(**{section: {key: -1}})


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("server", "port", 65536), ("scoring", "top_percentile", 1.5), ("checkpoint", "instance", "a" * 129)],
)
def test_upper_bounds_hold(section: str, key: str, value: object) -> None:
    """H12, C13: ports, shares and the length of a path component have a greatest value."""
    assert f"{section}.{key}: " in refusal(**{section: {key: value}})


@pytest.mark.parametrize("key", ["score_range", "ranking_range"])
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([5, 1], "low below high"),
        ([1, 1], "low below high"),
        ([1], "required"),
        ([1, 2, 3], "at most 2"),
        ([1, True], "number"),
        ([1, "5"], "number"),
        ([1, math.inf], "finite"),
        ("1-5", "tuple"),
    ],
)
def test_a_range_is_two_numbers_low_before_high(key: str, value: object, says: str) -> None:
    """H12: anything else is refused, with the key in the error."""
    text = refusal(scoring={key: value})
    assert f"scoring.{key}" in text
    assert says in text


def test_a_range_may_be_a_list_a_pair_or_null() -> None:
    """H12: `[1, 10]` as YAML gives it; null stands for any finite number."""
    scoring = Settings.model_validate({"scoring": {"score_range": [1, 10], "ranking_range": None}}).scoring
    assert scoring.score_range == (1.0, 10.0)
    assert scoring.ranking_range is None
    assert Settings.model_validate({"scoring": {"score_range": (0, 1)}}).scoring.score_range == (0.0, 1.0)


def test_defaults_may_lie_outside_the_ranges() -> None:
    """J13: a default that no judge can give marks members without a verdict, so 0 with a range of 1 to 5 is legal."""
    scoring = Settings.model_validate({"scoring": {"default_score": 0.0, "default_ranking": 9}}).scoring
    assert (scoring.default_score, scoring.default_ranking) == (0.0, 9.0)


def test_a_group_may_not_be_larger_than_the_largest_group() -> None:
    """H12: the relation names both keys and both values; equal is fine."""
    text = refusal(group={"size": 9}, limits={"max_group_size": 8})
    assert "group.size (9)" in text
    assert "limits.max_group_size (8)" in text
    Settings.model_validate({"group": {"size": 8}, "limits": {"max_group_size": 8}})


def test_pairs_are_not_judged_early_where_equal_answers_are_one() -> None:
    """F7: which answers are equal shows when all are there; the error says what to change."""
    text = refusal(comparison={"start": "eager", "equal_answers": "once"})
    assert "comparison.start" in text
    assert "comparison.equal_answers" in text
    assert "judge.format is listwise" in refusal(comparison={"start": "eager"}, judge={"format": "listwise"})
    Settings.model_validate({"comparison": {"start": "eager", "strategy": "adaptive"}})


def test_enough_members_are_two_or_more_and_no_more_than_a_group_may_have() -> None:
    """F8: one answer has nobody to be compared with, and more than the largest group never come."""
    assert "group.min_members" in refusal(group={"min_members": 1})
    text = refusal(group={"size": 8, "min_members": 9}, limits={"max_group_size": 8})
    assert "group.min_members (9)" in text
    assert "limits.max_group_size (8)" in text
    Settings.model_validate({"group": {"size": 8, "min_members": 8}, "limits": {"max_group_size": 8}})


def test_checkpoints_need_a_token() -> None:
    """C5: the control plane is never open to everybody."""
    assert "checkpoint.auth_token" in refusal(checkpoint={"enabled": True})
    Settings.model_validate({"checkpoint": {"enabled": True, "auth_token": "t"}})
    Settings.model_validate({"checkpoint": {"enabled": False, "auth_token": "t"}})


@pytest.mark.parametrize("instance", ["", ".", "..", "a/b", "-a", "a b", "a\n", "é"])
def test_an_instance_is_a_safe_path_component(instance: str) -> None:
    """C13: what could leave its directory, or not name one, is refused."""
    assert "checkpoint.instance" in refusal(checkpoint={"instance": instance})


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000/v1",
        "ftp://host/v1",
        "http://",
        "http:///v1",
        "http://host:port/v1",
        "http://host:99999",
        "http://host/v1?key=1",
        "http://host/v1#top",
        "http://ho st/v1",
        "http://host/v1\n",
        "http://[::1/v1",
        "http://judge..example/v1",
        f"http://{64 * 'a'}.example/v1",
    ],
)
def test_a_judge_over_http_needs_a_web_address(url: str) -> None:
    """H12: `judge.base_url` is an address to which a path can be added."""
    assert "judge.base_url" in refusal(judge={"base_url": url})
    Settings.model_validate({"judge": {"base_url": url, "format": "local"}})


@pytest.mark.parametrize(
    "url",
    [
        "http://judge",
        "https://judge.example/v1/",
        "http://[::1]:8000/v1",
        "http://u:p@h/v1",
        "http://jüdge.example./v1",
    ],
)
def test_usual_addresses_are_taken(url: str) -> None:
    """H12: with and without port and path, IPv6, with a login, and with a name beyond ASCII."""
    assert Settings.model_validate({"judge": {"base_url": url}}).judge.base_url == url


@pytest.mark.parametrize(
    ("section", "key"), [("server", "auth_token"), ("judge", "api_key"), ("checkpoint", "auth_token")]
)
@pytest.mark.parametrize("value", ["", " ", "a b", "a\n", "ключ", "a\x7f", 7])
def test_a_token_is_fit_for_a_header(section: str, key: str, value: object) -> None:
    """H12: a token with a line break in it would break the request that carries it."""
    text = refusal(**{section: {key: value}})
    assert f"{section}.{key}: " in text


@pytest.mark.parametrize(
    ("section", "key"),
    [("server", "auth_token"), ("judge", "api_key"), ("checkpoint", "auth_token"), ("session", "secret")],
)
def test_secrets_are_in_no_text_and_are_not_the_mask(section: str, key: str) -> None:
    """H12: neither `repr` nor an error shows one; a printed configuration's mask is not taken for one."""
    settings = Settings.model_validate({section: {key: "s3cr3t!~"}})
    assert "s3cr3t" not in repr(settings)
    assert "s3cr3t" not in str(settings)
    assert "mask" in refusal(**{section: {key: MASK}})
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({section: {key: ["s3cr3t"]}})
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "params",
    [{"x": math.nan}, {"x": {"y": [1, math.inf]}}, {"x": {1, 2}}, {"x": b"1"}, {"x": {1: 2}}, {"x": (1, 2)}, {1: 2}],
)
def test_parameters_are_json(params: dict[Any, Any]) -> None:
    """H12: finite numbers, texts, booleans, null, lists and mappings with texts as keys, and nothing else."""
    assert "judge.params" in refusal(judge={"params": params})


def test_every_fault_of_the_parameters_is_named_by_its_key() -> None:
    """H12: all at once, however deep they stand."""
    text = refusal(judge={"params": {"a": math.nan, "b": {"c": [0, math.inf]}, "stream": True, "model": "m"}})
    for key in ("judge.params.a ", "judge.params.b.c.1 ", "judge.params.stream ", "judge.params.model "):
        assert key in text
    assert "judge.model" in text


def test_the_fewest_calls_at_once_are_at_most_the_most() -> None:
    """F11, H12."""
    text = refusal(judge={"min_concurrency": 9, "max_concurrency": 8})
    assert "judge.min_concurrency (9) must be at most judge.max_concurrency (8)" in text
    assert Settings.model_validate({"judge": {"min_concurrency": 8, "max_concurrency": 8}})


@pytest.mark.parametrize("name", ["messages", "input", "stream", "model"])
def test_parameters_cannot_replace_what_the_server_sends(name: str) -> None:
    """J22: `stream: false`, the conversation and the model are the server's."""
    assert f"judge.params.{name} " in refusal(judge={"params": {name: None}})


def test_parameters_of_any_shape_are_kept_as_they_are() -> None:
    """H12: free-form, so nested values, integers, booleans and null come through by value and type."""
    params = {"a": {"b": [1, 2.5, True, None, "x"]}, "n": 3}
    assert Settings.model_validate({"judge": {"params": params}}).judge.params == params


def test_parameters_that_hold_themselves_are_refused() -> None:
    """H12: an alias in YAML can make such a mapping."""
    params: dict[str, Any] = {}
    params["again"] = params
    assert "nested deeper" in refusal(judge={"params": params})


def test_settings_cannot_be_changed() -> None:
    """H12: validated once, then frozen."""
    with pytest.raises(ValidationError):
        Settings().group.size = 3  # type: ignore[misc]


@pytest.mark.parametrize("section", [*Settings.model_fields, None])
def test_unknown_keys_are_errors_in_every_section(section: str | None) -> None:
    """H12: also at the top."""
    inside = [{"nope": 1}] if section == "judges" else {"nope": 1}
    where = {"nope": 1} if section is None else {section: inside}
    assert "nope: Extra inputs are not permitted" in refusal(**where)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://user:pass@host/v1", f"http://{MASK}@host/v1"),
        ("https://user@host", f"https://{MASK}@host"),
        ("http://a@b@host:1/x@y", f"http://{MASK}@host:1/x@y"),
        ("http://host/x@y", "http://host/x@y"),
        ("see mail@host", "see mail@host"),
    ],
)
def test_a_login_in_an_address_is_masked(url: str, shown: str) -> None:
    """H12: a password in `judge.base_url` is a secret too."""
    assert without_login(url) == shown


def of_judges(*judges: dict[str, Any], **sections: Any) -> Settings:
    return Settings.model_validate({"judges": list(judges), **sections})


def test_judges_of_one_model_are_replicas_and_others_are_jurors() -> None:
    """F10: unless `juror` says otherwise; the order is that of the list."""
    a, b = {"model": "a"}, {"model": "b"}
    named = {"model": "b", "juror": "a"}
    assert jurors_of(of_judges(a, b, a).judges or ()) == {"a": [0, 2], "b": [1]}
    assert jurors_of(of_judges({}, {}).judges or ()) == {"": [0, 1]}
    assert jurors_of(of_judges(a, a | {"juror": "twin"}).judges or ()) == {"a": [0], "twin": [1]}
    assert "must not differ in model" in refusal(judges=[a, named])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("params", {"temperature": 0.0}),
        ("format", "genrm"),
        ("retries", 1),
        ("on_conflict", "retry"),
        ("on_unreadable", "default_scores"),
        ("empty_answer_text", ""),
        ("structured_output", False),
        ("template", "t"),
        ("retry_sleep_s", 1.0),
    ],
)
def test_replicas_differ_in_nothing_that_a_verdict_hangs_on(key: str, value: object) -> None:
    """F10, J20: the same pair must get the same verdict wherever it is asked."""
    text = refusal(judges=[{}, {}, {key: value}])
    assert f"judges.0 and judges.2 are replicas of one judge and must not differ in {key}" in text
    assert "judges.1" not in text
    assert of_judges({}, {"juror": "other", key: value})


def test_replicas_may_differ_in_what_an_address_has_of_its_own() -> None:
    """F10."""
    own = {"base_url": "http://b/v1", "api_key": "k", "request_timeout_s": 3.0, "trust_env": True, "name": "b"}
    own |= {"max_concurrency": 9, "min_concurrency": 2, "requests_per_minute": 60, "tokens_per_minute": 60}
    assert of_judges({}, own | {"price": {"prompt": 1.0}, "budget": {"calls": 1}})


def test_judge_and_judges_exclude_each_other() -> None:
    """F10: the error says what to do."""
    text = refusal(judge={"model": "m", "api_key": "s3cr3t"}, judges=[{}])
    assert "judge and judges exclude each other: move judge.model, judge.api_key into the items of judges" in text
    assert "s3cr3t" not in text
    assert "judges exclude each other" in refusal(judge={}, judges=[{}])


def test_names_of_judges_differ() -> None:
    """F12: also from the names that the others have by their place."""
    assert "judges.0.name and judges.1.name must not both be 'x'" in refusal(judges=[{"name": "x"}, {"name": "x"}])
    assert "must not both be 'judges.1'" in refusal(judges=[{"name": "judges.1"}, {}])
    assert refusal(judges=[{"name": "a b"}])
    assert refusal(judges=[])


def test_a_local_judge_has_no_replicas() -> None:
    """F10, J9."""
    assert "the local judge has no replicas" in refusal(judges=[{"format": "local"}, {"format": "local"}])
    assert of_judges({"format": "local", "juror": "small"}, {"model": "b"})


def test_a_budget_in_money_needs_a_price() -> None:
    """F12."""
    assert "judge.budget.money needs judge.price" in refusal(judge={"budget": {"money": 5.0}})
    assert Settings.model_validate({"judge": {"budget": {"money": 5.0}, "price": {"completion": 0.6}}})
    assert "money" in refusal(judge={"budget": {"money": 0.0}, "price": {"prompt": 1.0}})


def test_all_judges_by_their_keys() -> None:
    """F10."""
    assert list(Settings().all_judges) == ["judge"]
    assert list(of_judges({"model": "a"}, {"model": "b"}).all_judges) == ["judges.0", "judges.1"]


def test_lists_overlap_by_less_than_they_hold() -> None:
    """F9: and a list holds 2 to 64 answers."""
    assert Settings.model_validate({"judge": {"format": "listwise", "list_size": 2, "list_overlap": 1}})
    equal = refusal(judge={"list_size": 4, "list_overlap": 4})
    assert "judge.list_overlap (4) must be below judge.list_size (4)" in equal
    assert "must be below judge.list_size (8)" in refusal(judge={"list_overlap": 8})
    assert "judge.list_size: Input should be less than or equal to 64" in refusal(judge={"list_size": 65})
    assert "judge.list_size: Input should be greater than or equal to 2" in refusal(judge={"list_size": 1})


def test_a_pair_is_judged_so_often_that_its_calls_can_be_listed() -> None:
    """H12, J2: a thousand times at most; a slip of the keyboard does not stop the server at its first group."""
    assert Settings.model_validate({"comparison": {"judges_per_pair": 1000}})
    assert "comparison.judges_per_pair: Input should be less than or" in refusal(comparison={"judges_per_pair": 1001})


def test_lists_have_no_pairs_to_choose() -> None:
    """F9: what would be ignored without a word is an error; replicas may be asked for lists, a panel not."""
    listwise = {"format": "listwise"}
    for strategy in ("all_pairs", "circulant", "adaptive"):
        text = refusal(judge=listwise, comparison={"strategy": strategy})
        assert "comparison.strategy must be left out where judge.format is listwise" in text
    assert "comparison.both_orders must be false" in refusal(judge=listwise, comparison={"both_orders": True})
    panel = refusal(judges=[{"model": "a", **listwise}, {"model": "b", **listwise}])
    assert "judges.0.format must not be listwise in a panel" in panel
    replicas = [listwise, {"base_url": "http://b/v1", **listwise}]
    assert Settings.model_validate({"judges": replicas, "comparison": {"judges_per_pair": 2}})
