"""`groupjudge demo`: a server with the embedded judge, and a small trainer that talks to it over HTTP.

It shows what a training run relies on: members posted at the same time, a caller that is dropped and comes back, an
exact retry that costs no judge call, and rewards that follow the quality of the answers.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from groupjudge.errors import ConfigurationError, GroupJudgeError
from groupjudge.judging.local_model import TERMS
from groupjudge.settings import Settings

POLL_S = 0.2


class DemoFailed(GroupJudgeError):
    """Something in the demo did not go as it should."""


@dataclass(frozen=True, slots=True)
class Task:
    """A question and the answers that a policy gave to it."""

    question: str
    answers: tuple[str, ...]


TASKS = (
    Task(
        "What is the capital of France, and on which river does it lie?",
        (
            "Paris is the capital of France. It lies on the river Seine.",
            "Paris.",
            "Who cares about France?",
            "asdf asdf asdf",
        ),
    ),
    Task(
        "Why is the sky blue?",
        (
            "Air scatters the short, blue waves of sunlight much more than the long, red ones, so blue light reaches "
            "us from all over the sky.",
            "Because air scatters blue light more than red light.",
            "Because of the ocean, I guess.",
            "qwer asdf zxcv",
        ),
    ),
    Task(
        "How many days does a leap year have, and why is there one?",
        (
            "A leap year has 366 days. The extra day keeps the calendar in step with the Earth's way around the Sun.",
            "366 days.",
            "I do not feel like answering that.",
            "banana banana banana",
        ),
    ),
)


def read_tasks(path: Path) -> tuple[Task, ...]:
    """Tasks from a JSON Lines file of `{"question": string, "answers": [string, ...]}`; at least two answers each.

    Raises ConfigurationError naming the line that is wrong.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {path}: {error}") from None
    tasks = tuple(_task(line, f"{path}, line {n}") for n, line in enumerate(lines, 1) if line.strip())
    if not tasks:
        raise ConfigurationError(f"{path} holds no task; write one JSON object a line")
    return tasks


def _task(line: str, where: str) -> Task:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise ConfigurationError(f"{where}: not JSON") from None
    question = value.get("question") if isinstance(value, dict) else None
    answers = value.get("answers") if isinstance(value, dict) else None
    texts = isinstance(answers, list) and len(answers) >= 2 and all(isinstance(a, str) for a in answers)
    if not isinstance(question, str) or not texts:
        raise ConfigurationError(
            f'{where}: send {{"question": "...", "answers": ["...", "..."]}}, at least two answers'
        )
    return Task(question, tuple(map(str, answers or ())))


def run(settings: Settings, tasks: Sequence[Task], console: Console) -> None:
    """Play the demo on a free port. Raises GroupJudgeError where something did not go as it should."""
    import logging

    import uvloop

    from groupjudge.service.logs import configure_logs

    configure_logs(logging.WARNING)
    uvloop.run(_play(_on_a_free_port(settings), tasks, console))


def _on_a_free_port(settings: Settings) -> Settings:
    server = settings.server.model_copy(update={"host": "127.0.0.1", "port": 0, "auth_token": None})
    return settings.model_copy(update={"server": server})


async def _play(settings: Settings, tasks: Sequence[Task], console: Console) -> None:
    from groupjudge.service.run import running

    began = time.monotonic()
    console.print(f"starting the server with the [b]{settings.judge.format}[/b] judge ...")
    if settings.judge.format == "local" and settings.judge.model is None:
        console.print(TERMS, style="dim")
    async with running(settings) as address, aiohttp.ClientSession(address) as http:
        trainer = Trainer(http, tasks, settings.comparison.judges_per_pair)
        await trainer.wait_until_ready(console)
        console.print(f"listening on {address}; {trainer.members} answers to {len(tasks)} questions go out at once")
        await trainer.train(console)
        for table in await trainer.tables():
            console.print(table)
        console.print(trainer.story)
    console.print(
        f"\ndone in {time.monotonic() - began:.0f} s. The embedded judge is tiny: good for a look, not for training."
    )
    console.print("To serve a real judge (any OpenAI-compatible endpoint):\n")
    console.print(f"  {SERVE_COMMAND}\n", soft_wrap=True, highlight=False)


SERVE_COMMAND = (
    "groupjudge serve --set judge.base_url=http://127.0.0.1:8000/v1 --set judge.model=YOUR-JUDGE --set group.size=16"
)


class Trainer:
    """The caller of the demo: posts every member of every group, and looks at what the server did."""

    def __init__(self, http: aiohttp.ClientSession, tasks: Sequence[Task], judges_per_pair: int) -> None:
        self._http = http
        self._tasks = tasks
        self._ids = [f"demo-{uuid.uuid4().hex[:8]}-{n}" for n in range(len(tasks))]
        self._verdicts = sum(len(task.answers) for task in tasks) * judges_per_pair
        self.members = sum(len(task.answers) for task in tasks)
        self.story = ""

    async def wait_until_ready(self, console: Console) -> None:
        """Return once the judge can be asked."""
        with console.status("loading the judge ..."):
            while True:
                async with self._http.get("/readyz") as reply:
                    said = await reply.json()
                    if reply.status == 200:
                        return
                if "loading" not in said.get("reason", ""):
                    raise DemoFailed(f"the judge cannot be asked: {said.get('reason')}")
                await asyncio.sleep(POLL_S)

    async def train(self, console: Console) -> None:
        """Send everything at once; drop one caller and let it come back; replay one member at the end."""
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("verdicts", total=self._verdicts)
            replies = asyncio.gather(self._dropped_and_back(), *(self._verify(g, s) for g, s in self._others()))
            while not replies.done():
                progress.update(bar, completed=await self._calls())
                await asyncio.wait({replies}, timeout=POLL_S)
            rewards = [_reward(reply) for reply in replies.result()]
            progress.update(bar, completed=await self._calls())
        await self._replay(rewards[0])

    def _others(self) -> Iterator[tuple[int, int]]:
        for g, task in enumerate(self._tasks):
            yield from ((g, s) for s in range(len(task.answers)) if (g, s) != (0, 0))

    async def _verify(self, group: int, slot: int) -> Mapping[str, Any]:
        async with self._http.post("/verify", json=self._body(group, slot)) as reply:
            said = await reply.json()
            if reply.status != 200:
                raise DemoFailed(f"/verify answered {reply.status} {said.get('code')}: {said.get('detail')}")
            return dict(said)

    def _body(self, group: int, slot: int) -> dict[str, Any]:
        task = self._tasks[group]
        text = {"type": "output_text", "text": task.answers[slot], "annotations": []}
        message = {"type": "message", "role": "assistant", "status": "completed", "content": [text]}
        return {
            "responses_create_params": {"input": task.question},
            "response": {"id": f"{self._ids[group]}-{slot}", "object": "response", "output": [message]},
            "_ng_group_id": self._ids[group],
            "_ng_group_size": len(task.answers),
            "_ng_rollout_index": slot,
        }

    async def _dropped_and_back(self) -> Mapping[str, Any]:
        """Hang up once the server has the answer, then send the very same request again."""
        first = asyncio.create_task(self._verify(0, 0))
        while not first.done() and 0 not in await self._present(self._ids[0]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # what is waited for happens in the server
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return await self._verify(0, 0)

    async def _present(self, group_id: str) -> Sequence[int]:
        async with self._http.get("/v1/groups") as reply:
            rows = await reply.json()
        for row in (*rows["active"], *rows["finished"]):
            if row["id"] == group_id:
                return list(row["members"])
        return []

    async def _calls(self) -> int:
        """How many comparisons the judge has finished."""
        async with self._http.get("/metrics") as reply:
            lines = (await reply.text()).splitlines()
        return int(
            sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("groupjudge_judge_calls_total"))
        )

    async def _replay(self, reward: float) -> None:
        before = await self._calls()
        again = _reward(await self._verify(0, 0))
        extra = await self._calls() - before
        if again != reward or extra:
            raise DemoFailed(f"the exact retry got {again} after {extra} judge calls, not {reward} after none")
        self.story = (
            "answer 0 of the first question was sent, its caller hung up and came back: it was judged once.\n"
            f"Sent once more at the end, it got its reward of {reward:.2f} again, without a judge call."
        )

    async def tables(self) -> list[Table]:
        """One table a question: the answers, who met whom with which scores, and the rewards."""
        return [await self._table(g, task) for g, task in enumerate(self._tasks)]

    async def _table(self, group: int, task: Task) -> Table:
        async with self._http.get(f"/v1/groups/{self._ids[group]}/0") as reply:
            details = await reply.json()
        table = Table(title=task.question, title_justify="left", title_style="bold", show_lines=True)
        table.add_column("#", justify="right")
        table.add_column("answer", ratio=3, overflow="fold")
        table.add_column("verdicts (own : other's score)", ratio=2)
        table.add_column("reward", justify="right")
        for slot, answer in enumerate(task.answers):
            verdicts = "\n".join(_verdict_lines(slot, details["verdicts"]))
            table.add_row(str(slot), answer[:300], verdicts, f"{details['rewards'][slot]:.2f}")
        return table


def _reward(reply: Mapping[str, Any]) -> float:
    if reply["mask_sample"]:
        raise DemoFailed(f"the judge failed: {reply['failure_reason']}")
    return float(reply["reward"])


def _verdict_lines(slot: int, verdicts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for v in verdicts:
        if v["response_i"] == slot:
            yield f"vs #{v['response_j']}: {v['score_1']:g} : {v['score_2']:g}"
        if v["response_j"] == slot:
            yield f"vs #{v['response_i']}: {v['score_2']:g} : {v['score_1']:g}"
