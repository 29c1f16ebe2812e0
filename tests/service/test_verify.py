"""The replies of `/verify`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.datastructures import Headers
from starlette.types import Message

from groupjudge.answers.spool import Spool
from groupjudge.model import JudgeFailure
from groupjudge.service import verify as module
from groupjudge.service.analyst import Analyst
from groupjudge.service.verify import Verify, _Exchange


def body(number: int) -> bytes:
    response = {"output": [], "token_ids": list(range(2000 + number))}
    return json.dumps(
        {"responses_create_params": {"input": "?"}, "response": response, "_ng_rollout_index": 0}
    ).encode()


async def test_the_loop_has_a_turn_between_two_large_bodies_of_a_group_whose_judge_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P9, H11: each of them is read once more, and all go out at once."""
    turns = 0
    seen: list[int] = []
    original = module.failure_reply

    def counted(*args: Any, **how: Any) -> Any:
        seen.append(turns)
        return original(*args, **how)

    monkeypatch.setattr(module, "failure_reply", counted)
    loop = asyncio.get_running_loop()

    def tick() -> None:
        nonlocal turns, ticking
        turns += 1
        ticking = loop.call_soon(tick)

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nobody asks")

    sent: list[Message] = []
    analyst = Analyst(Spool(1000, str(tmp_path)), default_size=2, max_size=4)
    verify = Verify(*cast(Any, (None, None, analyst, None, None)))
    callers = [await analyst.caller(analyst._spool.keep(body(number)), echo=True) for number in range(8)]
    exchange = _Exchange(Headers(), receive, send, lambda: False)
    ticking = loop.call_soon(tick)
    await asyncio.gather(*(verify._echo(exchange, caller, JudgeFailure("no"), 0) for caller in callers))
    ticking.cancel()
    for caller in callers:
        caller.close()
    assert [message["status"] for message in sent if message["type"] == "http.response.start"] == [200] * 8
    assert len(set(seen)) == 8
