"""The stand-in for NeMo Gym's genrm_compare, without NeMo Gym: its options, its folder, the routes of Gym's collector
(A6). `test_nemo_gym_real.py` runs the real package."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from ruamel.yaml import YAML
from tests.e2e.calling import Client

from groupjudge import ConfigurationError, Settings
from groupjudge.cli import main
from groupjudge.integrations.nemo_gym import gym_routes, settings_from, write_folder
from groupjudge.service.run import running
from groupjudge.settings import LimitSettings, ServerSettings

JUDGE = {"type": "responses_api_models", "name": "genrm_model"}
LEAST = {"host": "127.0.0.1", "port": 0, "name": "mine", "num_rollouts_per_prompt": 16, "genrm_model_server": JUDGE}
ADDRESSES = {"genrm_model": "http://127.0.0.1:12345"}

# Each option with a value that no other has, and where the value must be found, apart from the code under test.
EXPECTED: dict[str, tuple[Any, set[str]]] = {
    "num_rollouts_per_prompt": (7, {"group.size"}),
    "cohort_collection_timeout_s": (11, {"group.collection_timeout_s"}),
    "cohort_evaluation_timeout_s": (12.5, {"group.judging_timeout_s"}),
    "judge_request_timeout_s": (13, {"judge.request_timeout_s"}),
    "cohort_result_ttl_s": (14, {"retention.ttl_s"}),
    "max_terminal_cohorts": (15, {"retention.max_results", "retention.max_attempt_records"}),
    "comparison_strategy": ("all_pairs", {"comparison.strategy"}),
    "num_judges_per_comparison": (3, {"comparison.judges_per_pair"}),
    "use_principle": (True, {"comparison.use_principle"}),
    "default_principle": ("Be brief.", {"comparison.default_principle"}),
    "aggregator_method": ("simple_tiebreaker", set()),  # the default, and the only one there
    "reasoning_bonus": (0.1, {"scoring.reasoning_bonus"}),
    "answer_bonus": (0.25, {"scoring.answer_bonus"}),
    "top_percentile": (0.3, {"scoring.top_percentile"}),
    "group_reasoning_length_penalty_coeff": (0.4, {"scoring.reasoning_length_penalty"}),
    "group_answer_length_penalty_coeff": (0.5, {"scoring.answer_length_penalty"}),
    "group_style_penalty_coeff": (0.6, {"scoring.style_penalty"}),
    "default_score": (2.5, {"scoring.default_score"}),
    "default_ranking": (3.25, {"scoring.default_ranking"}),
    "genrm_parse_retries": (4, {"judge.retries"}),
    "genrm_parse_retry_sleep_s": (0.7, {"judge.retry_sleep_s"}),
}


def settings(environ: dict[str, str] | None = None, **options: Any) -> Settings:
    """What these options make beside the least that there must be; an option that is `...` is left out."""
    config = {name: value for name, value in (LEAST | options).items() if value is not ...}
    return settings_from(config, environ or {}, ADDRESSES.__getitem__)


def told(environ: dict[str, str] | None = None, **options: Any) -> str:
    """The error that these options give."""
    with pytest.raises(ConfigurationError) as caught:
        settings(environ, **options)
    return str(caught.value)


def changed(made: Settings, before: Settings) -> dict[str, Any]:
    """The keys in which two configurations differ, with what they are in the first."""
    flat = {f"{name}.{key}": value for name, section in before.model_dump().items() for key, value in _items(section)}
    new = {f"{name}.{key}": value for name, section in made.model_dump().items() for key, value in _items(section)}
    return {key: value for key, value in new.items() if value != flat[key]}


def _items(section: Any) -> Any:
    return section.items() if isinstance(section, dict) else [("", section)]


# --- options ---


@pytest.mark.parametrize("option", EXPECTED)
def test_an_option_sets_its_keys_and_no_other(option: str) -> None:
    """A6: by the names of genrm_compare."""
    value, keys = EXPECTED[option]
    assert changed(settings(**{option: value}), settings()) == dict.fromkeys(keys, value)


def test_what_is_no_option_is_as_it_is_there() -> None:
    """A6, J13: the judge is asked by way of the Responses API, and default scores stand in for unreadable verdicts."""
    made = settings()
    assert (made.judge.format, made.judge.on_unreadable) == ("responses", "default_scores")


def test_missing_options_have_the_defaults_of_genrm_compare() -> None:
    """A6: those that its documents name."""
    made = settings()
    assert (made.group.collection_timeout_s, made.group.judging_timeout_s) == (1800, 1800)
    assert (made.retention.ttl_s, made.retention.max_results) == (3600, 4096)
    assert (made.comparison.strategy, made.comparison.judges_per_pair) == ("circular", 1)
    assert not made.comparison.use_principle
    scoring = made.scoring
    assert (scoring.default_score, scoring.default_ranking, scoring.top_percentile) == (3.0, 3.5, 0.2)
    assert scoring.reasoning_bonus == scoring.answer_bonus == scoring.style_penalty == 0
    assert scoring.reasoning_length_penalty == scoring.answer_length_penalty == 0
    assert (made.judge.retries, made.judge.retry_sleep_s, made.judge.request_timeout_s) == (3, 0.2, 1800)


def test_a_null_lifetime_is_no_time_limit() -> None:
    """A6: as there."""
    assert settings(cohort_result_ttl_s=None).retention.ttl_s is None


def test_the_judge_is_the_model_server_that_gym_has_by_its_name() -> None:
    """A6: `genrm_model_server`."""
    assert settings().judge.base_url == "http://127.0.0.1:12345/v1"


def test_the_server_listens_where_gym_says() -> None:
    """A6: `host` and `port`."""
    made = settings(host="127.0.0.2", port=4321)
    assert (made.server.host, made.server.port) == ("127.0.0.2", 4321)


def test_the_parameters_of_the_judges_requests_replace_the_defaults() -> None:
    """A6, J6: `genrm_responses_create_params`, whose empty input and name for the length are those of its API."""
    made = settings(genrm_responses_create_params={"input": [], "max_output_tokens": 99, "top_k": 5, "model": "judge"})
    assert made.judge.params == {"max_tokens": 99, "top_k": 5}
    assert made.judge.model == "judge"


def test_keys_of_ours_lie_over_the_options_and_variables_over_both() -> None:
    """A6, H12: below `groupjudge`, any of them."""
    ours = {"judge": {"format": "template", "base_url": "http://elsewhere/v1"}, "group": {"size": 5}}
    made = settings({"GROUPJUDGE_JUDGE__MAX_CONCURRENCY": "9"}, groupjudge=ours, genrm_model_server=...)
    assert (made.judge.format, made.judge.base_url, made.judge.max_concurrency) == (
        "template",
        "http://elsewhere/v1",
        9,
    )
    assert made.group.size == 5


def test_several_judges_say_all_of_themselves() -> None:
    """A6, F10: options for the one judge beside them are told by their names."""
    ours = {"judges": [{"base_url": "http://one/v1"}, {"base_url": "http://two/v1"}]}
    made = settings(groupjudge=ours, genrm_model_server=...)
    assert [judge.base_url for judge in made.judges or ()] == ["http://one/v1", "http://two/v1"]
    error = told(groupjudge=ours, genrm_model_server=..., genrm_parse_retries=1)
    assert "exclude each other: move judge.retries" in error
    assert "genrm_parse_retries of mine" in error


def test_what_gym_says_of_every_resources_server_is_passed_over() -> None:
    """A6: and so is what a later version of it may say."""
    gyms = {"entrypoint": "app.py", "domain": "rlhf", "verified": False, "description": "", "value": "", "datasets": []}
    assert settings(**gyms, num_workers=None, debug_logging=True, expose_tools_over_mcp=False) == settings()
    later = {**LEAST, "of_a_later_gym": 1}
    assert settings_from(later, {}, ADDRESSES.__getitem__, {"of_a_later_gym"}) == settings()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_terminal_cohort": 1}, "max_terminal_cohort: unknown option; did you mean max_terminal_cohorts? (mine)"),
        ({"colour": 1}, "colour: unknown option; keys of our own belong into 'groupjudge:' below it (mine)"),
        ({"num_rollouts_per_prompt": ...}, "num_rollouts_per_prompt: must say how many answers a group has (mine)"),
        (
            {"num_rollouts_per_prompt": "8"},
            'group.size: must be an integer, not "8" (num_rollouts_per_prompt of mine)',
        ),
        (
            {"cohort_collection_timeout_s": None},
            "group.collection_timeout_s: must be a number, not null (cohort_collection_timeout_s of mine)",
        ),
        (
            {"top_percentile": 2},
            "scoring.top_percentile: must be less than or equal to 1, not 2 (top_percentile of mine)",
        ),
        (
            {"genrm_model_server": {"type": "responses_api_models", "name": "other"}},
            "genrm_model_server: names 'other', which is no server of this run; add its configuration, or name another "
            "(mine)",
        ),
        (
            {"genrm_model_server": "genrm_model"},
            "genrm_model_server: must be {type: responses_api_models, name: ...} (mine)",
        ),
        (
            {"genrm_model_server": {"type": "resources_servers", "name": "genrm_model"}},
            "genrm_model_server: must be {type: responses_api_models, name: ...} (mine)",
        ),
        (
            {"genrm_model_server": ...},
            "genrm_model_server: must name the judge, as {type: responses_api_models, name: ...}; for a judge outside "
            "NeMo Gym set groupjudge.judge.base_url and groupjudge.judge.format instead (mine)",
        ),
        (
            {"genrm_responses_create_params": {"input": ["x"]}},
            "genrm_responses_create_params.input: must be empty: the question goes there (mine)",
        ),
        (
            {"genrm_responses_create_params": {"stream": True}},
            "genrm_responses_create_params.stream: must be false or left out (mine)",
        ),
        (
            {"genrm_responses_create_params": []},
            "genrm_responses_create_params: must be a mapping such as {temperature: 0.6} (mine)",
        ),
        ({"num_workers": 2}, "num_workers: must be 1 or left out, not 2: groups live in one process (mine)"),
        ({"groupjudge": 3}, "groupjudge: must be a mapping of sections such as 'judge:' (mine)"),
        (
            {"groupjudge": {"group": {"sise": 3}}},
            "group.sise: unknown key; did you mean group.size? (groupjudge of mine)",
        ),
        (
            {"groupjudge": {"server": {"port": 8600}}},
            "server.host, server.port: leave them out; host and port of mine say where it listens",
        ),
        (
            {"groupjudge": {"server": {"auth_token": "t"}}},
            "server.auth_token: leave it out; the clients of NeMo Gym send no token",
        ),
    ],
)
def test_what_will_not_do_is_told_by_the_name_that_it_has_in_gym(options: dict[str, Any], error: str) -> None:
    """A6, H12: and what to do instead."""
    assert told(**options) == error


def test_all_problems_are_told_at_once() -> None:
    """H12: a line for each."""
    lines = told(colour=1, num_workers=2, top_percentile=2, genrm_model_server=None).split("\n")
    assert [line.partition(":")[0] for line in lines] == [
        "colour",
        "num_workers",
        "genrm_model_server",
        "scoring.top_percentile",
    ]


# --- the folder ---


def contents(folder: Path) -> dict[str, str]:
    """Every file below `folder` with its text."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_is_a_resources_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A6: `groupjudge nemo-gym DIR`; its name is the server's."""
    folder = tmp_path / "resources_servers" / "mine"
    assert main(["nemo-gym", str(folder)]) == 0
    names = ["README.md", "app.py", "configs/mine.yaml", "data/example.jsonl", "requirements.txt"]
    assert sorted(contents(folder)) == names
    assert sorted(capsys.readouterr().out.split()) == [str(folder / name) for name in names]
    assert all(len(json.loads(line)) == 1 for line in (folder / "data/example.jsonl").read_text().splitlines())
    written = YAML(typ="safe", pure=True).load(folder / "configs/mine.yaml")
    assert list(written) == ["mine_resources_server", "mine_simple_agent", "mine_environment_server"]
    assert list(written["mine_resources_server"]["resources_servers"]) == ["mine"]
    assert not any("$" in text for text in contents(folder).values())


def test_the_written_configuration_names_every_option_and_will_do(tmp_path: Path) -> None:
    """A6: as it is, with the values that genrm_compare's own has."""
    write_folder(tmp_path / "mine")
    written = YAML(typ="safe", pure=True).load(tmp_path / "mine/configs/mine.yaml")
    config = written["mine_resources_server"]["resources_servers"]["mine"]
    assert set(EXPECTED) - set(config) == {"default_principle"}
    made = settings(**config)
    assert (made.group.size, made.retention.ttl_s) == (16, 21600)
    assert made.judge.params == {"temperature": 0.6, "top_p": 0.95, "max_tokens": 16384}


def test_to_write_it_again_changes_nothing(tmp_path: Path) -> None:
    """A6: what is missing is written."""
    written = write_folder(tmp_path / "mine")
    before = contents(tmp_path)
    assert write_folder(tmp_path / "mine") == []
    written[0].unlink()
    assert write_folder(tmp_path / "mine") == written[:1]
    assert contents(tmp_path) == before


def test_files_that_say_something_else_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A6: then nothing is written at all, unless it is asked for."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "app.py").write_text("print('mine')\n")
    (folder / "notes").write_text("mine")
    assert main(["nemo-gym", str(folder)]) == 2
    assert capsys.readouterr().err == (
        f"groupjudge: error: nothing was written: {folder / 'app.py'} would be overwritten; move away what is yours, "
        "choose another DIR, or say --force\n"
    )
    assert contents(folder) == {"app.py": "print('mine')\n", "notes": "mine"}
    assert main(["nemo-gym", str(folder), "--force"]) == 0
    assert "groupjudge" in (folder / "app.py").read_text()
    assert (folder / "notes").read_text() == "mine"


def test_a_name_that_no_server_can_have_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A6: it becomes a key of Gym's configuration."""
    assert main(["nemo-gym", str(tmp_path / "a b")]) == 2
    assert "letters, digits, _ and - only" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_without_gym_the_app_says_who_starts_it(tmp_path: Path) -> None:
    """A6: here, that the package is missing; nothing else is imported before."""
    write_folder(tmp_path / "mine")
    done = subprocess.run(
        [sys.executable, tmp_path / "mine/app.py"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert done.stderr == (
        "groupjudge: error: the package nemo-gym is not installed here; NeMo Gym starts this program in an environment "
        "that has it\n"
    )


# --- the routes ---


@pytest_asyncio.fixture(loop_scope="session")
async def gym() -> AsyncIterator[Client]:
    """A client of a running server with Gym's routes, whose metrics are the rows that came."""
    made = Settings(server=ServerSettings(port=0), limits=LimitSettings(max_body_bytes=1000))
    routes = gym_routes(lambda rows: json.dumps({"agent_metrics": {"rows": rows}}).encode())
    async with running(made, routes) as address, Client(int(address.rpartition(":")[2])) as client:
        yield client


async def test_the_collector_gets_metrics_of_its_rows(gym: Client) -> None:
    """A6: POST /aggregate_metrics, as Gym makes them."""
    reply = await gym.post("/aggregate_metrics", b'{"verify_responses": [{"reward": 1.5}, {"reward": 2}]}')
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json == {"agent_metrics": {"rows": [{"reward": 1.5}, {"reward": 2}]}}


async def test_a_group_is_not_verified_again_answer_by_answer(gym: Client) -> None:
    """A6: GET /reverify_mode."""
    reply = await gym.get("/reverify_mode")
    assert (reply.status, reply.json) == (200, "unsupported")


@pytest.mark.parametrize("body", [b"{}", b'{"verify_responses": {}}', b'{"verify_responses": [1]}', b"[]", b"{"])
async def test_rows_that_are_none_are_refused(gym: Client, body: bytes) -> None:
    """H5: 422, and where."""
    reply = await gym.post("/aggregate_metrics", body)
    assert (reply.status, reply.code) == (422, "invalid_request")


async def test_the_routes_keep_to_the_limits_of_all_others(gym: Client) -> None:
    """H5, H10a: size, media type, method."""
    assert (await gym.post("/aggregate_metrics", b" " * 1001)).code == "too_large"
    assert (await gym.get("/aggregate_metrics")).code == "method_not_allowed"


async def test_metrics_hold_up_nobody() -> None:
    """H11: they are made beside the event loop."""
    made = Settings(server=ServerSettings(port=0))
    entered, go_on = threading.Event(), threading.Event()

    def slow(rows: list[dict[str, Any]]) -> bytes:
        entered.set()
        assert go_on.wait(30)
        return b"{}"

    async with running(made, gym_routes(slow)) as address, Client(int(address.rpartition(":")[2])) as client:
        waiting = asyncio.create_task(client.post("/aggregate_metrics", b'{"verify_responses": []}'))
        await asyncio.to_thread(entered.wait, 30)
        assert (await client.get("/healthz")).status == 200
        go_on.set()
        assert (await waiting).status == 200


async def test_the_server_proper_has_no_such_routes() -> None:
    """A6: they are Gym's, and nobody else asks for them."""
    async with running(Settings(server=ServerSettings(port=0))) as address:
        client = Client(int(address.rpartition(":")[2]))
        async with client:
            assert (await client.get("/reverify_mode")).code == "not_found"
            assert (await client.post("/aggregate_metrics", b"{}")).code == "not_found"
