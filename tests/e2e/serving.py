"""A real `groupjudge serve` process on a free port, and what must hold of its log whatever it was asked."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

from .calling import BOUND_S, Client
from .groups import SECRETS

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
COMPILED = ROOT / ".pytest_cache" / "compiled"
"""So that a server need not compile everything each time it starts."""
_LISTENS = re.compile(rb"groupjudge listens on (http://127\.0\.0\.1:(\d+))\n")
# Set in the child before anything is opened; Python ignores SIGXFSZ, so that a write beyond the limit is an error.
_LIMITED = (
    "import resource, sys; "
    "[resource.setrlimit(getattr(resource, n), (int(v), int(v))) for n, _, v in "
    "(pair.partition('=') for pair in sys.argv.pop(1).split(','))]; "
    "from groupjudge.cli import main; sys.exit(main())"
)


def command(*arguments: str, limits: dict[str, int] | None = None) -> list[str]:
    """The command line of `groupjudge` with these arguments, under resource limits (`RLIMIT_NOFILE`, ...)."""
    if limits is None:
        return [sys.executable, "-m", "groupjudge", *arguments]
    shown = ",".join(f"{name}={value}" for name, value in limits.items())
    # -B: where files may not be long, what Python compiles would be cut off, and the next process would read that.
    return [sys.executable, "-B", "-c", _LIMITED, shown, *arguments]


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without a configuration."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GROUPJUDGE_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**kept, "PYTHONPATH": str(SRC), "PYTHONPYCACHEPREFIX": str(COMPILED), **changes}


def arguments(sets: dict[str, object]) -> list[str]:
    """`--set` for each key."""
    pairs = (f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in sets.items())
    return [word for pair in pairs for word in ("--set", pair)]


class Server:
    """A running server. `client` calls it; `log` is its standard error."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log
        self.port = 0
        self.address = ""
        self.may_log: set[str] = set()
        """Events of level `error` and above that a test brings about on purpose."""

    async def started(self) -> None:
        """Return once it has printed its address."""
        assert self.process.stdout is not None
        line = await _bounded(self.process.stdout.readline)
        match = _LISTENS.fullmatch(line)
        assert match, f"no address: {line!r}\n{self.log.read_text()}"
        self.address, self.port = match[1].decode(), int(match[2])
        self.client = Client(self.port)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        """The exit status, once it has ended."""
        return await _bounded(self.process.wait)

    async def stop(self, number: int = SIGTERM) -> int:
        self.signal(number)
        return await self.ended()

    def events(self) -> list[dict[str, Any]]:
        """The lines of the log so far. Raises where one is no JSON object with a level."""
        text = self.log.read_text()
        if self.process.returncode == -SIGKILL:
            # The interpreter's own tracker tidies up behind a process that was killed, and says so.
            text = re.sub(r"^.*resource_tracker.*\n(  .*\n)?", "", text, flags=re.MULTILINE)
        lines = [json.loads(line) for line in text.splitlines()]
        assert all(isinstance(line, dict) and "level" in line and "event" in line for line in lines)
        return lines

    def show_log(self) -> None:
        """Print the end of it, for whoever reads why a test failed."""
        print(self.log.read_text()[-4000:])

    def check_log(self) -> None:
        """L26, H10a: JSON lines, no text of a question, an answer or a judge, no secret, no traceback, no surprise."""
        text = self.log.read_text()
        bad = [line for line in self.events() if line["level"] in ("error", "critical")]
        surprises = [line for line in bad if line["event"] not in self.may_log]
        assert surprises == [], surprises
        shown = [secret for secret in (*SECRETS, "Traceback") if secret in text]
        assert shown == [], shown


async def _bounded(call: Any) -> Any:
    return await asyncio.wait_for(asyncio.to_thread(call), BOUND_S)


def start(
    sets: dict[str, object], log: Path, limits: dict[str, int] | None, env: dict[str, str]
) -> subprocess.Popen[bytes]:
    """The process of a server that writes its log to `log`."""
    with log.open("wb") as stderr:
        return subprocess.Popen(
            command("serve", *arguments(sets), limits=limits),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(**env),
        )


@asynccontextmanager
async def serving(
    sets: dict[str, object],
    log: Path,
    *,
    limits: dict[str, int] | None = None,
    env: dict[str, str] | None = None,
) -> AsyncIterator[Server]:
    """A server as long as the block lasts; then its log is checked. It is killed where it does not stop by itself."""
    one_judge = {} if "judges" in sets else {"judge.format": "responses"}
    sets = {"server.port": 0, **one_judge, **sets}
    server = Server(start(sets, log, limits, env or {}), log)
    process = server.process
    try:
        with process:
            try:
                await server.started()
                async with server.client:
                    yield server
                if process.poll() is None:
                    assert await server.stop() == 0
            finally:
                process.kill()
    finally:
        if sys.exc_info()[0] is not None:
            server.show_log()
    server.check_log()
