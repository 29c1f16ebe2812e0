"""NeMo Gym itself against the folder that we write (A6): its `gym env start` starts our server with its own agent and
model servers, its `gym eval run` collects rollouts. Only what stands behind its model servers is a stub.

`make test-integrations` runs these, with Python 3.13; they are skipped where NeMo Gym is not installed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from ruamel.yaml import YAML
from tests.e2e.groups import TextJudge, rewards_of
from tests.e2e.serving import environment
from tests.support.judges import Received, Reply, http, responses

from groupjudge.integrations.nemo_gym import write_folder

VENV = Path(sys.prefix)
BOUND_S = 300
FINE, UNNAMED, REFUSED, GARBLED = "Name a river.", "Name a lake.", "Name a refused sea.", "Name a garbled sea."
TASKS = [(FINE, "named-1"), (UNNAMED, None), (REFUSED, "named-2"), (GARBLED, "named-3")]
REPEATS = 4
GYMS_SERVERS = (
    "responses_api_agents/simple_agent",
    "responses_api_models/openai_model",
    "environment_servers/legacy_agent",
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(find_spec("nemo_gym") is None, reason="NeMo Gym is not installed: make test-integrations"),
]


class Models(TextJudge):
    """What the two model servers have behind them: a policy that never says the same twice, and the judge."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count()

    def _say(self, request: Received) -> Reply:
        if request.method != "POST":
            return http(404)
        asked = request.json["input"][0]["content"]
        if "metadata" not in request.json:
            return _response(f"answer {next(self._numbers)} to {asked}")
        if asked == REFUSED:
            return http(400, '{"error": {"message": "I refuse"}}')
        if asked == GARBLED:
            return _response("Hm.")
        text = json.loads(super()._say(request).raw.partition(b"\r\n\r\n")[2])["output"][1]["content"][0]["text"]
        return _response(text)


def _response(text: str) -> Reply:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    needed = {"created_at": 1, "model": "stub", "parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
    return responses(text, output=[message], **needed)


class Gym:
    """NeMo Gym in a folder of its own; its servers have `models` behind them."""

    def __init__(self, folder: Path, models: Models) -> None:
        self.folder = folder
        write_folder(folder / "resources_servers/mine")
        self._write("models.yaml", {name: _model_server(models) for name in ("policy_model", "genrm_model")})
        rows = [_task(*task) for task in TASKS]
        (folder / "tasks.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        for server in (
            "resources_servers/mine",
            "responses_api_agents/simple_agent",
            "responses_api_models/openai_model",
        ):
            self._give_environment(server)
        self._give_environment("environment_servers/legacy_agent")

    def _write(self, name: str, value: object) -> None:
        (self.folder / name).write_text(json.dumps(value))

    def _give_environment(self, server: str) -> None:
        """Gym would make one for each server; they all get the same one."""
        place = self.folder / "environments" / server
        place.mkdir(parents=True)
        (place / ".venv").symlink_to(VENV)

    async def run(self, *arguments: str, log: str) -> asyncio.subprocess.Process:
        """`gym ...` in a session of its own, so that nothing of it is left behind."""
        with (self.folder / log).open("wb") as file:
            return await asyncio.create_subprocess_exec(
                VENV / "bin/gym",
                *arguments,
                cwd=self.folder,
                env=environment(WANDB_MODE="disabled", RAY_USAGE_STATS_ENABLED="0", PYTHONPATH=""),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )

    @asynccontextmanager
    async def servers(self, **options: Any) -> AsyncIterator[None]:
        """All of them, ready."""
        ours = "++mine_resources_server.resources_servers.mine"
        process = await self.run(
            *("env", "start", "--config", "resources_servers/mine/configs/mine.yaml", "--config", "models.yaml"),
            *("++skip_venv_if_present=true", f"++uv_venv_dir={self.folder / 'environments'}"),
            *(f"{ours}.{name}={json.dumps(value)}" for name, value in options.items()),
            log="servers.log",
        )
        try:
            await self._ready(process)
            yield
        finally:
            await _end(process)

    async def _ready(self, process: asyncio.subprocess.Process) -> None:
        async with asyncio.timeout(BOUND_S):
            while "servers ready!" not in self.said("servers.log"):
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), 0.5)
                    raise AssertionError(f"it ended: {self.said('servers.log')[-4000:]}")

    def said(self, log: str) -> str:
        return (self.folder / log).read_text()

    async def collect(self) -> None:
        """Rollouts for all tasks, with Gym's own collector."""
        process = await self.run(
            *("eval", "run", "--no-serve", "--agent", "mine_simple_agent", "--input", "tasks.jsonl"),
            *("--output", "rollouts.jsonl", "--num-repeats", str(REPEATS), "--concurrency", "8"),
            log="collector.log",
        )
        assert await asyncio.wait_for(process.wait(), BOUND_S) == 0, self.said("collector.log")[-4000:]

    def rows(self, name: str) -> list[dict[str, Any]]:
        """A file's rows in the order of tasks and repeats."""
        rows = [json.loads(line) for line in self.said(name).splitlines()]
        return sorted(rows, key=lambda row: (row["_ng_task_index"], row["_ng_rollout_index"]))


def _task(asked: str, group: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {"responses_create_params": {"input": [{"role": "user", "content": asked}]}}
    return row if group is None else {**row, "_ng_group_id": group}


def _model_server(models: Models) -> dict[str, Any]:
    keys = {
        "openai_base_url": models.base_url,
        "openai_api_key": "none",
        "openai_model": "stub",
        "max_http_attempts": 1,
    }
    return {"responses_api_models": {"openai_model": {"entrypoint": "app.py", **keys}}}


async def _end(process: asyncio.subprocess.Process) -> None:
    """As Ctrl-C does; then whatever of its session is left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 60)
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gym(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gym]:
    """After a whole run."""
    async with Models() as models:
        gym = Gym(tmp_path_factory.mktemp("gym"), models)
        async with gym.servers(num_rollouts_per_prompt=REPEATS, genrm_parse_retries=1, genrm_parse_retry_sleep_s=0):
            await gym.collect()
        yield gym


def texts_of(rows: list[dict[str, Any]]) -> list[str]:
    return [row["response"]["output"][-1]["content"][0]["text"] for row in rows]


@pytest.mark.parametrize(("task", "asked"), [(0, FINE), (1, UNNAMED)])
async def test_rewards_land_in_the_rollouts_file(gym: Gym, task: int, asked: str) -> None:
    """A6: those of the judge's verdicts on the answers beside them, with a group id and without."""
    rows = [row for row in gym.rows("rollouts.jsonl") if row["_ng_task_index"] == task]
    assert [row["_ng_rollout_index"] for row in rows] == list(range(REPEATS))
    assert [row["reward"] for row in rows] == pytest.approx(rewards_of(asked, texts_of(rows)))
    assert len(set(texts_of(rows))) == REPEATS
    assert all((row["mask_sample"], row["failure_kind"], row["failure_reason"]) == (False, None, None) for row in rows)


async def test_a_judge_failure_lands_in_the_failures_file(gym: Gym) -> None:
    """A5, A6: with the answers, masked, and outside of the metrics."""
    rows = gym.rows("rollouts_failures.jsonl")
    assert [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows] == [(2, slot) for slot in range(REPEATS)]
    for row in rows:
        assert (row["mask_sample"], row["failure_kind"], row["_ng_failure_class"]) == (
            True,
            "judge_failed",
            "judge_failed",
        )
        assert row["instance_config"] == {"mask_sample": True}
        assert "after 2 tries" in row["failure_reason"]
        assert REFUSED in texts_of([row])[0]
    assert all(row["_ng_task_index"] != 2 for row in gym.rows("rollouts.jsonl"))


async def test_default_scores_stand_in_for_replies_that_nobody_can_read(gym: Gym) -> None:
    """A6, J13: as in genrm_compare, but each answer says so."""
    rows = [row for row in gym.rows("rollouts.jsonl") if row["_ng_task_index"] == 3]
    assert [row["reward"] for row in rows] == [3.0] * REPEATS
    assert {(row["mask_sample"], row["failure_kind"]) for row in rows} == {(False, "groupjudge:default_scores")}


async def test_metrics_are_made_of_all_that_was_rewarded(gym: Gym) -> None:
    """A6: by way of /aggregate_metrics, in the file where Gym puts them."""
    (metrics,) = json.loads(gym.said("rollouts_aggregate_metrics.json"))
    rewards = [row["reward"] for row in gym.rows("rollouts.jsonl")]
    assert len(rewards) == 3 * REPEATS
    assert metrics["agent_ref"] == {"name": "mine_simple_agent"}
    assert metrics["key_metrics"]["mean/reward"] == pytest.approx(sum(rewards) / len(rewards))
    assert metrics["agent_metrics"]["max/reward"] == max(rewards)
    assert [group["_ng_task_index"] for group in metrics["group_level_metrics"]] == [0, 1, 3]
    assert {group["num_rollouts"] for group in metrics["group_level_metrics"]} == {REPEATS}


async def test_gym_finds_our_folder_before_a_server_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A6: one that is called genrm_compare takes its place."""
    from nemo_gym import _resolve_under_cwd_or_install

    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "resources_servers/genrm_compare")
    for file in ("app.py", "requirements.txt", "configs/genrm_compare.yaml"):
        named = Path("resources_servers/genrm_compare", file)
        assert _resolve_under_cwd_or_install(named) == tmp_path / named


async def test_our_server_stops_with_gym(gym: Gym) -> None:
    """L19: at once, and in order."""
    assert re.findall(r'"event": "(\w+)"', gym.said("servers.log"))[-2:] == ["stopping", "stopped"]


async def started(folder: Path, options: dict[str, Any]) -> tuple[int, str]:
    """The exit status and the standard error of our `app.py`, started as Gym does, for a dry run."""
    write_folder(folder / "mine")
    place = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py"}
    everything = {
        "mine": {"resources_servers": {"mine": {**options, **place}}},
        "genrm_model": {"responses_api_models": {"openai_model": place}},
        "dry_run": True,
    }
    process = await asyncio.create_subprocess_exec(
        VENV / "bin/python",
        folder / "mine/app.py",
        env=environment(PYTHONPATH="", NEMO_GYM_CONFIG_DICT=json.dumps(everything), NEMO_GYM_CONFIG_PATH="mine"),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, error = await asyncio.wait_for(process.communicate(), BOUND_S)
    assert process.returncode is not None
    return process.returncode, error.decode()


@pytest.fixture
def shipped() -> dict[str, Any]:
    """The options of genrm_compare in the configuration that Gym ships."""
    file = "resources_servers/genrm_compare/configs/genrm_compare.yaml"
    config = YAML(typ="safe", pure=True).load(Path(sysconfig.get_path("purelib"), file))
    options: dict[str, Any] = config["genrm_compare_resources_server"]["resources_servers"]["genrm_compare"]
    return options


async def test_the_configuration_that_gym_ships_for_genrm_compare_will_do(
    tmp_path: Path, shipped: dict[str, Any]
) -> None:
    """A6: as it is. A dry run ends once the options are read, as Gym asks of its servers."""
    assert await started(tmp_path, shipped) == (0, "")


async def test_an_option_that_will_not_do_is_told_by_its_name(tmp_path: Path, shipped: dict[str, Any]) -> None:
    """A6, H13: one line, and exit status 2, with which Gym ends the start."""
    status, error = await started(tmp_path, {**shipped, "num_rollouts_per_prompt": 0})
    assert status == 2
    why = "group.size: must be greater than or equal to 1, not 0 (num_rollouts_per_prompt of mine)"
    assert error == f"groupjudge: error: {why}\n"


async def test_a_judge_that_gym_does_not_have_is_told(tmp_path: Path, shipped: dict[str, Any]) -> None:
    """A6: by its name."""
    other = {"type": "responses_api_models", "name": "other"}
    status, error = await started(tmp_path, {**shipped, "genrm_model_server": other})
    assert (status, "genrm_model_server: names 'other', which is no server of this run" in error) == (2, True)
