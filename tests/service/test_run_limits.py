"""How many descriptors bodies that wait may take."""

from __future__ import annotations

import pytest

from groupjudge.service.run import descriptors_to_spool


@pytest.mark.parametrize(
    ("open_files", "judge_calls"), [(1024, 512), (20_000, 512), (200, 4), (1_048_576, 8192), (110, 512)]
)
def test_every_body_that_waits_leaves_a_descriptor_for_its_connection(open_files: int, judge_calls: int) -> None:
    """P8: twice the share, the calls that go on at once (a quarter of all at most), and some to refuse others with."""
    share = descriptors_to_spool(open_files, judge_calls)
    used = 2 * share + min(judge_calls, open_files // 4)
    assert share >= 1
    assert used + 96 <= open_files or share == 1
    assert used + 96 + 2 > open_files or share == 1


def test_the_answers_of_a_whole_step_find_room() -> None:
    """P8: 8,192 answers wait where the system allows 20,000 open files."""
    assert descriptors_to_spool(20_000, 2048) >= 8192
