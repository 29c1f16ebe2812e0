"""A judge of lists through a running server and the command (F9)."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from tests.support.judges import Received, Reply, StubJudge, chat, http

from .calling import BOUND_S
from .conftest import Serve
from .groups import JUDGE_WORD, Group, question
from .serving import ROOT, command, environment
from .test_compare import body

LISTWISE = {"judge.format": "listwise", "judge.list_size": 4, "scoring.score_range": [0, 100]}
_BLOCK = re.compile(r"<(answer_\d+)-(\w+)>\n(.*?)\n</\1-\2>", re.DOTALL)


def worth(text: str) -> float:
    """What the judge says of an answer, wherever it is shown."""
    return sum(map(ord, text)) % 97


class Lister(StubJudge):
    """A judge of lists: an answer's score hangs on its text alone. Some texts make it leave one out."""

    def __init__(self) -> None:
        super().__init__(by=self._say)
        self.shown: list[list[str]] = []

    def _say(self, request: Received) -> Reply:
        if request.method != "POST":
            return http(404)
        blocks = _BLOCK.findall(request.json["messages"][0]["content"])
        self.shown.append([text for _, _, text in blocks])
        scores = {name: worth(text) for name, _, text in blocks if "forgotten" not in text}
        return chat(json.dumps({"why": JUDGE_WORD, "scores": scores}))


def worths(group: Group) -> list[float]:
    return [worth(group.text(slot)) for slot in range(group.size)]


async def test_members_of_a_group_get_the_scores_of_their_own_answers(serve: Serve) -> None:
    """F9, L3: `/verify`, `/compare` and `/v1/judge` alike; six answers are three lists of four, that share two."""
    group = Group("listwise", 6)
    plain = {"question": question(group.name), "answers": [group.text(slot) for slot in range(6)]}
    async with Lister() as lister, serve({**LISTWISE, "judge.base_url": lister.base_url}) as server:
        replies = await asyncio.gather(*map(server.client.verify, group.bodies()))
        details = (await server.client.get(f"/v1/groups/{group.name}/0")).json
        first, lister.shown = lister.shown, []
        compared = (await server.client.post("/compare", body(group))).json
        again, lister.shown = lister.shown, []
        judged = (await server.client.post("/v1/judge", json.dumps(plain).encode())).json
    assert [reply.json["reward"] for reply in replies] == worths(group)
    assert compared["rewards"] == judged["rewards"] == details["rewards"] == worths(group)
    assert [len(shown) for shown in first] == [4, 4, 4]
    assert sorted(first) == sorted(again) == sorted(lister.shown)
    assert details["standard_errors"] == [None] * 6
    rows = compared["comparison_results"]
    assert {row["judge_idx"] for row in rows} == set(range(len(first)))
    assert all(row["score_1"] == worths(group)[row["response_i"]] for row in rows)
    assert all(row["score_2"] == worths(group)[row["response_j"]] for row in rows)
    assert {row["ranking"] for row in rows} == {3.5}


async def test_a_score_that_is_missing_masks_the_group(serve: Serve) -> None:
    """F9, J13, H5: nobody gets a made-up reward, those who were scored included."""
    group = Group("forgetful", 3)
    bodies = [group.body(0), group.body(1), Group("forgetful", 3, note="forgotten").body(2)]
    async with Lister() as lister, serve({**LISTWISE, "judge.base_url": lister.base_url}) as server:
        replies = await asyncio.gather(*map(server.client.verify, bodies))
    assert all(reply.json["mask_sample"] is True for reply in replies)
    assert all("is missing" in reply.json["failure_reason"] for reply in replies)


async def test_a_file_is_judged_by_lists(tmp_path: Path) -> None:
    """H14, F9: rewards by lists of another size are other rewards, which no file mixes."""
    questions = [{"id": f"q{n}", "question": f"{n}?", "answers": [f"a {n}", f"b {n}", f"c {n}"]} for n in range(3)]
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_text("".join(json.dumps(row) + "\n" for row in questions))

    async def run(size: int) -> int:
        sets = {**LISTWISE, "judge.list_size": size, "judge.list_overlap": 1, "judge.base_url": lister.base_url}
        process = await asyncio.create_subprocess_exec(
            *command("judge", str(source), "--out", str(out)),
            *(word for key, value in sets.items() for word in ("--set", f"{key}={json.dumps(value)}".replace('"', ""))),
            env=environment(),
            cwd=ROOT,
        )
        return await asyncio.wait_for(process.wait(), BOUND_S)

    async with Lister() as lister:
        assert [await run(3), await run(3), await run(2)] == [0, 0, 2]
        assert len(lister.shown) == 3
    rows: dict[str, Any] = {row["id"]: row for row in map(json.loads, out.read_bytes().splitlines())}
    for row in questions:
        assert rows[str(row["id"])]["rewards"] == [worth(text) for text in row["answers"]]
        assert rows[str(row["id"])]["judge"]["tries"] == {"ok": 1}
