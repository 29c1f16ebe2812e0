"""TRL: a reward function for `GRPOTrainer` and its kin (docs/trainers/trl.md).

The trainer calls its reward functions once for each batch of generations, in every process, with that process's slice
of the batch. The G answers to a prompt are neighbours in the whole batch, but a slice may end in the middle of a group.
So each process works out where its answers sit. It sends a group that it has whole in one request; the members of
another meet at the server. `AsyncGRPOTrainer` calls them with a whole group instead, in a process without the trainer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, pairwise
from typing import Any, NamedTuple, Self
from uuid import uuid4

from groupjudge import AsyncClient, GroupFailed, JudgeFailure, Refusal

log = logging.getLogger(__name__)


_ALONE = "it is a group of one, and an answer is judged by comparison with others"


_AT_ONCE = 256
"""So many whole groups wait at once, each with a connection; a process may often have no more than 1,024 files."""


class Seat(NamedTuple):
    """Where an answer sits in the batch of all processes: its group's number, and its slot in the group."""

    group: int
    slot: int


def seats(rank: int, processes: int, length: int, group_size: int) -> list[Seat]:
    """The seats of the `length` answers that process `rank` of `processes` holds. Raises ValueError where the batch of
    all processes is not made of whole groups."""
    if length * processes % group_size:
        raise ValueError(
            f"{processes} processes with {length} answers each make no whole groups of {group_size}: the number of "
            "generations must divide the batch of all processes"
        )
    return [Seat(*divmod(position, group_size)) for position in range(rank * length, (rank + 1) * length)]


class GroupReward:
    """A reward function: `GRPOTrainer(reward_funcs=GroupReward("http://judge:8600"), ...)`.

    An answer without a reward, because the judge or its group failed or nobody was there to compare it with (a group of
    one), gets None, which the trainer leaves out of the update. A completion that is None is an empty answer.
    `groupjudge/left_out`, the share of such answers, is logged with the trainer's metrics. Whatever else goes
    wrong is raised, and so stops the training: see `groupjudge.Client`.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8600",
        *,
        token: str | None = None,
        deadline_s: float = 4000.0,
        principle: str | None = None,
        run: str | None = None,
        whole_groups: bool = False,
    ) -> None:
        """`base_url`, `token` and `deadline_s` (seconds that a batch may take) are the client's; `principle` goes to
        the judge. `run` begins the id of every group: it must be the same in all processes, and never used before.
        None: the first process makes one up, and tells the others. `whole_groups`: each call has all answers to one
        prompt, as those of `AsyncGRPOTrainer` have."""
        self.__name__ = "groupjudge"
        self._client = AsyncClient(base_url, token=token, deadline_s=deadline_s)
        self._principle = principle
        self._run = run
        self._whole_groups = whole_groups
        self._trainer: Any = None
        self._calls: Counter[str] = Counter()
        self._has_warned = False

    def attach(self, trainer: Any) -> Self:
        """Name the trainer that will call this, where it hands over no `log_metric` that is its own method."""
        self._trainer = trainer
        return self

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """A reward for each completion, None where there is none; the trainer calls it. Raises ValueError where the
        lists do not fit each other or the trainer, and what the client raises."""
        if len(prompts) != len(completions):
            raise ValueError(f"prompts and completions must be equally many, not {len(prompts)} and {len(completions)}")
        if not prompts:
            return []
        rewards = (
            self._group(prompts, completions) if self._whole_groups else self._slice(prompts, completions, log_metric)
        )
        if log_metric is not None:
            log_metric("groupjudge/left_out", rewards.count(None) / len(rewards))
        return rewards

    def _group(self, prompts: Sequence[Any], completions: Sequence[Any]) -> list[float | None]:
        """The rewards of answers that are a group."""
        if any(prompt != prompts[0] for prompt in prompts):
            raise ValueError("a call has different prompts, and is no group: whole_groups is not for this trainer")
        return _finished(self._whole(prompts[0], completions, f"{self._run or 'trl'}/{uuid4().hex}"))

    def _slice(self, prompts: Sequence[Any], completions: Sequence[Any], log_metric: object) -> list[float | None]:
        """The rewards of this process's answers."""
        trainer = self._trainer or getattr(log_metric, "__self__", None)
        if trainer is None:
            raise TypeError(
                "this trainer does not show itself to its reward functions: call GroupReward.attach(trainer), or "
                "GroupReward(..., whole_groups=True) where each call is a whole group, as AsyncGRPOTrainer's are"
            )
        mode, group_size = _mode_of(trainer)
        rank, processes = trainer.accelerator.process_index, trainer.accelerator.num_processes
        own = seats(rank, processes, len(prompts), group_size)
        _check_neighbours(own, prompts)
        batch = f"{self._run_id(processes)}/{mode}/{self._calls[mode]}"
        self._calls[mode] += 1
        return _finished(self._all(batch, group_size, list(zip(own, prompts, completions, strict=True))))

    async def _all(self, batch: str, size: int, rows: Sequence[tuple[Seat, Any, Any]]) -> list[float | None]:
        free = asyncio.Semaphore(_AT_ONCE)

        async def whole(prompt: Any, answers: Sequence[Any], group_id: str) -> list[float | None]:
            async with free:
                return await self._whole(prompt, answers, group_id)

        async def parts(members: Sequence[tuple[Seat, Any, Any]], group_id: str) -> list[float | None]:
            """At once, whatever else waits: another process waits for them."""
            calls = [self._member(prompt, answer, group_id, size, seat.slot) for seat, prompt, answer in members]
            return await asyncio.gather(*calls)

        calls = []
        for group, members in groupby(rows, lambda row: row[0].group):
            (_, prompt, _), *_ = own = list(members)
            group_id = f"{batch}/{group}"
            calls.append(
                whole(prompt, [answer for _, _, answer in own], group_id) if len(own) == size else parts(own, group_id)
            )
        return [reward for rewards in await asyncio.gather(*calls) for reward in rewards]

    def _run_id(self, processes: int) -> str:
        if self._run is None:
            names = [f"trl-{uuid4().hex}"]
            if processes > 1:
                from accelerate.utils import broadcast_object_list

                broadcast_object_list(names)
            self._run = names[0]
        return self._run

    async def _whole(self, prompt: Any, answers: Sequence[Any], group_id: str) -> list[float | None]:
        if len(answers) == 1:  # the server would answer with its default score
            self._warn(group_id, _ALONE)
            return [None]
        shown = ["" if answer is None else answer for answer in answers]
        try:
            judged = await self._client.judge(prompt, shown, group_id=group_id, principle=self._principle)
        except GroupFailed as error:
            self._warn(group_id, error.reason)
            return [None] * len(answers)
        except Refusal as error:
            raise self._known(group_id, error) from error
        for outcome in judged.outcomes:
            if isinstance(outcome, JudgeFailure):
                self._warn(group_id, outcome.reason)
        return judged.rewards

    async def _member(self, prompt: Any, answer: Any, group_id: str, size: int, slot: int) -> float | None:
        answer = "" if answer is None else answer
        try:
            outcome = await self._client.verify(
                prompt, answer, group_id=group_id, size=size, slot=slot, principle=self._principle
            )
        except GroupFailed as error:
            self._warn(group_id, error.reason)
            return None
        except Refusal as error:
            raise self._known(group_id, error) from error
        if isinstance(outcome, JudgeFailure):
            self._warn(group_id, outcome.reason)
        return outcome.reward

    def _known(self, group_id: str, error: Refusal) -> Refusal:
        return type(error)(
            f"the server knows group {group_id} already: run={self._run!r} was used before. Give each start a run of "
            f"its own, or none, and one is made up. ({error.code})"
        )

    def _warn(self, group_id: str, why: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "Group %s has no rewards: its answers are left out of the update. From now on only the metric "
                "groupjudge/left_out counts them. The reason was: %s",
                group_id,
                why,
            )


def _mode_of(trainer: Any) -> tuple[str, int]:
    """Train or eval, decided as the trainer does, and how many answers a prompt then gets."""
    if trainer.model.training:
        return "train", trainer.num_generations
    return "eval", getattr(trainer, "num_generations_eval", None) or trainer.num_generations


def _check_neighbours(own: Sequence[Seat], prompts: Sequence[Any]) -> None:
    """Raises ValueError where two answers of one group have different prompts."""
    for (before, first), (after, second) in pairwise(zip(own, prompts, strict=True)):
        if before.group == after.group and first != second:
            raise ValueError(
                f"slots {before.slot} and {after.slot} of one group have different prompts: this trainer does not lay "
                "out its batches prompt by prompt"
            )


def _finished(work: Coroutine[Any, Any, list[float | None]]) -> list[float | None]:
    """Run it to its end, in a notebook too, whose own event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work).result()
