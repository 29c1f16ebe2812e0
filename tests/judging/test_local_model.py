"""The one file that llama.cpp wants, from the parts that the extra brings (J9)."""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from groupjudge.judging import local_model

PARTS = (b"GGUF" + b"\1" * 3_000_000, b"\2" * 10)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Weights in two parts, and an empty cache."""
    for n, part in enumerate(PARTS):
        (tmp_path / f"part{n}").write_bytes(part)
    weights(tmp_path, monkeypatch, sha256(b"".join(PARTS)).hexdigest())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "groupjudge"


def weights(folder: Path, monkeypatch: pytest.MonkeyPatch, digest: str) -> None:
    paths = [folder / f"part{n}" for n in range(len(PARTS))]
    package = SimpleNamespace(chunk_paths=lambda: paths, EXPECTED_SHA256=digest)
    monkeypatch.setitem(sys.modules, local_model.WEIGHTS, package)  # type: ignore[arg-type]


def test_the_parts_are_put_together_once(cache: Path) -> None:
    file = local_model.model_file(None)
    assert file.parent == cache
    assert file.read_bytes() == b"".join(PARTS)
    made = file.stat().st_mtime_ns
    assert local_model.model_file(None) == file
    assert file.stat().st_mtime_ns == made


def test_a_file_that_is_not_what_its_name_says_is_replaced(cache: Path) -> None:
    """Cut short by a full disk, or put there by somebody."""
    file = local_model.model_file(None)
    file.write_bytes(b"GGUF" + b"\3" * (len(b"".join(PARTS)) - 4))
    assert local_model.model_file(None).read_bytes() == b"".join(PARTS)


def test_damaged_parts_leave_nothing_behind(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights(tmp_path, monkeypatch, "0" * 64)
    with pytest.raises(OSError, match="weights are damaged; reinstall"):
        local_model.model_file(None)
    assert list(cache.iterdir()) == []


def test_without_a_cache_the_temporary_folder_will_do(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.parent.write_bytes(b"no folder")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert local_model.model_file(None).parent == tmp_path


def test_a_file_of_the_users_is_taken_as_it_is(tmp_path: Path) -> None:
    assert local_model.model_file(str(tmp_path / "x.gguf")) == tmp_path / "x.gguf"
