"""Each story in this folder comes out as it is written (the rules that a story shows stand in its first line)."""

from __future__ import annotations

from pathlib import Path

import pytest

from .__main__ import replayed
from .language import play, stories


@pytest.mark.parametrize("path", stories(), ids=lambda path: path.stem)
def test_the_story_comes_out_as_written(path: Path) -> None:
    """Line by line, what each happening brings; the first difference is shown with its line."""
    for number, (line, expected, came) in enumerate(play(path.read_text()), 1):
        assert came == expected, f"{path.name}:{number}: {line}"


def test_an_update_changes_nothing_that_is_right() -> None:
    """Regenerating a story that comes out as written changes nothing: a difference always says something."""
    for path in stories():
        assert replayed(path) == path.read_text(), path.name


@pytest.mark.parametrize("line", ["at 0s g/0 arrives", "0s time passes", 'at 1s g/0 #0 of 2 "A" comes as bob'])
def test_a_line_that_nobody_understands_is_an_error(line: str) -> None:
    """A mistyped line never passes for one that brings nothing."""
    with pytest.raises(ValueError, match=r"not a line|nobody knows"):
        list(play(line))
