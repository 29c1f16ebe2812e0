"""`judges`, a list of sections, from files, the environment and `--set` (F10, H12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupjudge.configuration import effective, load
from groupjudge.errors import ConfigurationError
from groupjudge.settings import MASK, Settings

TWO = """\
judges:
  - name: a
    base_url: http://anna:hunter22@a:1/v1
    params: {top_k: 1}
  - base_url: http://b:2/v1
    api_key: sk-b
    params: {top_k: 1}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "g.yaml"
    path.write_text(TWO)
    return path


def judges_of(settings: Settings) -> list[tuple[str | None, str, str | None]]:
    return [(judge.name, judge.base_url, judge.api_key) for judge in settings.judges or ()]


def errors_of(file: Path | None, *sets: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(file, environ, sets)
    return str(caught.value).splitlines()


def test_keys_of_single_judges_come_from_anywhere(file: Path) -> None:
    """F10, H12: so that no key need stand in a file."""
    environ = {"GROUPJUDGE_JUDGES__0__NAME": "aa", "GROUPJUDGE_JUDGES__1__API_KEY": "sk-env"}
    settings = load(file, environ, ["judges.1.name=b", "judges.2.base_url=http://c:3/v1", "judges.2.params={top_k: 1}"])
    assert judges_of(settings) == [
        ("aa", "http://anna:hunter22@a:1/v1", None),
        ("b", "http://b:2/v1", "sk-env"),
        (None, "http://c:3/v1", None),
    ]


def test_a_list_replaces_an_earlier_one(file: Path) -> None:
    """H12: as a later mapping of parameters does."""
    assert judges_of(load(file, {}, ['judges=[{"name": "new"}]'])) == [("new", Settings().judge.base_url, None)]
    assert load(file, {}, ["judges=null"]).judges is None


def test_each_judge_has_the_default_parameters_to_change(file: Path) -> None:
    """H12: where it gives no mapping itself."""
    settings = load(None, {}, ["judges.0.params.temperature=0", "judges.0.params.top_p=null"])
    assert settings.judges is not None
    assert settings.judges[0].params == {"temperature": 0, "max_tokens": 16384}


def test_the_effective_configuration_is_read_back_with_every_secret_masked(file: Path) -> None:
    """F10, H13."""
    shown = effective(load(file, {}, []))
    assert "sk-b" not in shown
    assert "hunter22" not in shown
    assert shown.count(MASK) == 2
    assert "\njudge:" not in shown
    file.write_text(shown)
    again = load(file, {}, ["judges.1.api_key=sk-b", "judges.0.base_url=http://a:1/v1"])
    assert judges_of(again) == [("a", "http://a:1/v1", None), (None, "http://b:2/v1", "sk-b")]


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        (["judges.1.base_url=ftp://x"], "judges.1.base_url must be an address such as http://127.0.0.1:8000/v1"),
        (["judges.1.max_concurrency=0"], "judges.1.max_concurrency: must be greater than or equal to 1, not 0"),
        (["judges.1.modle=m"], "judges.1.modle: unknown key; did you mean judges.1.model?"),
        (["judges.1.api_key=s3 cr3t"], "judges.1.api_key: must be one or more ASCII characters"),
        (["judges.3.model=m"], "judges.2: is missing, though judges.3 is given"),
        (["judges.x.model=m"], "judges.x.model: unknown key"),
        (["judges.01.model=m"], "judges.01.model: unknown key"),
        (["judges=[]"], "judges: must be a list of one judge or more"),
        (["judges=3"], "judges: must be a list of one judge or more, each a mapping of keys, or null, not 3"),
        (['judges={"a": {}}'], "judges: must be a list of mappings of keys, not a mapping"),
        (["judges=[7]"], "judges.0: must be a mapping of keys, not 7"),
        (["judges.1.params.stream=true"], "judges.1.params.stream must be left out: the server sets it"),
        (["judges.1.params.model=m"], "judges.1.params.model must be left out: the server sets it; use judges.1.model"),
        (["judges.1.min_concurrency=9", "judges.1.max_concurrency=8"], "judges.1.min_concurrency (9) must be at most"),
        (["judges.1.budget.money=9"], "judges.1.budget.money needs judges.1.price"),
        (["judges.1.budget.coins=9"], "judges.1.budget.coins: unknown key"),
        (["judge.model=m"], "judge and judges exclude each other: move judge.model into the items of judges"),
        (["judges.1.retries=1"], "judges.0 and judges.1 are replicas of one judge and must not differ in retries"),
    ],
)
def test_an_error_names_the_judge_and_where_it_was_given(file: Path, sets: list[str], says: str) -> None:
    """F10, H12: and no secret."""
    errors = errors_of(file, *sets)
    assert any(error.startswith(says) for error in errors), errors
    assert any(f"--set {sets[0].partition('=')[0]}" in error for error in errors), errors
    assert not any("sk-b" in error or "hunter22" in error or "s3 cr3t" in error for error in errors)


def test_an_error_in_a_file_has_its_line(file: Path) -> None:
    """H12: of the key, or else of the item."""
    file.write_text(TWO.replace("http://b:2/v1", "b:2"))
    (error,) = errors_of(file)
    assert error.startswith("judges.1.base_url must be an address")
    assert error.endswith(f"({file}, line 5)")
    file.write_text("judges:\n  - model: m\n  - model: m\n    retries: 1\n")
    (error,) = errors_of(file)
    assert error.endswith(f"({file}, line 2; {file}, line 4)")


def test_an_item_without_keys_is_a_judge_with_the_defaults(tmp_path: Path) -> None:
    """H12: its keys may all be commented out."""
    file = tmp_path / "g.yaml"
    file.write_text("judges:\n  -\n  - {}\n  - name: c\n")
    assert [judge.name for judge in load(file, {}, []).judges or ()] == [None, None, "c"]
