"""verifiers: a group reward for rubrics (up to 0.1), and a hook for environments of verifiers.v1.

The page is docs/trainers/verifiers.md. Both hold all answers of a group, so one request judges it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any
from uuid import uuid4

from groupjudge import AsyncClient, GroupFailed, Judged, JudgeFailure

log = logging.getLogger(__name__)

NAME = "groupjudge"


class NoReward(Exception):
    """The judge gave this group no rewards; verifiers.v1 fails the episode, which it may try again."""


class GroupReward:
    """Up to verifiers 0.1: `vf.Rubric(funcs=[GroupReward("http://judge:8600")])`. In verifiers.v1: an environment's
    `finalize` awaits `judge_episode(task, episode)`.

    `question` and `answer` say what the judge is shown of a v1 task and a v1 trace: by default the task's prompt and
    the trace's last reply. An answer that is None is an empty one.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8600",
        *,
        token: str | None = None,
        deadline_s: float = 4000.0,
        principle: str | None = None,
        question: Callable[[Any], Any] | None = None,
        answer: Callable[[Any], Any] | None = None,
    ) -> None:
        self.__name__ = NAME
        self._client = AsyncClient(base_url, token=token, deadline_s=deadline_s)
        self._principle = principle
        self._question = question or prompt_of
        self._answer = answer or _last_reply
        self._has_warned = False

    async def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], states: Sequence[MutableMapping[str, Any]]
    ) -> list[float]:
        """The rewards of a group; a rubric calls it.

        A rollout that has an `error` already is not judged, and gets the mean of the others. Where the group has no
        rewards, or one answer only, which nobody compared, `error` is set on all its states, and all get 0.0, since a
        rubric knows no other way. Raises ValueError, and sets `error` too, where the lists make no group.
        """
        try:
            _check_group(prompts, completions, states)
        except ValueError as error:
            self._mark(states, error)
            raise
        sound = [place for place, state in enumerate(states) if state.get("error") is None]
        if not sound:
            return [0.0] * len(states)
        try:
            judged = await self._judged(plain(prompts[sound[0]]), [plain(completions[place]) for place in sound])
        except Exception as error:  # a rubric would make zeros of it, and nobody would know
            self._mark(states, error)
            return [0.0] * len(states)
        return self._spread(judged, sound, len(states))

    async def judge_episode(self, task: Any, episode: Any) -> None:
        """Record the reward of each trace of an episode that ran well. Raises NoReward, also where only one did, or
        what the client raises."""
        traces = [trace for trace in episode.traces if trace.ok]
        if not traces:
            return
        judged = await self._judged(self._question(task), [self._answer(trace) for trace in traces])
        for trace, reward in zip(traces, judged, strict=True):
            trace.record_reward(NAME, reward)

    async def _judged(self, question: Any, answers: Sequence[Any]) -> list[float]:
        if len(answers) < 2:  # the server would answer with its default score
            raise NoReward("only one answer of the group is there, and it is judged by comparison with others")
        shown = ["" if answer is None else answer for answer in answers]
        try:
            judged: Judged = await self._client.judge(
                question, shown, group_id=f"verifiers-{uuid4().hex}", principle=self._principle
            )
        except GroupFailed as error:
            raise NoReward(error.reason) from error
        rewards = []
        for outcome in judged.outcomes:
            if isinstance(outcome, JudgeFailure):
                raise NoReward(outcome.reason)
            rewards.append(outcome.reward)
        return rewards

    def _spread(self, judged: Sequence[float], sound: Sequence[int], size: int) -> list[float]:
        rewards = [sum(judged) / len(judged)] * size
        for place, reward in zip(sound, judged, strict=True):
            rewards[place] = reward
        return rewards

    def _mark(self, states: Sequence[MutableMapping[str, Any]], error: Exception) -> None:
        for state in states:
            if state.get("error") is None:
                named = f"{type(error).__name__}: {error}"
                state["error"] = {"error": type(error).__name__, "error_chain_repr": named, "error_chain_str": named}
        if not self._has_warned or not isinstance(error, NoReward):
            self._has_warned = True
            log.warning("A group has no rewards: its states carry an `error` and 0.0. The reason: %s", error)


def _check_group(prompts: Sequence[Any], completions: Sequence[Any], states: Sequence[Any]) -> None:
    """Raises ValueError where these are not the answers to one prompt."""
    counts = {"prompts": len(prompts), "completions": len(completions), "states": len(states)}
    if len(set(counts.values())) > 1:
        raise ValueError(f"prompts, completions and states must be equally many, not {counts}")
    if any(plain(prompt) != plain(prompts[0]) for prompt in prompts):
        raise ValueError("the rollouts of one group have different prompts: a group is the answers to one prompt")


def _last_reply(trace: Any) -> Any:
    return trace.last_reply


def prompt_of(task: Any) -> Any:
    """The question that a v1 task puts: its prompt, after its system prompt."""
    data = task.data
    prompt = plain(data.prompt if data.prompt is not None else "")
    system = getattr(data, "system_prompt", None)
    if not system:
        return prompt
    said = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    return [{"role": "system", "content": system}, *said]


def plain(messages: Any) -> Any:
    """A text, or messages as mappings: verifiers has them as models of its own."""
    if messages is None:
        return ""
    if isinstance(messages, str):
        return messages
    return [
        message if isinstance(message, Mapping) else message.model_dump(mode="json", exclude_none=True)
        for message in messages
    ]
