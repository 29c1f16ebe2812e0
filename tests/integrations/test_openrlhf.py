"""OpenRLHF's reward function and its HTTP form without OpenRLHF (A5, A9)."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.e2e.calling import Client, Connection, request, until
from tests.e2e.groups import rewards_of
from tests.e2e.serving import Server, environment

from groupjudge import DeadlinePassed
from groupjudge.integrations.openrlhf import Arrivals, GroupReward, answer_in

from .conftest import REFUSED, PickyJudge


async def calls(reward: GroupReward, prompt: str, texts: list[str]) -> list[dict[str, Any]]:
    """One call for each answer, each in a thread, as OpenRLHF makes them."""
    return await asyncio.gather(*(asyncio.to_thread(reward, [prompt + text], [prompt], ["label"]) for text in texts))


async def test_each_call_gets_the_reward_of_its_own_answer(address: str) -> None:
    """A9: with two members the order of arrival does not matter to who is compared with whom."""
    texts = ["one", "two"]
    said = await calls(GroupReward(address, samples_per_prompt=2), "q", texts)
    orders = [rewards_of("q", texts), rewards_of("q", texts[::-1])[::-1]]
    assert [reply["rewards"][0] for reply in said] in orders
    assert said[0] == {
        "rewards": said[0]["rewards"],
        "scores": said[0]["rewards"],
        "extra_logs": {"groupjudge_left_out": [0.0]},
    }


async def test_equal_answers_are_two_members(address: str) -> None:
    """A9: its own member id per call; an answer's text is no identity."""
    said = await calls(GroupReward(address, samples_per_prompt=2), "q", ["same", "same"])
    assert sorted(reply["rewards"][0] for reply in said) == sorted(rewards_of("q", ["same", "same"]))


def test_answers_go_into_groups_by_prompt_and_arrival() -> None:
    """A9: N a group; a full one is followed by a new one."""
    arrivals = Arrivals(2)
    seats = [arrivals.seat(prompt) for prompt in ("p", "q", "p", "p", "q")]
    groups = [seat.group_id for seat in seats]
    assert groups[0] == groups[2] != groups[3]
    assert groups[1] == groups[4] not in (groups[0], groups[3])
    assert len({seat.member_id for seat in seats}) == 5


def test_nobody_joins_a_group_that_failed() -> None:
    """A9: the next answer to the prompt opens another; one that is full or foreign is left alone."""
    arrivals = Arrivals(2)
    first = arrivals.seat("p")
    arrivals.failed("p", "another")
    assert arrivals.seat("p").group_id == first.group_id
    second = arrivals.seat("p")
    arrivals.failed("p", second.group_id)
    assert arrivals.seat("p").group_id != second.group_id


async def test_a_group_without_rewards_has_no_advantage_and_a_flag(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A5: all members get the same number, a flag, and one warning says so."""
    reward = GroupReward(address, samples_per_prompt=2, no_reward=2.5)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            said = await calls(reward, f"one that {REFUSED}", ["a", "b"])
            assert said == [
                {"rewards": [2.5], "scores": [2.5], "extra_logs": {"groupjudge_left_out": [1.0]}} for _ in range(2)
            ]
    (record,) = [record for record in caplog.records if record.name == "groupjudge.integrations.openrlhf"]
    assert "get 2.5" in record.getMessage()


async def test_special_tokens_around_the_texts_are_not_judged(address: str) -> None:
    """A9: a query is the prompt and the answer behind it, with what the tokenizer puts around them."""
    reward = GroupReward(address, samples_per_prompt=1, question=lambda prompt, label: f"{prompt}!{label}")
    assert reward.texts("<s>Why?Because.<|im_end|></s>", "Why?", 7) == ("Why?!7", "Because.")
    with pytest.raises(ValueError, match="does not hold its prompt"):
        reward.texts("Because.", "Why?", 7)


CHAT = "<|user|>Why is the sky blue ?<|assistant|>"
SHOTS = "Q: Why ?\nAnswer: so.\n\nQ: How ?\nAnswer: so.\n\n"


@pytest.mark.parametrize(
    ("prompt", "query"),
    [
        (CHAT, CHAT[10:] + "It is."),
        (CHAT, "<s>" + CHAT[10:] + "It is."),
        (CHAT, "\ufffd" + CHAT[-14:] + "It is."),
        (CHAT, CHAT.replace(" ?", "?") + "It is."),
        (CHAT, CHAT.replace("Why", "<img>" * 100 + "Why") + "It is."),
        (SHOTS, SHOTS.replace(" ?", "?") + "It is."),
        ("Why ?", "Why ?It is."),
    ],
)
@pytest.mark.parametrize("echo", [False, True])
def test_the_answer_is_what_follows_the_prompt_that_went_through_a_tokenizer(
    prompt: str, query: str, echo: bool
) -> None:
    """A9: OpenRLHF cuts off the beginning of a long prompt; tokenizers change spaces, and put in what an image is; the
    answer may repeat the prompt's end."""
    text = f"It is.{prompt[-14:]}" if echo else "It is."
    assert answer_in(query.removesuffix("It is.") + text, prompt) == text


@pytest.mark.parametrize("query", ["It is.", "", "<|assistant|"])
def test_a_query_without_its_prompt_is_refused(query: str) -> None:
    """A9: so no answer is judged that is none."""
    for prompt in (CHAT, "Why ?", "It is not."):
        with pytest.raises(ValueError, match="does not hold its prompt"):
            answer_in(query, prompt)


async def test_more_calls_may_wait_than_a_loop_has_threads_for(address: str) -> None:
    """A9: made while a loop runs, as OpenRLHF loads the file; 60 groups whose second answer comes after all the first
    ones would take all threads otherwise."""

    async def engine() -> list[dict[str, Any]]:
        reward = GroupReward(address, samples_per_prompt=2, deadline_s=30)
        prompts = [f"q{number}" for number in range(60)]
        each = [asyncio.to_thread(reward, [p + text], [p], [""]) for text in ("one", "two") for p in prompts]
        return await asyncio.gather(*each)

    said = await asyncio.to_thread(asyncio.run, engine())
    assert [reply["extra_logs"]["groupjudge_left_out"] for reply in said] == [[0.0]] * 120


async def test_a_server_that_is_not_there_is_said_loudly(caplog: pytest.LogCaptureFixture) -> None:
    """A5: OpenRLHF swallows what a reward function raises, so the log has it as an error."""
    reward = GroupReward("http://127.0.0.1:9", samples_per_prompt=2, deadline_s=0.3)
    with pytest.raises(DeadlinePassed):
        await asyncio.to_thread(reward, ["q a"], ["q"], [""])
    assert [record.levelname for record in caplog.records if "No reward" in record.getMessage()] == ["ERROR"]


@asynccontextmanager
async def http_form(address: str, samples: int) -> AsyncIterator[Client]:
    """A process that serves it, and a caller of it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-m", "groupjudge.integrations.openrlhf", "--server", address, "--port", "0"),
        *("--samples-per-prompt", str(samples)),
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            line = await process.stdout.readline()
        async with Client(int(line.decode().split(":")[2].split()[0].rstrip("/"))) as client:
            yield client
    finally:
        process.terminate()
        await process.wait()


def body(prompt: str, text: str) -> bytes:
    return json.dumps({"query": [prompt + text], "prompts": [prompt], "labels": ["x"]}).encode()


async def test_the_http_form_answers_as_the_function_does(address: str) -> None:
    """A9: `POST {query, prompts, labels}` to whatever path; equal answers that wait together are two members."""
    async with http_form(address, 2) as client:
        replies = await asyncio.gather(*(client.post("/get_reward", body("q", "same")) for _ in range(2)))
    rewards = [reply.json["rewards"][0] for reply in replies]
    assert sorted(rewards) == sorted(rewards_of("q", ["same", "same"]))
    assert replies[0].json["scores"] == replies[0].json["rewards"]
    assert replies[0].json["extra_logs"] == {"groupjudge_left_out": [0.0]}


async def test_a_try_that_hung_up_and_comes_back_is_no_second_member(server: Server, judge: PickyJudge) -> None:
    """A9: OpenRLHF gives up after three minutes and sends the same again."""
    async with http_form(server.address, 2) as client:
        started = {row["id"] for row in await server.client.groups()}

        async def waiting(callers: int) -> bool:
            rows = [row for row in await server.client.groups() if row["id"] not in started]
            return [(len(row["members"]), row["callers"]) for row in rows] == [(1, callers)]

        async with Connection(client.port) as connection:
            await connection.send(request("POST", "/", body("hang", "one")))
            await until(lambda: waiting(1))
        await until(lambda: waiting(0))
        again = asyncio.ensure_future(client.post("/", body("hang", "one")))
        await until(lambda: waiting(1))
        other = await client.post("/", body("hang", "two"))
        said = [(await again).json["rewards"][0], other.json["rewards"][0]]
    assert said == rewards_of("hang", ["one", "two"])


async def test_a_group_of_one_is_left_out(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """A5, L9: the default score is no judgement: the flag and one warning say so, in both forms."""
    reward = GroupReward(address, samples_per_prompt=1)
    for _ in range(2):
        said = await asyncio.to_thread(reward, ["qa"], ["q"], ["x"])
        assert (said["rewards"], said["extra_logs"]) == ([3.0], {"groupjudge_left_out": [1.0]})
    assert caplog.text.count("groups of one") == 1
    async with http_form(address, 1) as client:
        told = (await client.post("/", body("q", "a"))).json
    assert (told["rewards"], told["extra_logs"]) == ([3.0], {"groupjudge_left_out": [1.0]})


async def test_lists_that_do_not_fit_are_named(address: str) -> None:
    """A9: no answer is dropped; labels may be missing, a prompt may not."""
    reward = GroupReward(address, samples_per_prompt=2)
    with pytest.raises(ValueError, match="equally many, not 2, 2 and 1"):
        await asyncio.to_thread(reward, ["qa", "qb"], ["q", "q"], ["x"])
    with pytest.raises(ValueError, match="prompt is empty"):
        await asyncio.to_thread(reward, ["a"], [""], ["x"])
    said = await asyncio.to_thread(reward, ["qa", "qa"], ["q", "q"], None)
    assert sorted(said["rewards"]) == sorted(rewards_of("q", ["a", "a"]))
    assert (await asyncio.to_thread(reward, [], []))["rewards"] == []
    assert reward.texts(None, "q", None) == ("q", "")
    async with http_form(address, 2) as client:
        short = await client.post("/", json.dumps({"query": ["qa"], "prompts": ["q", "q"]}).encode())
    assert (short.status, b"equally many" in short.body) == (400, True)


@pytest.mark.parametrize("value", [None, "3", True, float("nan")])
def test_a_number_for_no_reward_is_checked_at_the_start(value: Any) -> None:
    """A9: not when the first judge fails."""
    with pytest.raises(ValueError, match="no_reward must be a finite number"):
        GroupReward(samples_per_prompt=2, no_reward=value)
