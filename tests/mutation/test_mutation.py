"""The tool that breaks the core on purpose."""

from __future__ import annotations

from pathlib import Path

from .__main__ import CORE, Trial
from .mutants import Mutant


def test_its_proofs_pass_on_the_core_as_it_is_and_fail_on_a_broken_one(tmp_path: Path) -> None:
    """Or it would learn nothing, or take every fault for a caught one."""
    trial = Trial(tmp_path)
    book = tmp_path / "src" / CORE / "book.py"
    sound = book.read_text()
    assert trial.passes(tmp_path / "src")
    broken = sound.replace("self._effects.append(Settle(ticket, slot, found.outcomes[slot]))", "pass")
    assert broken != sound
    assert trial.is_caught((book, Mutant(1, "settles nobody", broken)))
