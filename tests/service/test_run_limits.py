"""How many descriptors bodies that wait may take."""

from __future__ import annotations

import pytest

from groupjudge.service.run import bodies_to_spool


@pytest.mark.parametrize("per_file", [1, 16])
@pytest.mark.parametrize(
    ("open_files", "judge_calls"), [(1024, 512), (20_000, 512), (200, 4), (1_048_576, 8192), (110, 512)]
)
def test_every_body_that_waits_leaves_a_descriptor_for_its_connection(
    open_files: int, judge_calls: int, per_file: int
) -> None:
    """P8: one for each, their files, the calls that go on at once (half of all at most), and some to refuse others."""
    share = bodies_to_spool(open_files, judge_calls, per_file)

    def used(bodies: int) -> int:
        return bodies + -(-bodies // per_file) + min(judge_calls, open_files // 2) + 96

    assert share >= 1
    assert used(share) <= open_files or share == 1
    assert used(share + 1) > open_files or share == 1


def test_the_answers_of_a_whole_step_find_room_while_all_are_at_the_judge() -> None:
    """P8: 8,192 answers wait where the system allows 20,000 open files."""
    assert bodies_to_spool(20_000, 8192, 16) >= 8192
