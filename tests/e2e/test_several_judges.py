"""Several judges behind one server: replicas that die, limits, budgets (F10-F12)."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from pathlib import Path
from typing import Any

from tests.support.judges import Received, Reply, http

from .groups import JUDGE_WORD, TOKEN, Group, TextJudge, shown
from .serving import Server, arguments, command, environment, serving

FEW_PARAMS: dict[str, Any] = {"format": "responses", "params": {}, "retries": 0}


def replicas(*addresses: str, **keys: Any) -> dict[str, object]:
    """The configuration of one judge at these addresses; the second one's key is a secret."""
    items = [{"base_url": address, **FEW_PARAMS, **keys} for address in addresses]
    items[1]["api_key"] = TOKEN
    return {"judges": items}


async def rewards_of(server: Server, group: Group) -> list[float]:
    replies = await asyncio.gather(*map(server.client.verify, group.bodies()))
    assert [reply.status for reply in replies] == [200] * group.size
    return [reply.json["reward"] for reply in replies]


def series(text: str, name: str) -> dict[str, float]:
    """The values of a metric by the value of its only label."""
    lines = [line for line in text.splitlines() if line.startswith(f"{name}{{")]
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


class Counting(TextJudge):
    """It names its tokens."""

    def _say(self, request: Received) -> Reply:
        reply = super()._say(request)
        head, _, body = reply.raw.partition(b"\r\n\r\n")
        if request.method != "POST" or not head.startswith(b"HTTP/1.1 200"):
            return reply
        return http(body=json.dumps({**json.loads(body), "usage": {"input_tokens": 1000, "output_tokens": 10}}))


async def test_hundreds_of_groups_are_judged_by_replicas_of_which_one_is_dead(tmp_path: Path) -> None:
    """F10, L24: without a retry; each group gets its own rewards, its details say what it cost, and where; a member's
    reward is the same whichever replica judged it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        async with Counting() as first, Counting() as second:
            sets = replicas(first.base_url, second.base_url, dead, price={"prompt": 2.0, "completion": 0.0})
            async with serving(sets, tmp_path / "log") as server:
                groups = [Group(f"replicas-{n}") for n in range(150)]
                rewards = await asyncio.gather(*(rewards_of(server, group) for group in groups))
                assert rewards == [group.rewards() for group in groups]
                assert min(len(first.received), len(second.received)) > 100
                details = (await server.client.get(f"/v1/groups/{groups[-1].name}/0")).json
                metrics = (await server.client.get("/metrics")).body.decode()
                assert (await server.client.get("/readyz")).status == 200
    usage = details["usage"]
    assert sum(each["prompt_tokens"] for each in usage) == 4000
    assert sum(each["money"] for each in usage) == 4000 * 2.0 / 1_000_000
    requests = series(metrics, "groupjudge_judge_requests_total")
    assert requests["judges.0"] + requests["judges.1"] == 600
    assert series(metrics, "groupjudge_judge_prompt_tokens_total")["judges.1"] == 1000 * requests["judges.1"]
    assert series(metrics, "groupjudge_judge_left_out") == {"judges.0": 0, "judges.1": 0, "judges.2": 1}
    assert sum(series(metrics, "groupjudge_judge_money_total").values()) == 1.2
    assert {r.headers.get("authorization") for r in second.received if r.method == "POST"} == {f"Bearer {TOKEN}"}
    assert {r.headers.get("authorization") for r in first.received} == {None}


async def test_when_the_budget_is_used_up_callers_get_a_clear_judge_failure_and_no_score(tmp_path: Path) -> None:
    """F12, H4, H8: groups judged before keep their rewards; the server says that it is not ready."""
    async with TextJudge() as judge:
        sets = {"judge.base_url": judge.base_url, "judge.params": {}, "judge.budget": {"calls": 10}}
        async with serving(sets, tmp_path / "log") as server:
            before = [Group("before-1"), Group("before-2")]
            for group in before:
                assert await rewards_of(server, group) == group.rewards()
            assert (await server.client.get("/readyz")).status == 200
            after = [Group(f"after-{n}") for n in range(20)]
            replies = await asyncio.gather(*(server.client.verify(body) for group in after for body in group.bodies()))
            assert {(r.status, r.json["reward"], r.json["mask_sample"]) for r in replies} == {(200, 0.0, True)}
            assert {r.json["failure_reason"] for r in replies} == {
                "the budget of judge is used up (10 of 10 calls): raise judge.budget.calls and start anew"
            }
            assert (await server.client.verify(before[0].body(1))).json["reward"] == before[0].rewards()[1]
    assert len([request for request in judge.received if request.method == "POST"]) <= 10


async def test_a_file_is_judged_until_the_budget_is_used_up_and_a_second_run_goes_on(tmp_path: Path) -> None:
    """F12, H14: what was judged is kept; the summary says what it cost."""
    rows = [{"question": f"q {n}", "answers": [f"a {n}", f"b {n}"]} for n in range(10)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(**sets: object) -> subprocess.CompletedProcess[bytes]:
        keys = arguments({"judges": [{"base_url": judge.base_url, "name": "mine", **FEW_PARAMS, **sets}]})
        files = (str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out.jsonl"))
        return subprocess.run(command("judge", *files, *keys), env=environment(), capture_output=True, check=False)

    async with Counting() as judge:
        first = await asyncio.to_thread(run, budget={"calls": 6}, price={"completion": 1000.0})
        assert first.returncode == 1
        assert b"mine: 6 calls, 6,000 tokens of requests and 60 of replies, 0.06 in money" in first.stderr
        assert b"the budget of mine is used up (6 of 6 calls): raise judges.0.budget.calls" in first.stderr
        second = await asyncio.to_thread(run)
        assert second.returncode == 0, second.stderr
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(row["line"] for row in written) == list(range(1, 11))
    assert {row["usage"][0]["judge"] for row in written} == {"mine"}
    assert {row["usage"][0]["calls"] for row in written} == {2}
    assert JUDGE_WORD not in str(written)


def panel(*judges: TextJudge, **comparison: object) -> dict[str, object]:
    """The configuration of a panel of these judges."""
    items = [{"base_url": judge.base_url, "model": f"m{n}", **FEW_PARAMS} for n, judge in enumerate(judges)]
    return {"judges": items, **{f"comparison.{key}": value for key, value in comparison.items()}}


class Broken(TextJudge):
    """It cannot judge the groups with an odd number in their name."""

    def _say(self, request: Received) -> Reply:
        if request.method == "POST" and int(shown(request)[1].split("odd-")[1][0]) % 2:
            return http(500, f"{JUDGE_WORD}: broken")
        return super()._say(request)


async def test_a_panel_judges_with_whoever_could_and_says_who(tmp_path: Path) -> None:
    """F10, F5: a failed juror is left out of its groups, whose rewards are those of the others, and counted."""
    async with TextJudge() as first, Broken() as second:
        async with serving(panel(first, second), tmp_path / "log") as server:
            groups = [Group(f"odd-{n}") for n in range(10)]
            rewards = await asyncio.gather(*(rewards_of(server, group) for group in groups))
            assert rewards == [group.rewards() for group in groups]  # both say the same, so the mean is what one says
            whole, half = [(await server.client.get(f"/v1/groups/odd-{n}/0")).json for n in (2, 3)]
            metrics = (await server.client.get("/metrics")).body.decode()
            assert (await server.client.get("/readyz")).status == 200
        log = (tmp_path / "log").read_text()
    assert [verdict["judge_idx"] for verdict in whole["verdicts"]] == [0] * 4 + [1] * 4
    assert whole["disagreement"] == 0.0
    assert [(juror["name"], juror["verdicts"]) for juror in whole["jurors"]] == [("m0", 4), ("m1", 4)]
    assert [verdict["judge_idx"] for verdict in half["verdicts"]] == [0] * 4
    assert half["jurors"][1]["left_out"].startswith("transport (status 500)")
    assert half["disagreement"] is None
    assert series(metrics, "groupjudge_juror_left_out_total") == {"m0": 0, "m1": 5}
    assert log.count("juror_left_out") == 5


async def test_jurors_take_turns_and_stand_in_for_each_other(tmp_path: Path) -> None:
    """F10: each pair is asked once, of one of them; what one cannot judge the other does."""
    async with (
        TextJudge() as first,
        Broken() as second,
        serving(panel(first, second, jurors="in_turn"), tmp_path / "log") as server,
    ):
        groups = [Group(f"odd-{n}") for n in range(10)]
        rewards = await asyncio.gather(*(rewards_of(server, group) for group in groups))
        assert rewards == [group.rewards() for group in groups]
        even, odd = [(await server.client.get(f"/v1/groups/odd-{n}/0")).json for n in (2, 3)]
    assert [juror["verdicts"] for juror in even["jurors"]] == [2, 2]
    assert [juror["verdicts"] for juror in odd["jurors"]] == [4, 0]
    assert all(first.asked_of(group).total() == (2, 4)[n % 2] for n, group in enumerate(groups))


async def test_a_panel_of_which_nobody_is_left_is_a_judge_failure(tmp_path: Path) -> None:
    """F10, J13, L26: every juror's reason is told to callers, and no word of a judge to the log."""
    async with Broken() as first, Broken() as second, serving(panel(first, second), tmp_path / "log") as server:
        reply = await asyncio.gather(*map(server.client.verify, Group("odd-1").bodies()))
        assert {(r.status, r.json["reward"], r.json["mask_sample"]) for r in reply} == {(200, 0.0, True)}
        (reason,) = {r.json["failure_reason"] for r in reply}
        assert reason.startswith("all 2 jurors failed: m0: after 1 try")
        assert "m1: after 1 try" in reason
