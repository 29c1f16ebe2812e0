"""Which settings a reward hangs on (H14): rows of a file that was judged by other rules are not taken over."""

from __future__ import annotations

import pytest

from groupjudge.configuration import load
from groupjudge.service.judges import rules_of

SAME = ["judge.base_url=http://elsewhere/v1", "judge.max_concurrency=3", "comparison.start=eager", "server.port=1"]
OTHER = [
    "judge.model=another",
    "judge.format=genrm",
    "comparison.strategy=all_pairs",
    "comparison.both_orders=true",
    "scoring.aggregator=win_rate",
    "scoring.default_score=1",
]


@pytest.mark.parametrize("setting", SAME)
def test_rewards_do_not_hang_on_where_and_when_the_judge_is_asked(setting: str) -> None:
    """H14, F7."""
    assert rules_of(load(None, {}, [setting])) == rules_of(load(None, {}, []))


@pytest.mark.parametrize("setting", OTHER)
def test_rewards_hang_on_the_judge_the_pairs_and_the_formula(setting: str) -> None:
    """H14."""
    assert rules_of(load(None, {}, [setting])) != rules_of(load(None, {}, []))
