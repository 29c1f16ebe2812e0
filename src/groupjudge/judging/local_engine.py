"""The embedded judge's side of its helper process (`local_worker.py`): start it, ask it, end it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

WORKER = (sys.executable, "-P", str(Path(__file__).with_name("local_worker.py")))
ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE"}
"""llama.cpp's threads meet after every step. By default who comes first spins until the others are there, which is a
little faster on an idle machine, and four times slower where anybody else wants the cores (measured)."""
_LINE_LIMIT = 1 << 20


class EngineError(Exception):
    """The helper process did not do what it was asked; the text says why, without any text of a prompt."""


class EngineGone(EngineError):
    """The helper process ended, or was ended, before it answered."""


class TooLong(EngineError):
    """The prompt does not fit into the model's context."""


class Engine:
    """One helper process with one loaded model. Made by `start`; its methods belong to that loop."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = count()
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._listening: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, setup: dict[str, Any], command: Sequence[str] = WORKER) -> Engine:
        """Start the process and load the model that `setup` names. Raises EngineError where it cannot be loaded."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            limit=_LINE_LIMIT,
            start_new_session=True,  # else Ctrl-C in a terminal would end it before the judging that it is needed for
            env={**os.environ, **ENVIRONMENT},
        )
        engine = cls(process)
        try:
            said = await engine._first_word(setup)
            if not said.get("ready"):
                raise EngineError(str(said.get("failed", "it says nothing")))
        except BaseException:
            await engine.stop()
            raise
        engine._listening = asyncio.create_task(engine._listen(), name="embedded judge")
        return engine

    @property
    def running(self) -> bool:
        return self._listening is not None and not self._listening.done()

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request; requests are served first come first served. Raises EngineError. A cancelled one
        is dropped, at once where it waits and at its next step where it runs."""
        if not self.running:
            raise EngineGone("its process has ended")
        number = next(self._numbers)
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = reply
        self._send({"id": number, **request})
        try:
            said = await reply
        except asyncio.CancelledError:
            self._send({"cancel": number})
            raise
        finally:
            self._asked.pop(number, None)
        if "error" in said:
            raise TooLong(said["error"]) if said["too_long"] else EngineError(said["error"])
        return said

    async def stop(self) -> None:
        """End the process, whatever it is doing. Requests that wait get EngineGone."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        assert self._process.stdout
        await (self._listening or self._process.stdout.read())  # only a pipe that was read to its end is let go

    async def _first_word(self, setup: dict[str, Any]) -> dict[str, Any]:
        self._send(setup)
        assert self._process.stdout
        line = await self._process.stdout.readline()
        if not line:
            raise EngineGone(f"its process ended while it loaded the model (status {await self._process.wait()})")
        return dict(json.loads(line))

    async def _listen(self) -> None:
        assert self._process.stdout
        while line := await self._process.stdout.readline():
            said = json.loads(line)
            reply = self._asked.get(said.pop("id"))
            if reply is not None and not reply.done():
                reply.set_result(said)
        status = await self._process.wait()
        for reply in self._asked.values():
            if not reply.done():
                reply.set_exception(EngineGone(f"its process ended (status {status})"))

    def _send(self, value: dict[str, Any]) -> None:
        assert self._process.stdin
        if not self._process.stdin.is_closing():
            self._process.stdin.write(json.dumps(value).encode() + b"\n")
