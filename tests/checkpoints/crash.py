"""`python crash.py DIRECTORY`: write a checkpoint again and again, each time in a process that is killed one step later
(a write, flush, rename, link or new directory), until one comes through; print how many it took, one line each: what
was found afterwards."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from signal import SIGKILL
from types import SimpleNamespace
from typing import Any

from groupjudge.checkpoints import files
from groupjudge.errors import InvalidCheckpoint

LINES = [
    f'{{"session_id":"s{n}","episode_id":{{"rollout_id":"r{n}","attempt":0}},"state":{{}},"owner":null}}\n'
    for n in range(40)
]
STEPS = ("open", "replace", "link", "fsync", "close", "unlink", "mkdir")


class Steps:
    """Every call that changes what is on disk, or makes it last, is counted; `at` gets the number of each, before it is
    done and after."""

    def __init__(self, at: Any) -> None:
        self.at = at
        self.number = 0

    def step(self, call: Any, *args: Any, **how: Any) -> Any:
        self._next()
        result = call(*args, **how)
        self._next()
        return result

    def _next(self) -> None:
        self.number += 1
        self.at(self.number - 1)

    def install(self) -> None:
        """Into the module that writes."""
        names = {name: getattr(os, name) for name in dir(os)}
        for name in STEPS:
            names[name] = self._counted(getattr(os, name))
        files.os = SimpleNamespace(**names)  # type: ignore[attr-defined]
        files.open = self._open  # type: ignore[attr-defined]
        for name in ("mkdir", "unlink"):
            setattr(Path, name, self._counted(getattr(Path, name)))

    def _counted(self, call: Any) -> Any:
        return lambda *args, **how: self.step(call, *args, **how)

    def _open(self, *args: Any, **how: Any) -> Any:
        opened: list[Any] = []
        try:
            return File(self, self.step(lambda: opened.append(open(*args, **how)) or opened[0]))
        except OSError:
            for file in opened:
                file.close()
            raise


class File:
    """A file whose every write and flush is a step; what is written goes to the system at once, half of it first."""

    def __init__(self, steps: Steps, file: Any) -> None:
        self._steps, self._file = steps, file

    def write(self, data: bytes) -> None:
        for half in (data[: len(data) // 2], data[len(data) // 2 :]):
            self._steps.step(self._write, half)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._file.flush()

    def flush(self) -> None:
        self._steps.step(self._file.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def write(directory: Path) -> files.Manifest:
    return files.write(directory, "inst", "ck", [line.encode() for line in LINES], files.Publication())


def found(directory: Path) -> str:
    """`none` or `complete`; anything else raises."""
    if not (files.directory_of(directory, "inst") / files.MANIFEST).exists():
        return "none"
    manifest, records = files.read(directory, "inst")
    assert len(records) == len(LINES) == manifest.record_count
    return "complete"


def kill_at(number: int) -> Any:
    def at(step: int) -> None:
        if step == number:
            os.kill(os.getpid(), SIGKILL)

    return at


def main() -> None:
    root, killed = Path(sys.argv[1]), True
    number = 0
    while killed:
        directory = root / str(number)
        pid = os.fork()
        if pid == 0:
            Steps(kill_at(number)).install()
            write(directory / "deep")
            os._exit(0)
        killed = os.waitpid(pid, 0)[1] == SIGKILL
        try:
            what = found(directory / "deep")
        except InvalidCheckpoint as error:
            what = f"broken: {error}"
        again = write(directory / "deep").record_count
        print(number, what, again, found(directory / "deep"), sep="\t")
        number += 1


if __name__ == "__main__":
    main()
