"""What every adapter has (A13)."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib

import pytest
from tests.e2e.serving import ROOT, SRC
from tests.support.judges import StubJudge, http

from groupjudge.errors import GroupFailed
from groupjudge.integrations import openrlhf, slime, trl, verifiers
from groupjudge.service.wire import of_error

from .test_slime import options, sample
from .test_trl import Trainer
from .test_verifiers import states
from .test_verl import manager, row

EXAMPLES = {
    "openrlhf": "openrlhf_reward.py",
    "slime": "slime_group_rm.sh",
    "trl": "trl_grpo.py",
    "verifiers": "verifiers_env.py",
    "verl": "verl_grpo.sh",
}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_adapter_has_all_that_a_user_looks_for(name: str) -> None:
    """A13: one file, an extra, an example, a page that starts with what is pasted and says what no reward is, a line in
    the README, the release that it is tested with."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "trainers" / f"{name}.md").read_text("utf-8")
    assert name in extras
    assert (SRC / "groupjudge" / "integrations" / f"{name}.py").is_file()
    assert (ROOT / "examples" / EXAMPLES[name]).is_file()
    assert f"(../../examples/{EXAMPLES[name]})" in page
    assert len(re.findall(r"^## No reward$", page, re.MULTILINE)) == 1
    code = page.split("```", 2)[1].strip().splitlines()[1:]
    assert len([line for line in code if line]) <= 6
    assert f"docs/trainers/{name}.md" in (ROOT / "README.md").read_text("utf-8")
    (pinned,) = re.findall(
        r"^(?:# alone: )?(?:trl|verl|verifiers|openrlhf|miles-rl)==(\S+)$",
        (ROOT / "requirements" / "integrations" / f"{name}.txt").read_text("utf-8"),
        re.MULTILINE,
    )
    assert pinned in page


async def test_no_adapter_repeats_an_advice_that_its_user_cannot_take(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5: a trainer's user sets no attempts; the warning gives the reason of a failed group alone."""
    monkeypatch.setattr(slime, "_warned", [])
    failed = http(503, of_error(GroupFailed("a member never came")).body)
    async with StubJudge(otherwise=failed) as server:
        address = f"http://127.0.0.1:{server.port}"
        await slime.reward(options(address), [sample("a"), sample("b")])
        await Trainer().calls(trl.GroupReward(address), ["q"] * 4, list("abcd"))
        await verifiers.GroupReward(address)(["q"] * 2, ["a", "b"], states(2))
        await manager(address).run_single([row("a", "x", session_id=0)])
        await asyncio.to_thread(openrlhf.GroupReward(address, samples_per_prompt=2), ["qa"], ["q"])
    assert json.loads(of_error(GroupFailed("x")).body)["detail"] != "x"
    assert caplog.text.count("a member never came") == 5
    assert "_ng_group_attempt" not in caplog.text
