"""slime and miles: a group reward for `--group-rm` (docs/trainers/slime.md).

    --custom-rm-path groupjudge.integrations.slime.reward --group-rm

The trainer hands over all samples of a group, so one request judges it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from groupjudge import AsyncClient, GroupFailed, Judged

log = logging.getLogger(__name__)

_UNFINISHED = ("aborted", "failed", "pending")
_warned: list[str] = []


async def reward(args: Any, samples: Sequence[Any], **_: object) -> list[float]:
    """The rewards of a group, in order. The server is `args.groupjudge_url`, else the environment's REWARD_SERVER, else
    http://127.0.0.1:8600; `args.groupjudge_token`, `args.groupjudge_principle` and `args.groupjudge_deadline_s` (4000)
    are its token, what goes to the judge, and the seconds that a group may take.

    A sample without a reward gets `remove_sample`, which leaves it out of the loss, and the mean of the others: one
    that was not finished, all of a group whose judge failed, and one that is alone: nobody compared it. A response that
    is None is an empty answer. Raises ValueError where `samples` are no group (without --group-rm, or with different
    prompts, or where one is a list), and what `AsyncClient.judge` raises.
    """
    if not getattr(args, "group_rm", True):
        raise ValueError("--group-rm is missing: without it the trainer asks for the rewards of single answers")
    if any(isinstance(sample, Sequence) for sample in samples):
        raise ValueError(
            "an answer came as a list of samples, and the trainer sets no reward of --group-rm on a list: let the "
            "function that made them set their rewards"
        )
    if any(sample.prompt != samples[0].prompt for sample in samples):
        raise ValueError("the samples of one group have different prompts: --group-rm hands over one prompt's samples")
    finished = [place for place, sample in enumerate(samples) if _status(sample) not in _UNFINISHED]
    rewards = await _judged(args, [samples[place] for place in finished])
    given = {place: reward for place, reward in zip(finished, rewards, strict=True) if reward is not None}
    mean = sum(given.values()) / len(given) if given else 0.0
    for place, sample in enumerate(samples):
        if place not in given:
            sample.remove_sample = True
    return [given.get(place, mean) for place in range(len(samples))]


async def _judged(args: Any, samples: Sequence[Any]) -> list[float | None]:
    if len(samples) < 2:  # the server would answer with its default score
        if samples:
            _warn("only one sample of the group is finished, and an answer is judged by comparison with others")
        return [None] * len(samples)
    url = getattr(args, "groupjudge_url", None) or os.environ.get("REWARD_SERVER") or "http://127.0.0.1:8600"
    client = AsyncClient(
        url,
        token=getattr(args, "groupjudge_token", None),
        deadline_s=getattr(args, "groupjudge_deadline_s", None) or 4000.0,
    )
    try:
        judged: Judged = await client.judge(
            samples[0].prompt,
            ["" if sample.response is None else sample.response for sample in samples],
            group_id=f"slime-{uuid4().hex}",
            principle=getattr(args, "groupjudge_principle", None),
        )
    except GroupFailed as error:
        _warn(error.reason)
        return [None] * len(samples)
    if None in judged.rewards:
        _warn(next(str(outcome.reason) for outcome in judged.outcomes if outcome.reward is None))
    return judged.rewards


def _status(sample: Any) -> str:
    """The name of an enumeration's member, or a text."""
    return str(getattr(sample.status, "value", sample.status)).lower()


def _warn(why: str) -> None:
    if not _warned:
        _warned.append(why)
        log.warning(
            "A group has no rewards: its samples get remove_sample, which leaves them out of the loss. Further ones "
            "are not logged. The reason was: %s",
            why,
        )
