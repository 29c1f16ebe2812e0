"""What the README shows is what the server does."""

from __future__ import annotations

import json
import re
from pathlib import Path

from .conftest import Serve

README = Path(__file__).parents[2] / "README.md"


async def test_the_readmes_request_gets_a_reward(serve: Serve, judge: object) -> None:
    """The body under "What a trainer sends", once for each of its two slots, is answered with rewards."""
    text = README.read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    body = json.loads(example)
    assert body["_ng_group_size"] == 2
    other = {**body, "_ng_rollout_index": 1}
    async with serve({"judge.base_url": judge.base_url}) as server:  # type: ignore[attr-defined]
        callers = [server.client.caller(json.dumps(each).encode()) for each in (body, other)]
        replies = [await caller for caller in callers]
    for reply, sent in zip(replies, (body, other), strict=True):
        assert reply.status == 200
        assert isinstance(reply.json["reward"], float)
        assert reply.json["response"] == sent["response"]
