"""The embedded judge around its model: what it asks of the helper process, and how both end (J9). The model itself is
in test_local_worker.py; here a script stands in for it, which says what a test needs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from groupjudge.errors import ConfigurationError, JudgeFailed
from groupjudge.judging import local_model
from groupjudge.judging.judge import JudgeCall
from groupjudge.judging.local import LOADING, LocalGroup, LocalJudge, LocalJudgeOptions
from groupjudge.judging.reading import ReadingRules
from groupjudge.model import AnswerTexts, Message, Pair, Topic

SCRIPT = str(Path(__file__).with_name("scripted_engine.py"))
TOPIC = Topic((Message("user", "What do bees make?"),))


@dataclass
class Scripted:
    """A judge whose helper process is the script, and what that process was sent."""

    judge: LocalJudge
    log: Path

    def group(self, *answers: str, topic: Topic = TOPIC) -> LocalGroup:
        return self.judge.prepare(topic, [AnswerTexts(answer, "") for answer in answers])

    async def ask(self, *answers: str) -> JudgeCall:
        return await self.judge.compare(self.group(*answers), Pair(0, 1, 0))

    @property
    def sent(self) -> list[dict[str, Any]]:
        """What went out since the setup; a line that is still being written does not count."""
        lines = self.log.read_text("utf-8").split("\n")[:-1] if self.log.exists() else []
        return [value for value in map(json.loads, lines) if "path" not in value]

    async def until_sent(self, *needed: str) -> None:
        """Return once the process got a line with each of `needed`. Another process tells of nothing: look again."""
        while not all(any(text in json.dumps(value) for value in self.sent) for text in needed):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """A judge that grades."""
    monkeypatch.setattr("groupjudge.judging.local.check_model", lambda path: None)
    monkeypatch.setattr("groupjudge.judging.local.model_file", lambda path: Path(path or "the extra's"))
    return scripted_judge(tmp_path)


def scripted_judge(folder: Path, model: str | None = None, events: Any = None) -> Scripted:
    log = folder / "sent.jsonl"
    options = LocalJudgeOptions(model=model)
    return Scripted(LocalJudge(options, ReadingRules(), events=events, command=(sys.executable, SCRIPT, str(log))), log)


@pytest.fixture
def chatting(scripted: Scripted, tmp_path: Path) -> Scripted:
    """A judge that asks another GGUF file for JSON."""
    return scripted_judge(tmp_path, model="other.gguf")


class Counted:
    """Events, as they came."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.tries: list[str] = []

    def tried(self, result: str, status: int | None, seconds: float) -> None:
        self.tries.append(result)

    def called(self, result: str, tries: int, seconds: float) -> None:
        self.calls.append((result, tries))

    def used(self, prompt_tokens: int, completion_tokens: int) -> None: ...
    def ambiguous(self) -> None: ...
    def defaulted(self) -> None: ...


async def test_the_more_expected_answer_gets_the_higher_score_in_either_seat(scripted: Scripted) -> None:
    """J9: an answer is graded for itself, so a seat changes nothing."""
    async with scripted.judge as judge:
        group = scripted.group("good honey", "bad honey")
        first, second = [(await judge.compare(group, pair)).reading for pair in (Pair(0, 1, 0), Pair(1, 0, 0))]
    assert first
    assert second
    assert first.score_1 == second.score_2 > first.score_2 == second.score_1
    assert first.ranking < 3.5 < second.ranking
    assert first.ranking + second.ranking == pytest.approx(7)


async def test_an_answer_is_graded_once_for_all_pairs_of_its_group(scripted: Scripted) -> None:
    async with scripted.judge as judge:
        group = scripted.group("good 0", "bad 1", "good 2")
        pairs = [Pair(0, 1, 0), Pair(1, 2, 0), Pair(2, 0, 0)]
        await asyncio.gather(*(judge.compare(group, pair) for pair in pairs))
    assert sorted(value["words"] for value in scripted.sent) == [" bad 1", " good 0", " good 2"]


async def test_it_says_that_it_loads_until_it_is_loaded(scripted: Scripted) -> None:
    """H8: readiness says why."""
    async with scripted.judge as judge:
        assert await judge.reachable() == LOADING
        await scripted.ask("good", "bad")
        assert await judge.reachable() is None
    assert await judge.reachable() == "the embedded judge is closed"


async def test_calls_while_it_loads_wait_for_the_one_model(scripted: Scripted) -> None:
    async with scripted.judge:
        calls = await asyncio.gather(*(scripted.ask("good", "bad") for _ in range(5)))
    assert len(set(calls)) == 1
    lines = scripted.log.read_text("utf-8").splitlines()
    assert sum("path" in json.loads(line) for line in lines) == 1


async def test_two_verdicts_are_in_the_making_at_once_and_the_others_wait_in_order(scripted: Scripted) -> None:
    """J3."""
    async with scripted.judge as judge:
        calls = [asyncio.create_task(scripted.ask(f"hold {n}", "bad")) for n in range(4)]
        await scripted.until_sent("hold 0", "hold 1")
        assert (judge.gate.in_flight, judge.gate.waiting) == (2, 2)
        calls[0].cancel()
        await scripted.until_sent("hold 2")
        assert (judge.gate.in_flight, judge.gate.waiting) == (2, 1)
        assert not any("hold 3" in json.dumps(value) for value in scripted.sent)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_a_cancelled_verdict_is_called_off_and_frees_its_place(scripted: Scripted, tmp_path: Path) -> None:
    """J3, L11."""
    events = Counted()
    scripted = scripted_judge(tmp_path, events=events)
    async with scripted.judge as judge:
        call = asyncio.create_task(scripted.ask("hold", "bad"))
        await scripted.until_sent("hold")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await scripted.until_sent("cancel")
        assert (judge.gate.in_flight, judge.gate.waiting) == (0, 0)
        assert (await scripted.ask("good", "bad")).reading
    assert events.calls == [("cancelled", 0), ("verdict", 1)]


async def test_a_cancelled_verdict_leaves_the_answer_to_those_who_wait_for_it_too(scripted: Scripted) -> None:
    async with scripted.judge as judge:
        group = scripted.group("hold", "good")
        first, second = (asyncio.create_task(judge.compare(group, Pair(0, 1, k))) for k in range(2))
        await scripted.until_sent("hold")
        first.cancel()
        await scripted.until_sent("cancel")
        while sum("hold" in str(value.get("words")) for value in scripted.sent) < 2:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.005)
        assert not second.done()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)


async def test_closing_while_a_verdict_runs_ends_the_process_and_fails_the_verdict(scripted: Scripted) -> None:
    """L19: nothing hangs."""
    call = asyncio.create_task(scripted.ask("hold", "bad"))
    await scripted.until_sent("hold")
    await scripted.judge.close()
    with pytest.raises(JudgeFailed, match="its process ended"):
        await call
    with pytest.raises(RuntimeError, match="closed"):
        await scripted.ask("good", "bad")
    await scripted.judge.close()
    assert other_tasks() == set()


async def test_closing_while_it_loads_fails_those_who_wait(scripted: Scripted) -> None:
    call = asyncio.create_task(scripted.ask("good", "bad"))
    while not scripted.judge.gate.in_flight:  # noqa: ASYNC110 -- nothing tells
        await asyncio.sleep(0)
    await scripted.judge.close()
    with pytest.raises(JudgeFailed, match="it was closed"):
        await call
    assert other_tasks() == set()


async def test_a_process_that_dies_fails_its_verdicts_and_is_replaced(scripted: Scripted) -> None:
    async with scripted.judge:
        with pytest.raises(JudgeFailed, match=r"its process ended \(status 3\)"):
            await scripted.ask("die", "bad")
        assert (await scripted.ask("good", "bad")).reading


async def test_what_the_model_refuses_is_a_judge_failure_without_any_text_of_it_in_the_log(scripted: Scripted) -> None:
    """L26."""
    async with scripted.judge:
        with pytest.raises(JudgeFailed, match="the embedded judge failed: no grammar") as failed:
            await scripted.ask("refuse", "bad")
    assert failed.value.summary == "embedded judge (rejected)"


async def test_a_file_that_cannot_be_loaded_says_so_in_one_line(scripted: Scripted, tmp_path: Path) -> None:
    broken = scripted_judge(tmp_path, model="broken.gguf")
    async with broken.judge as judge:
        with pytest.raises(JudgeFailed, match=r"^the embedded judge failed: llama.cpp cannot load 'broken.gguf': .*$"):
            await broken.ask("good", "bad")
        why = await judge.reachable()
        said = re.fullmatch(
            r"the embedded judge cannot be loaded: llama.cpp cannot load 'broken.gguf': it is broken, says (\d+)",
            why or "",
        )
        assert said
        with pytest.raises(ProcessLookupError):  # it would wait for more, but was ended
            os.kill(int(said[1]), 0)
    assert other_tasks() == set()


@pytest.mark.parametrize("kind", ["scripted", "chatting"])
async def test_what_is_too_long_for_the_context_is_shown_shorter(kind: str, request: pytest.FixtureRequest) -> None:
    """The middle of a long text is left out, with a marker that says so."""
    asked: Scripted = request.getfixturevalue(kind)
    long = "good " + "honey " * 40_000 + "the end"
    async with asked.judge:
        assert (await asked.ask(long, "bad")).reading
    shown = [str(value.get("graded", value.get("text"))) for value in asked.sent]
    cut = [text for text in shown if "characters left out ..." in text]
    assert cut
    assert all(len(text) < 20_000 for text in shown)
    assert all("the end" in text for text in cut)
    assert min(map(len, cut)) < max(map(len, cut))  # the first was too long for the script


async def test_another_model_gets_the_template_and_the_schema(chatting: Scripted) -> None:
    """J8, J9."""
    async with chatting.judge:
        call = await chatting.ask("bees make honey", "bees make cars")
    assert call.reading == (4, 2, 1.5)
    (sent,) = chatting.sent
    assert "bees make honey" in sent["text"]
    assert "bees make cars" in sent["text"]
    assert sent["schema"]["properties"]["score_1"] == {"enum": [1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]}


async def test_an_unfinished_reply_of_another_model_is_unreadable(chatting: Scripted) -> None:
    """J13."""
    async with chatting.judge:
        call = await chatting.ask("cut off", "bad")
    assert call[:2] == (None, "the embedded judge's reply is unfinished")


def test_without_the_extra_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """H13: imports that are blocked."""
    monkeypatch.setitem(sys.modules, local_model.RUNTIME, None)
    with pytest.raises(ConfigurationError, match=r'^judge.format: local needs llama.cpp, .*: pip install "group.*"$'):
        LocalJudge(LocalJudgeOptions(), ReadingRules())


def test_without_weights_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_model, "RUNTIME", "json")
    monkeypatch.setitem(sys.modules, local_model.WEIGHTS, None)
    with pytest.raises(ConfigurationError, match=r"needs a model: .* or set judge.model to the path of a GGUF file$"):
        LocalJudge(LocalJudgeOptions(), ReadingRules())


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), (b"", "no GGUF file"), (b"{}" * 99, "no GGUF file")]
)
def test_a_path_that_is_no_model_is_refused_at_once(
    content: bytes | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the key and the path."""
    monkeypatch.setattr(local_model, "RUNTIME", "json")
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"^judge.model: .*model.gguf.*{why}.*$") as refused:
        LocalJudge(LocalJudgeOptions(model=str(path)), ReadingRules())
    assert "\n" not in str(refused.value)


def other_tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]
