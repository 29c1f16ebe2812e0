"""Processes that a benchmark starts, what they have cost so far, and how to talk to them."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"


def family(pid: int) -> list[int]:
    """The process and its descendants: helper processes count too."""
    found, waiting = [], [pid]
    while waiting:
        current = waiting.pop()
        found.append(current)
        for children in _read_all(f"/proc/{current}/task", "children"):
            waiting += map(int, children.split())
    return found


def cpu_s(pid: int) -> float:
    """CPU seconds of the family so far, from the scheduler's nanosecond clock. Threads that ended do not count."""
    times = (t.split()[0] for each in family(pid) for t in _read_all(f"/proc/{each}/task", "schedstat"))
    return sum(map(int, times)) / 1e9


def memory_mb(pid: int, key: str = "VmRSS") -> float:
    """Resident memory of the family in MB: now (`VmRSS`), or at its peak (`VmHWM`)."""
    total = 0
    for each in family(pid):
        with suppress(OSError):
            lines = Path(f"/proc/{each}/status").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith(key))
    return total * 1024 / 1e6


def forget_peak(pid: int) -> None:
    """Let `VmHWM` begin anew from what is resident now."""
    for each in family(pid):
        with suppress(OSError):
            Path(f"/proc/{each}/clear_refs").write_text("5")


def _read_all(directory: str, name: str) -> Iterator[str]:
    with suppress(OSError):
        for task in os.listdir(directory):
            with suppress(OSError):
                yield Path(directory, task, name).read_text()


class Child:
    """A process that has said on its first line where it listens, and may take commands on its standard input."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{process.args} did not start")
        self.address = "http://" + line.strip().rpartition("http://")[2]

    def _ask(self, command: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    async def ask(self, command: str) -> Any:
        """Send a command and return its reply."""
        return await asyncio.to_thread(self._ask, command)


@asynccontextmanager
async def child(*arguments: str) -> AsyncIterator[Child]:
    """`python -m arguments`, until the block ends; its standard error is shown where it fails."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(SRC), str(ROOT)))}
    env = {name: value for name, value in env.items() if not name.startswith("GROUPJUDGE_")}
    with TemporaryFile() as log:
        command = [sys.executable, "-m", *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(  # noqa: ASYNC220 -- nothing else runs yet
            command, stdin=pipe, stdout=pipe, stderr=log, text=True, env=env
        )
        try:
            yield Child(process)
        except BaseException:
            log.seek(max(0, log.seek(0, 2) - 3000))
            sys.stderr.write(log.read().decode(errors="replace"))
            raise
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                with suppress(OSError):
                    stream.close()


@contextmanager
def no_collections() -> Iterator[None]:
    """Keep this process from stopping for its own garbage while it measures another."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def take_commands(commands: dict[str, Callable[..., object]]) -> None:
    """In a child, on its running loop: answer each line of standard input with one line of JSON. The first word is the
    command, the others are its arguments."""
    rest = b""

    def readable() -> None:
        nonlocal rest
        data = os.read(0, 65_536)
        if not data:
            asyncio.get_running_loop().remove_reader(0)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            name, *words = line.decode().split()
            print(json.dumps(commands[name](*words)), flush=True)

    asyncio.get_running_loop().add_reader(0, readable)
