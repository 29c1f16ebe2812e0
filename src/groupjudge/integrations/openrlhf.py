"""OpenRLHF: a `reward_func` for `--reward.remote_url FILE.py`, and the same as a server (docs/trainers/openrlhf.md).

OpenRLHF asks for one answer's reward at a time and says neither its group nor its slot. All answers to a prompt are
made in one process, so that process puts them into groups: N in the order in which they come.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any, NamedTuple
from uuid import uuid4

from aiohttp import web

from groupjudge import AsyncClient, Client, GroupFailed, JudgeFailure, Outcome

log = logging.getLogger(__name__)

END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<end_of_turn>", "</s>", "<eos>")
_THREADS = 1024
_HUNG_UP_S = 60.0
_LEAST_FOUND = 8
"""So many characters of a prompt's end must at least be found in a query."""
_BEGINNING = re.compile("(<[^<>]*>|\ufffd)*")
"""What may stand before a prompt whose beginning is cut off: tokens that begin a text, a part of a character."""


class Seat(NamedTuple):
    """Which group an answer belongs to, and the name of its member."""

    group_id: str
    member_id: str


class Arrivals:
    """Puts the answers to each prompt into groups of `size` as they come. Threads may share it."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"samples_per_prompt must be >= 1, not {size}")
        self._size = size
        self._run = f"openrlhf-{uuid4().hex}"
        self._numbers = count()
        self._open: dict[str, tuple[str, int]] = {}
        self._lock = threading.Lock()

    def seat(self, prompt: str) -> Seat:
        """A new member of the prompt's group that is not full yet."""
        with self._lock:
            group_id, taken = self._open.pop(prompt, ("", 0))
            group_id = group_id or f"{self._run}/{next(self._numbers)}"
            if taken + 1 < self._size:
                self._open[prompt] = group_id, taken + 1
        return Seat(group_id, uuid4().hex)

    def failed(self, prompt: str, group_id: str) -> None:
        """Let no more answers into a group that failed."""
        with self._lock:
            if self._open.get(prompt, ("", 0))[0] == group_id:
                del self._open[prompt]


class _Adapter:
    """What both forms share."""

    def __init__(
        self,
        samples_per_prompt: int,
        no_reward: float = 3.0,
        end_tokens: Sequence[str] = END_TOKENS,
        question: Callable[[str, Any], str] | None = None,
    ) -> None:
        if isinstance(no_reward, bool) or not isinstance(no_reward, int | float) or not math.isfinite(no_reward):
            raise ValueError(f"no_reward must be a finite number, not {no_reward!r}")
        self.size = samples_per_prompt
        self.arrivals = Arrivals(samples_per_prompt)
        self._no_reward = no_reward
        self._end_tokens = tuple(end_tokens)
        self._question = question or (lambda prompt, label: prompt)
        self._has_warned = False

    def texts(self, query: str | None, prompt: str, label: object) -> tuple[str, str]:
        """Question and answer: `query` is the prompt and the answer behind it, with whatever special tokens; None is
        an empty answer. Raises ValueError."""
        if not prompt:
            raise ValueError("the prompt is empty: answers are put into groups by their prompts, so each needs one")
        if query is None:
            return self._question(prompt, label), ""
        answer = answer_in(query, prompt)
        while ending := next((token for token in self._end_tokens if answer.endswith(token)), None):
            answer = answer.removesuffix(ending)
        return self._question(prompt, label), answer

    def said(self, outcome: Outcome | GroupFailed) -> tuple[float, float]:
        """The number to hand over, and whether it stands for no reward (1.0)."""
        if not isinstance(outcome, JudgeFailure | GroupFailed):
            return outcome.reward, 0.0
        return self.left_out(outcome.reason)

    def left_out(self, why: str) -> tuple[float, float]:
        """The same for an answer without a reward."""
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "OpenRLHF cannot leave out an answer without a reward. All members of such a group get %s, so that "
                "none has an advantage in it; groupjudge_left_out counts them from now on. The reason was: %s",
                self._no_reward,
                why,
            )
        return self._no_reward, 1.0


def answer_in(query: str, prompt: str) -> str:
    """What follows the prompt in a query. The query went through the model's tokens: the beginning of a long prompt may
    be cut off there, and a tokenizer may have changed a character, or put in what stands for an image. So where the
    whole prompt is not found, as much of its end as there is. Raises ValueError where that is next to nothing."""
    _, found, answer = query.partition(prompt)
    if found:
        return answer
    least, most = 0, len(prompt)
    while least < most:  # if an end is there, so are the shorter ones
        middle = (least + most + 1) // 2
        least, most = (middle, most) if prompt[-middle:] in query else (least, middle - 1)
    if least < min(_LEAST_FOUND, len(prompt)):
        raise ValueError(f"the query does not hold its prompt: {query[:200]!r}")
    ends = [match.end() for match in re.finditer(re.escape(prompt[-least:]), query)]
    if _BEGINNING.fullmatch(query[: ends[0] - least]):  # all before it was cut off
        return query[ends[0] :]
    return query[min(ends, key=lambda end: abs(end - len(prompt))) :]


ALONE = "groups of one: an answer is judged by comparison with others (samples_per_prompt)"
"""The server would answer with its default score."""


def rows(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any] | None) -> list[tuple[str, str, Any]]:
    """The lists side by side; labels may be missing. Raises ValueError where they are not equally long."""
    told = [None] * len(queries) if labels is None else labels
    if not len(queries) == len(prompts) == len(told):
        counts = f"{len(queries)}, {len(prompts)} and {len(told)}"
        raise ValueError(f"queries, prompts and labels must be equally many, not {counts}")
    return list(zip(queries, prompts, told, strict=True))


def reply(said: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """What OpenRLHF reads."""
    rewards = [reward for reward, _ in said]
    return {"rewards": rewards, "scores": rewards, "extra_logs": {"groupjudge_left_out": [flag for _, flag in said]}}


class GroupReward(_Adapter):
    """`reward_func = GroupReward("http://judge:8600", samples_per_prompt=8)`, in the file of `--reward.remote_url`.

    `samples_per_prompt`: `--rollout.n_samples_per_prompt`, which `--eval.n_samples_per_prompt` must equal.
    `no_reward`: what the members of a group without rewards get, all the same. `end_tokens` are cut off the end of
    answers. `question` makes what the judge is shown out of a prompt and its label; by default the prompt as it is.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8600",
        *,
        samples_per_prompt: int,
        token: str | None = None,
        deadline_s: float = 4000.0,
        principle: str | None = None,
        no_reward: float = 3.0,
        end_tokens: Sequence[str] = END_TOKENS,
        question: Callable[[str, Any], str] | None = None,
    ) -> None:
        super().__init__(samples_per_prompt, no_reward, end_tokens, question)
        self._client = Client(base_url, token=token, deadline_s=deadline_s)
        self._principle = principle
        make_room()

    def __call__(
        self, queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        """The rewards of some answers; OpenRLHF calls it with one, in a thread of its own."""
        try:
            asked = rows(queries, prompts, labels)
            with ThreadPoolExecutor(max_workers=max(1, len(asked))) as threads:
                return reply(list(threads.map(self._one, *zip(*asked, strict=True)) if asked else []))
        except Exception:
            log.exception("No reward for an answer; OpenRLHF goes on without one, and fails later")
            raise

    def _one(self, query: str, prompt: str, label: object) -> tuple[float, float]:
        question, answer = self.texts(query, prompt, label)
        if self.size == 1:
            return self.left_out(ALONE)
        seat = self.arrivals.seat(prompt)
        try:
            outcome = self._client.verify(question, answer, size=self.size, principle=self._principle, **seat._asdict())
        except GroupFailed as error:
            self.arrivals.failed(prompt, seat.group_id)
            return self.said(error)
        return self.said(outcome)


def make_room() -> None:
    """Let enough calls wait at once. OpenRLHF calls a reward function in the event loop's default threads, some 32 at
    most; once these all wait for the rest of their groups, the rest finds no thread. While the file is loaded, the
    loop runs."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    loop.set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="groupjudge"))


def application(server: AsyncClient, adapter: _Adapter) -> web.Application:
    """The HTTP form. A try that hung up is known again by its texts, if it comes back within a minute."""
    hung_up: defaultdict[tuple[str, str], list[tuple[float, Seat]]] = defaultdict(list)

    def seat_of(query: str, prompt: str) -> Seat:
        earlier = hung_up.pop((prompt, query), [])
        recent = [(when, seat) for when, seat in earlier if when > time.monotonic() - _HUNG_UP_S]
        if not recent:
            return adapter.arrivals.seat(prompt)
        _, seat = recent.pop()
        if recent:
            hung_up[prompt, query] = recent
        return seat

    async def one(query: str, prompt: str, label: object) -> tuple[float, float]:
        question, answer = adapter.texts(query, prompt, label)
        if adapter.size == 1:
            return adapter.left_out(ALONE)
        seat = seat_of(query, prompt)
        try:
            outcome = await server.verify(question, answer, size=adapter.size, **seat._asdict())
        except GroupFailed as error:
            adapter.arrivals.failed(prompt, seat.group_id)
            return adapter.said(error)
        except asyncio.CancelledError:
            hung_up[prompt, query].append((time.monotonic(), seat))
            raise
        return adapter.said(outcome)

    async def rewards(request: web.Request) -> web.Response:
        body = await request.json()
        try:
            asked = rows(body["query"], body["prompts"], body.get("labels") or None)
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        calls = [one(*texts) for texts in asked]
        return web.json_response(reply(await asyncio.gather(*calls)))

    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/{path:.*}", rewards)
    return app


def main() -> None:
    """`python -m groupjudge.integrations.openrlhf`: serve the HTTP form."""
    options = argparse.ArgumentParser(prog="python -m groupjudge.integrations.openrlhf")
    options.add_argument("--server", default="http://127.0.0.1:8600", help="groupjudge's address")
    options.add_argument("--token", help="its server.auth_token")
    options.add_argument("--samples-per-prompt", type=int, required=True, help="--rollout.n_samples_per_prompt")
    options.add_argument("--no-reward", type=float, default=3.0, help="for all members of a group without rewards")
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=5000)
    chosen = options.parse_args()
    app = application(
        AsyncClient(chosen.server, token=chosen.token), _Adapter(chosen.samples_per_prompt, chosen.no_reward)
    )
    web.run_app(app, host=chosen.host, port=chosen.port, handler_cancellation=True)


if __name__ == "__main__":
    main()
