"""The examples for plain HTTP, each run against a real server (A12)."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.calling import Reply, request
from tests.e2e.groups import rewards_of
from tests.e2e.serving import ROOT, Server, serving

from .conftest import REFUSED, PickyJudge

EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "trainers" / "http.md"


async def finished(*words: str, **environ: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **environ},
    )
    out, error = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode(), error.decode()


async def run(*words: str) -> str:
    status, out, error = await finished(*words)
    assert (status, error) == (0, "")
    return out


async def test_the_python_example_prints_the_rewards(server: Server) -> None:
    """A12: thirty lines of the standard library; started again, it gets the same."""
    path = EXAMPLES / "plain_http.py"
    constants = dict(re.findall(r"^([A-Z]+) = (.*)$", path.read_text("utf-8"), re.MULTILINE))
    rewards = rewards_of(json.loads(constants["QUESTION"]), json.loads(constants["ANSWERS"]))
    for _ in range(2):
        assert json.loads(await run(sys.executable, str(path), server.address, "plain/q")) == rewards
    assert len(path.read_text("utf-8").splitlines()) <= 35


@pytest.mark.skipif(shutil.which("curl") is None or shutil.which("bash") is None, reason="needs curl and bash")
async def test_the_curl_example_prints_the_rewards(server: Server) -> None:
    """A12, A1, A2."""
    lines = (await run("bash", str(EXAMPLES / "curl.sh"), server.address, "run/curl ?#%ü")).splitlines()
    whole, *members = map(json.loads, lines)
    assert whole["rewards"] == rewards_of("What is 2 + 2?", ["Four.", "It is 4.", "5?"])
    texts = [f"Because, {slot}." for slot in range(3)]
    assert [member["reward"] for member in members] == rewards_of("Why is the sky blue?", texts)


def transcript() -> list[dict[str, Any]]:
    """The page's requests and replies."""
    (block,) = re.findall(r"^```json transcript\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return json.loads(block)


async def test_the_transcript_is_what_the_server_says(server: Server, judge: PickyJudge) -> None:
    """A12, A5: each request of the page gets the reply of the page; the judge failure too."""
    steps = transcript()
    assert any(REFUSED in json.dumps(step) for step in steps)
    for step in steps:
        method, target = step["request"].split(" ")
        body = None if "body" not in step else json.dumps(step["body"]).encode()
        reply: Reply = await server.client.send(request(method, target, body, step.get("headers")))
        shown = {name: reply.headers[name.lower()] for name in step["reply"].get("headers", {})}
        assert reply.status == step["reply"]["status"]
        assert shown == step["reply"].get("headers", {})
        told = step["reply"]["body"]
        said = json.loads(reply.body.decode().replace(judge.base_url, "http://judge:8000/v1"))
        assert {name: said[name] for name in told} == told


def test_the_examples_are_where_the_page_says() -> None:
    """A13."""
    for name in ("plain_http.py", "curl.sh"):
        assert f"examples/{name}" in PAGE.read_text("utf-8")
        assert Path(EXAMPLES / name).exists()


@pytest.mark.skipif(shutil.which("curl") is None or shutil.which("bash") is None, reason="needs curl and bash")
async def test_the_examples_send_a_token_where_there_is_one(judge: PickyJudge, tmp_path: Path) -> None:
    """A12, H8: the server's word is shown where it will not do, and no traceback."""
    examples = [[sys.executable, str(EXAMPLES / "plain_http.py")], ["bash", str(EXAMPLES / "curl.sh")]]
    sets = {"judge.base_url": judge.base_url, "judge.params": {}, "server.auth_token": "sekret"}
    async with serving(sets, tmp_path / "log") as server:
        for example in examples:
            status, out, error = await finished(*example, server.address, "token/q", REWARD_TOKEN="sekret")
            assert (status, error) == (0, "")
            for environ in ({}, {"REWARD_TOKEN": "another"}):
                status, out, error = await finished(*example, server.address, "token/q", **environ)
                assert status != 0
                assert "401" in error
                assert "unauthorized" in out + error
                assert "Traceback" not in error
