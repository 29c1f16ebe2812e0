"""What `/v1/status` says of a known run (H8), and when texts are shown (F5)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from .calling import cancelled_after, until
from .conftest import Serve
from .groups import ANSWER_WORD, GARBLED, QUESTION_WORD, REJECTED, SECRETS, Group, TextJudge, question
from .serving import Server


async def status(server: Server) -> dict[str, Any]:
    return (await server.client.get("/v1/status")).json


SETS = {"group.size": 4, "scoring.score_range": None}


async def test_a_known_run_has_its_numbers(serve: Serve, judge: TextJudge, group: Group, free: None) -> None:
    """H8: groups, members, retries, rewards, judge, retention; no text of anybody."""
    async with serve(SETS) as server:
        client = server.client
        rewarded = [replace(group, name=f"r{n}") for n in range(3)]
        for each in rewarded:
            await asyncio.gather(*map(client.verify, each.bodies()))
        await client.verify(rewarded[0].body(1))
        for note in (REJECTED, GARBLED):
            await asyncio.gather(*map(client.verify, replace(group, name=note, note=note).bodies()))
        await client.verify(replace(group, name=REJECTED, note=REJECTED).body(0))
        await client.verify(Group("alone", 1).body(0))
        async with cancelled_after([client.caller(group.body(slot)) for slot in (0, 2)]) as callers:
            await client.until_members(group.name, 2, callers=2)
            judge.hold()
            held = replace(group, name="held", attempt=1)
            callers += map(client.caller, held.bodies())
            await judge.until(lambda: judge.is_asked_of(held))
            said = await status(server)
            judge.let_go()
            await asyncio.gather(*callers[2:])
        groups = said["groups"]
        assert groups["active"] == {"collecting": 1, "judging": 1, "held": 0}
        assert (groups["formed"], groups["members"], groups["alone"], groups["callers"]) == (7, 26, 1, 6)
        assert {name: many for name, many in groups["ended"].items() if many} == {"completed": 3, "judge_failed": 2}
        assert groups["retries"] == {"waits": 0, "reward": 1, "judge_failed": 1}
        (collecting,), (judging,) = groups["oldest"]["collecting"], groups["oldest"]["judging"]
        assert (collecting["id"], collecting["came"], collecting["missing"]) == (group.name, 2, [1, 3])
        assert collecting["left_s"] <= 1800
        assert (judging["id"], judging["attempt"], judging["missing_count"]) == ("held", 1, 0)
        assert [row["id"] for row in groups["finished"]] == [GARBLED, REJECTED, "r2", "r1", "r0"]
        assert [row["failure"] for row in groups["finished"]] == ["judge_failed", "judge_failed", None, None, None]
        every = [reward for each in rewarded for reward in each.rewards()]
        whole = said["hour"]["over_all"]
        assert (whole["completed"], whole["judge_failed"], whole["rewards"]) == (3, 2, 12)
        assert whole["reward_mean"] == pytest.approx(sum(every) / 12, abs=1e-4)
        assert (whole["reward_min"], whole["reward_max"]) == (min(every), max(every))
        assert sum(said["hour"]["minutes"]["completed"]) == 3
        judged = said["judge"]
        assert (judged["in_flight"], judged["waiting"], judged["calls"]["verdict"]) == (4, 0, 12)
        assert judged["tries"]["rejected"] >= 1
        assert judged["tries"]["unreadable"] >= 1
        assert {row["status"] for row in judged["errors"]} == {400, 200}
        assert [row["group"] for row in judged["failures"]] == [GARBLED, REJECTED]
        assert said["retention"]["results"] == said["retention"]["attempt_records"] == 5
        assert said["memory"]["held_answers"] == 6
        assert said["memory"]["resident_bytes"] > 1 << 20
        shown = str(said)
        assert [secret for secret in SECRETS if secret in shown] == []


async def test_it_says_whether_the_judge_is_there_without_waiting_for_it(serve: Serve) -> None:
    """H8: at first not known, then as /readyz says; nothing is left when the server stops meanwhile."""
    async with serve({"judge.base_url": "http://127.0.0.1:9/v1"}) as server:
        assert (await status(server))["server"]["judge_reachable"] is None

        async def known() -> bool:
            return (await status(server))["server"]["judge_reachable"] is False

        await until(known)
        assert "127.0.0.1:9" in (await status(server))["server"]["judge_problem"]


async def test_only_the_oldest_are_listed_and_long_lists_are_cut(serve: Serve) -> None:
    """H8: the reply stays small however many groups there are."""
    async with serve() as server:
        bodies = [Group(f"g{n}", 1000).body(n) for n in range(30)]
        async with cancelled_after(map(server.client.caller, bodies)):

            async def came() -> bool:
                return (await status(server))["groups"]["active"]["collecting"] == 30

            await until(came)
            reply = await server.client.get("/v1/status")
            rows = reply.json["groups"]["oldest"]["collecting"]
            assert len(rows) == 20
            assert {(len(row["missing"]), row["missing_count"]) for row in rows} == {(24, 999)}
            assert len(reply.body) < 60_000
            assert reply.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("shows", [False, True])
async def test_texts_of_active_groups_are_shown_only_where_that_is_switched_on(
    serve: Serve, group: Group, shows: bool
) -> None:
    """F5, L17: the question and the answers that have come; of a finished group nothing is left to show."""
    async with serve({**SETS, "server.show_texts": shows}) as server:
        client = server.client
        async with cancelled_after([client.caller(group.body(1))]) as callers:
            await client.until_members(group.name, 1)
            (row,) = (await status(server))["groups"]["oldest"]["collecting"]
            reply = await client.get(f"/v1/status/texts/{row['run']}")
            details = await client.get(f"/v1/groups/{group.name}/0")
            if not shows:
                assert reply.said == (404, "not_found")
                assert QUESTION_WORD.encode() not in details.body
            else:
                assert reply.json == details.json["texts"]
                assert reply.json["question"] == [{"role": "user", "content": question(group.name)}]
                assert reply.json["answers"] == [{"slot": 1, "text": group.text(1), "reasoning": ""}]
                assert (reply.json["principle"], reply.json["cut"]) == (None, False)
            callers += [client.caller(group.body(slot)) for slot in (0, 2, 3)]
            await asyncio.gather(*callers)
        assert (await client.get(f"/v1/status/texts/{row['run']}")).status == 404
        details = await client.get(f"/v1/groups/{group.name}/0")
        assert details.json["phase"] == "completed"
        assert ANSWER_WORD.encode() not in details.body + (await client.get("/v1/status")).body


async def test_long_texts_are_cut(serve: Serve, group: Group) -> None:
    """F5: what is shown stays bounded."""
    async with serve({"server.show_texts": True, "group.size": 2}) as server:
        long = replace(group, size=2, note="x" * 300_000)
        async with cancelled_after([server.client.caller(long.body(0))]):
            await server.client.until_members(long.name, 1)
            (row,) = (await status(server))["groups"]["oldest"]["collecting"]
            reply = await server.client.get(f"/v1/status/texts/{row['run']}")
            assert reply.json["cut"] is True
            assert len(reply.body) < 250_000


@pytest.mark.parametrize("run", ["0", "999", "-1", "x", "1e3", "9" * 300, "٣"])
async def test_a_run_that_is_none_is_not_found(serve: Serve, run: str) -> None:
    """H5."""
    from urllib.parse import quote

    async with serve({"server.show_texts": True}) as server:
        assert (await server.client.get(f"/v1/status/texts/{quote(run)}")).status == 404
