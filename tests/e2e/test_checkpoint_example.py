"""The example in docs/checkpoints.md does what the page says."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

from groupjudge.service.control_routes import STATUS

from .groups import TOKEN
from .serving import ROOT
from .training import Run, TrainingJudge

PAGE = ROOT / "docs" / "checkpoints.md"

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documents are not in the source distribution")


def blocks(when: str) -> str:
    """The shell of the page, one part of it."""
    found = re.findall(rf"^```sh {when}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found
    return "\n".join(found)


async def shell(text: str, folder: Path, address: str) -> str:
    """Run it as a reader would; what it prints."""
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "SERVER": address, "TOKEN": TOKEN, "CHECKPOINTS": str(folder)}
    process = await asyncio.create_subprocess_exec(
        "bash", "-euc", text, cwd=folder, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, error = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, error) == (0, b"")
    return out.decode()


def reply(folder: Path, name: str) -> dict[str, object]:
    return json.loads((folder / name).read_text())


@pytest.mark.skipif(shutil.which("curl") is None or shutil.which("bash") is None, reason="the example is made of curl")
async def test_the_example_goes_as_it_is_told(tmp_path: Path) -> None:
    """C9, C10, C22: the second member gets the same reward, under the same cookie, without the judge."""
    functions = blocks("before the crash").partition("\ncurl ")[0]
    async with TrainingJudge() as judge:
        run = Run(judge, tmp_path)
        async with run.life() as (server, _):
            out = await shell(blocks("before the crash"), tmp_path, server.address)
            assert '"phase":"prepared"' in out
            assert '"episode_ids":["r2"]' in out
            assert '"phase":"idle"' in out
        asked = judge.asked.total()
        async with run.life() as (server, _):
            out = await shell(functions + blocks("after the crash"), tmp_path, server.address)
            assert '"restored":["r2-a1"]' in out
        assert judge.asked.total() == asked == 2
    first, second, again = (reply(tmp_path, name) for name in ("r1.reply", "r2.reply", "r2.again"))
    assert again == second
    assert first["reward"] != second["reward"]


def test_the_page_says_what_to_do_on_each_error() -> None:
    """C8."""
    told = set(re.findall(r"^\| (\d+) \| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE))
    assert told >= {(str(status), code) for code, status in STATUS.items()}
