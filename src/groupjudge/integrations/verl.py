"""verl: a reward manager (docs/trainers/verl.md).

verl asks its reward managers for one sample at a time, in any of several worker processes. A sample knows its group, by
its `uid`, and in newer trainers its slot, by its `session_id`; the members of a group meet at the server.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from groupjudge import AsyncClient, GroupFailed, JudgeFailure, Refusal

try:
    from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
except ModuleNotFoundError:  # where this is tested without verl
    RewardManagerBase = object

log = logging.getLogger(__name__)

LEFT_OUT = "groupjudge_left_out"
_KNOWN = {"base_url", "token", "deadline_s", "principle", "no_reward"}


class NoReward(Exception):
    """A sample has no reward, and `no_reward` is null: verl must not go on as if it had one."""


class GroupRewardManager(RewardManagerBase):  # type: ignore[misc]  # verl is not there to be typed
    """Named by `reward.reward_manager`; its own settings are in `reward.reward_kwargs.groupjudge`:

    `base_url`, `token` and `deadline_s` are the client's, `principle` goes to the judge, `no_reward` (3.0) is what all
    members of a group without rewards get, and the answer of a group of one, which nobody compared; null: raise
    NoReward. Raises ValueError for settings that will not do.
    """

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        compute_score: Any = None,
        reward_router_address: str | None = None,
        reward_model_tokenizer: Any = None,
    ) -> None:
        if RewardManagerBase is not object:
            super().__init__(config, tokenizer, compute_score)
        own = dict((config.reward.get("reward_kwargs") or {}).get("groupjudge") or {})
        if unknown := set(own) - _KNOWN:
            raise ValueError(f"reward.reward_kwargs.groupjudge: unknown {sorted(unknown)}; there are {sorted(_KNOWN)}")
        self.tokenizer = tokenizer
        self._rollout = config.actor_rollout_ref.rollout
        self._client = AsyncClient(
            own.get("base_url", "http://127.0.0.1:8600"),
            token=own.get("token"),
            deadline_s=own.get("deadline_s", 4000.0),
        )
        self._principle = own.get("principle")
        self._no_reward = _checked(own.get("no_reward", 3.0))
        self._has_warned = False

    async def run_single(self, data: Any) -> dict[str, Any]:
        """The reward of the last row of `data`, once its group is judged."""
        row = data[-1:][0]
        fields = row.non_tensor_batch
        if "uid" not in fields:
            raise ValueError("the sample has no `uid`, so nobody knows its group: use a trainer that gives it one")
        size = self._size(fields)
        if size == 1:  # the server would answer with its default score
            return self._left_out("a group of one: an answer is judged by comparison with others")
        answer = await asyncio.to_thread(self._answer, row)
        place = _place(fields)
        try:
            outcome = await self._client.verify(
                _question(fields),
                answer,
                group_id=str(fields["uid"]),
                size=size,
                principle=self._principle,
                **place,
            )
        except GroupFailed as error:
            return self._left_out(error.reason)
        except Refusal as error:
            if error.code == "answer_conflict":
                raise ValueError(
                    f"two samples with uid {fields['uid']!r} and session_id {place.get('slot')} have different answers"
                    ": each sample of a prompt needs a session_id of its own, each prompt of a run a uid of its own"
                ) from error
            if error.code == "group_closed" and "member_id" in place:
                raise ValueError(
                    f"there are more than {size} samples with uid {fields['uid']!r}, and none says its session_id. Is "
                    "the batch padded? Let its number of samples be a multiple of the number of workers. ReMax's "
                    "greedy sample is one too many as well"
                ) from error
            raise
        if isinstance(outcome, JudgeFailure):
            return self._left_out(outcome.reason)
        return {"reward_score": outcome.reward, "reward_extra_info": {LEFT_OUT: 0.0}}

    def _answer(self, row: Any) -> str:
        """The response without its padding. Beside longer sequences of its sample the mask ends behind the response, so
        verl says how long that is."""
        ids = row.batch["responses"]
        length = row.non_tensor_batch.get("response_len")
        if length is None:
            length = row.batch["attention_mask"][-ids.shape[-1] :].sum()
        return str(self.tokenizer.decode(ids[: int(length)], skip_special_tokens=True))

    def _size(self, fields: Mapping[str, Any]) -> int:
        """verl does not tell a manager whether it validates. Its own data sets say so of each row."""
        said = fields.get("extra_info")
        split = said.get("split") if isinstance(said, Mapping) else None
        return int(self._rollout.n if split in (None, "train") else self._rollout.val_kwargs.n)

    def _left_out(self, why: str) -> dict[str, Any]:
        if self._no_reward is None:
            raise NoReward(why)
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "verl cannot leave out a sample without a reward. All members of such a group get %s, so that none has "
                "an advantage in it; %s counts them from now on. The reason was: %s",
                self._no_reward,
                LEFT_OUT,
                why,
            )
        return {"reward_score": float(self._no_reward), "reward_extra_info": {LEFT_OUT: 1.0}}


def _checked(no_reward: Any) -> float | None:
    if no_reward is None:
        return None
    if isinstance(no_reward, bool) or not isinstance(no_reward, int | float) or not math.isfinite(no_reward):
        raise ValueError(
            f"reward.reward_kwargs.groupjudge.no_reward must be a finite number, or null to raise, not {no_reward!r}"
        )
    return float(no_reward)


def _place(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The slot, where the trainer counts its samples; else a name of the call's own."""
    session = fields.get("session_id")
    return {"member_id": uuid4().hex} if session is None else {"slot": int(session)}


def _question(fields: Mapping[str, Any]) -> Any:
    """The messages that the model was asked with."""
    prompt = fields.get("raw_prompt")
    if prompt is None:
        raise ValueError("the sample has no `raw_prompt`: set data.return_raw_chat=True")
    return prompt if isinstance(prompt, str) else [dict(message) for message in prompt]
