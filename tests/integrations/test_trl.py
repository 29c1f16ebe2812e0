"""TRL's reward function without TRL: where answers sit, ids, answers without a reward (A5, A7)."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import pickle
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from tests.e2e.groups import rewards_of
from tests.e2e.serving import ROOT, SRC, Server, environment

from groupjudge import AsyncClient, DeadlinePassed, Refusal, Rewarded
from groupjudge.integrations.trl import GroupReward, Seat, seats

from .conftest import REFUSED, PickyJudge


class Trainer:
    """What the reward function looks at of a trainer."""

    def __init__(self, rank: int = 0, processes: int = 1, *, training: bool = True) -> None:
        self.accelerator = SimpleNamespace(process_index=rank, num_processes=processes)
        self.model = SimpleNamespace(training=training)
        self.num_generations, self.num_generations_eval = 4, 2
        self.metrics: list[tuple[str, float]] = []

    def log_metric(self, name: str, value: float) -> None:
        self.metrics.append((name, value))

    async def calls(self, reward: GroupReward, prompts: list[Any], completions: list[Any]) -> list[float | None]:
        """As the trainer calls it, in a thread that has no loop."""
        return await asyncio.to_thread(
            reward, prompts=prompts, completions=completions, completion_ids=[], log_metric=self.log_metric
        )


def expected(prompts: list[str], completions: list[str], size: int) -> list[float]:
    groups = range(0, len(prompts), size)
    return [reward for at in groups for reward in rewards_of(prompts[at], completions[at : at + size])]


PROMPTS = ["q0"] * 4 + ["q1"] * 4 + ["q2"] * 4
COMPLETIONS = [f"answer {number}" for number in range(12)]


def test_a_seat_follows_from_the_place_in_the_batch_of_all_processes() -> None:
    """A7: position = rank * local length + i, group = position // G, slot = position % G."""
    assert seats(0, 2, 6, 4) == [Seat(0, 0), Seat(0, 1), Seat(0, 2), Seat(0, 3), Seat(1, 0), Seat(1, 1)]
    assert seats(1, 2, 6, 4) == [Seat(1, 2), Seat(1, 3), Seat(2, 0), Seat(2, 1), Seat(2, 2), Seat(2, 3)]


def test_a_batch_without_room_for_whole_groups_is_refused() -> None:
    """A7: a group that can never fill would wait until its deadline."""
    with pytest.raises(ValueError, match="2 processes with 3 answers each make no whole groups of 4"):
        seats(0, 2, 3, 4)


async def test_members_of_a_group_meet_though_they_sit_in_two_processes(address: str) -> None:
    """A7: each slice gets the rewards of its own answers."""
    slices = [(PROMPTS[:6], COMPLETIONS[:6]), (PROMPTS[6:], COMPLETIONS[6:])]
    ranks = [Trainer(rank, 2).calls(GroupReward(address, run="two"), *slices[rank]) for rank in (0, 1)]
    first, second = await asyncio.gather(*ranks)
    assert [*first, *second] == expected(PROMPTS, COMPLETIONS, 4)


async def test_a_process_with_few_files_gets_all_rewards(server: Server) -> None:
    """A7: answers that wait hold no connections that those lack on which their groups wait."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64));"
        "from tests.integrations.test_trl import Trainer; from groupjudge.integrations.trl import GroupReward;"
        "prompts = [f'q{place // 4}' for place in range(200)];"
        "reward = GroupReward(sys.argv[1], deadline_s=100);"
        "print(reward(prompts, list(map(str, range(200))), log_metric=Trainer().log_metric))"
    )
    env = environment(PYTHONPATH=f"{SRC}:{ROOT}")
    command = (sys.executable, "-c", code, server.address)
    process = await asyncio.create_subprocess_exec(*command, env=env, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    prompts = [f"q{place // 4}" for place in range(200)]
    assert json.loads(said) == expected(prompts, list(map(str, range(200))), 4)


async def test_every_call_makes_groups_of_its_own(address: str, judge: PickyJudge) -> None:
    """A7: the counter keeps the batches of a run apart, also where nothing but the answers changed."""
    reward, trainer = GroupReward(address, run="counted"), Trainer()
    for batch in ("one", "two"):
        answers = [f"{batch} {number}" for number in range(4)]
        assert await trainer.calls(reward, ["q"] * 4, answers) == rewards_of("q", answers)


async def test_training_and_evaluation_never_share_a_group(address: str) -> None:
    """A7: each has its own counter, and its own group size."""
    reward = GroupReward(address, run="modes")
    answers = ["a", "b", "c", "d"]
    trained = await Trainer().calls(reward, ["q"] * 4, answers)
    evaluated = await Trainer(training=False).calls(reward, ["q"] * 4, answers)
    assert trained == rewards_of("q", answers)
    assert evaluated == [*rewards_of("q", answers[:2]), *rewards_of("q", answers[2:])]


async def test_the_id_of_a_group_names_run_mode_call_and_group(address: str) -> None:
    """A7: whoever knows the id finds the group at the server."""
    await Trainer().calls(GroupReward(address, run="named"), PROMPTS, COMPLETIONS)
    again = await AsyncClient(address).verify("q2", "answer 9", group_id="named/train/0/2", size=4, slot=1)
    assert again == Rewarded(rewards_of("q2", COMPLETIONS[8:])[1], 1)


async def test_two_trainings_never_share_an_id(address: str) -> None:
    """A7: without a run of the user's, each function makes one up."""
    for answers in (["a", "b", "c", "d"], ["e", "f", "g", "h"]):
        assert await Trainer().calls(GroupReward(address), ["q"] * 4, answers) == rewards_of("q", answers)


async def test_answers_without_a_reward_are_none(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """A5, A7: None is how TRL leaves an answer out; one warning says so, a metric counts."""
    trainer, reward = Trainer(), GroupReward(address, run="left-out")
    prompts = [f"one that {REFUSED}"] * 4 + ["q1"] * 4
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert await trainer.calls(reward, prompts, COMPLETIONS[:8]) == [
                *[None] * 4,
                *rewards_of("q1", COMPLETIONS[4:8]),
            ]
    assert trainer.metrics == [("groupjudge/left_out", 0.5)] * 2
    (record,) = [record for record in caplog.records if record.name == "groupjudge.integrations.trl"]
    assert "left-out/train/0/0 has no rewards" in record.getMessage()


async def test_messages_are_judged_as_their_texts(address: str) -> None:
    """A7: conversational prompts and completions."""
    prompts = [[{"role": "user", "content": "q"}]] * 4
    completions = [[{"role": "assistant", "content": text}] for text in "abcd"]
    rewards = await Trainer().calls(GroupReward(address), prompts, completions)
    assert rewards == rewards_of("q", list("abcd"))


@pytest.mark.parametrize("whole_groups", [False, True])
async def test_prompts_may_hold_images(address: str, whole_groups: bool) -> None:
    """A7, J21: as the trainer of a model that sees puts them there; the judge is shown that there is one."""
    parts = [{"type": "image", "image": object()}, {"type": "text", "text": "q"}]
    completions = [[{"role": "assistant", "content": [{"type": "text", "text": text}]}] for text in "abcd"]
    reward = GroupReward(address, whole_groups=whole_groups)
    rewards = await Trainer().calls(reward, [[{"role": "user", "content": parts}]] * 4, completions)
    assert rewards == rewards_of("[image]q", list("abcd"))


async def test_a_batch_that_is_not_laid_out_by_prompt_is_refused(address: str) -> None:
    """A7: nothing is judged against answers to another question."""
    with pytest.raises(ValueError, match="slots 1 and 2 of one group have different prompts"):
        await Trainer().calls(GroupReward(address), ["q", "q", "r", "r"], list("abcd"))


async def test_it_works_where_a_loop_runs_already(address: str) -> None:
    """A7: a notebook runs one in its main thread."""

    async def cell() -> list[float | None]:
        return GroupReward(address)(["q"] * 4, list("abcd"), log_metric=Trainer().log_metric)

    assert await asyncio.to_thread(asyncio.run, cell()) == rewards_of("q", list("abcd"))


async def test_a_trainer_may_be_named(address: str) -> None:
    """A7: where `log_metric` is missing or not the trainer's own."""
    reward = GroupReward(address)
    with pytest.raises(TypeError, match="attach"):
        await asyncio.to_thread(reward, ["q"] * 4, list("abcd"))
    rewards = await asyncio.to_thread(reward.attach(Trainer()), ["q"] * 4, list("abcd"))
    assert rewards == rewards_of("q", list("abcd"))


async def test_a_server_that_is_not_there_stops_the_training() -> None:
    """A5: only a judge or a group that failed leaves answers out."""
    with pytest.raises(DeadlinePassed):
        await Trainer().calls(GroupReward("http://127.0.0.1:9", deadline_s=0.3), ["q"] * 4, list("abcd"))


@pytest.mark.parametrize("training", [True, False])
async def test_a_group_of_one_has_no_reward(address: str, caplog: pytest.LogCaptureFixture, training: bool) -> None:
    """A5, L9: the default score is no judgement; one warning says so."""
    trainer, reward = Trainer(training=training), GroupReward(address)
    trainer.num_generations = trainer.num_generations_eval = 1
    for _ in range(2):
        assert await trainer.calls(reward, ["q", "r"], ["a", "b"]) == [None, None]
    assert trainer.metrics == [("groupjudge/left_out", 1.0)] * 2
    assert caplog.text.count("group of one") == 1


async def test_lists_that_do_not_fit_are_named(address: str, recwarn: pytest.WarningsRecorder) -> None:
    """A7: nothing is begun that nobody waits for; nothing asked, nothing said."""
    trainer, reward = Trainer(), GroupReward(address)
    with pytest.raises(ValueError, match="equally many, not 4 and 3"):
        await trainer.calls(reward, ["q"] * 4, list("abc"))
    gc.collect()
    assert [one for one in recwarn if "never awaited" in str(one.message)] == []
    assert await trainer.calls(reward, [], []) == []


async def test_a_completion_that_is_none_is_an_empty_answer(address: str) -> None:
    """A7."""
    empty, none = [
        await Trainer().calls(GroupReward(address), ["q"] * 4, ["a", answer, "c", "d"]) for answer in ("", None)
    ]
    assert empty == none
    assert None not in none


async def test_a_run_that_was_used_before_is_named(address: str) -> None:
    """A7: the trainer's user sets no attempt; what may be changed is the run."""
    await Trainer().calls(GroupReward(address, run="used"), ["q"] * 4, list("abcd"))
    for answers in (list("efgh"), list("dcba")):
        with pytest.raises(Refusal, match="run='used' was used before") as raised:
            await Trainer().calls(GroupReward(address, run="used"), ["q"] * 4, answers)
        assert "_ng_group_attempt" not in str(raised.value)


async def test_a_call_may_be_a_whole_group(address: str) -> None:
    """A7: as `AsyncGRPOTrainer` calls, in threads of another process, with no word of the trainer; groups of one prompt
    that are there at the same time are groups of their own."""
    reward = pickle.loads(pickle.dumps(GroupReward(address, whole_groups=True)))
    groups = [[f"{group} {number}" for number in range(size)] for group, size in enumerate((3, 5, 2))]
    calls = [
        asyncio.to_thread(reward, prompts=["q"] * len(group), completions=group, completion_ids=[], answer=group)
        for group in groups
    ]
    assert await asyncio.gather(*calls) == [rewards_of("q", group) for group in groups]


async def test_a_whole_group_without_rewards_is_none(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """A5: whatever the reason is; one warning says so, and a trainer that counts gets the share."""
    trainer, reward = Trainer(), GroupReward(address, whole_groups=True)
    assert await trainer.calls(reward, [f"one that {REFUSED}"] * 3, ["a", "b", None]) == [None] * 3
    assert await trainer.calls(reward, ["q"], ["a"]) == [None]
    assert await trainer.calls(reward, ["q"] * 2, ["a", None]) == rewards_of("q", ["a", "None"])
    assert trainer.metrics == [("groupjudge/left_out", share) for share in (1.0, 1.0, 0.0)]
    assert caplog.text.count("has no rewards") == 1


async def test_a_call_that_is_no_whole_group_is_refused(address: str) -> None:
    """A7: answers to two questions are never compared."""
    with pytest.raises(ValueError, match="whole_groups"):
        await Trainer().calls(GroupReward(address, whole_groups=True), ["q", "q", "r", "r"], list("abcd"))
    with pytest.raises(TypeError, match="whole_groups=True"):
        await asyncio.to_thread(GroupReward(address), ["q"] * 4, list("abcd"))
