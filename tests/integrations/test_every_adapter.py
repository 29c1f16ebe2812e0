"""What every adapter has (A13)."""

from __future__ import annotations

import re
import tomllib

import pytest
from tests.e2e.serving import ROOT, SRC

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
