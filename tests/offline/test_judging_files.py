"""Judging a file, resuming, and what is derived from it (H14)."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from groupjudge.errors import ConfigurationError, JudgeFailed
from groupjudge.model import AnswerTexts, Judgement, Topic, Verdict
from groupjudge.offline.command import Request, run
from groupjudge.offline.results import Done, Output, read_rows
from groupjudge.offline.run import JudgeGroup

from .test_groups import rollout

GROUPS = [
    {"id": "a", "question": "which?", "answers": ["3", "5", "1"]},
    {"id": "b", "question": "which then?", "answers": ["2", "2"]},
    {"id": "c", "question": [{"role": "user", "content": "and?"}], "answers": ["1", "4"]},
]


class Judge:
    """Gives each answer the number that it is; fails where an answer is `no`. Counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.at_once = 0
        self.most = 0

    async def __call__(self, topic: Topic, texts: Sequence[AnswerTexts]) -> Judgement:
        self.asked.append(topic.conversation[-1].content)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if any(text.answer == "no" for text in texts):
            raise JudgeFailed("it said no", "said no")
        rewards = tuple(float(text.answer) for text in texts)
        return Judgement(rewards, (Verdict(0, 1, 0, rewards[0], rewards[-1], 3.0),), None)


@pytest.fixture
def judge() -> Judge:
    return Judge()


def write(path: Path, rows: Sequence[object]) -> str:
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return str(path)


async def play(judge: JudgeGroup, source: str, out: Path, **options: object) -> tuple[bool, str]:
    said = io.StringIO()
    request = Request(source, out, default_size=2, max_size=16, **options)  # type: ignore[arg-type]
    tally = await run(request, judge, Console(file=said, width=200))
    return tally.is_clean, said.getvalue()


async def test_files_beside_are_not_made_of_changed_texts(judge: Judge, tmp_path: Path) -> None:
    """H14: a group beyond `--limit` is not judged again, and its old rewards do not go with other texts either."""
    source, out, pairs = write(tmp_path / "in", GROUPS), tmp_path / "out", tmp_path / "pairs"
    await play(judge, source, out)
    out.write_bytes(b"".join(line for line in out.read_bytes().splitlines(True) if b'"line":3' in line))
    changed = write(tmp_path / "in", [*GROUPS[:2], {**GROUPS[2], "answers": ["9", "4"]}])
    with pytest.raises(ConfigurationError, match="line 3"):
        await play(judge, changed, out, limit=1, pairs=pairs)
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


async def test_an_empty_answer_is_empty_in_pairs(judge: Judge, tmp_path: Path) -> None:
    """J5: the stand-in that the judge reads is not what the policy wrote."""

    class Silent(Judge):
        async def __call__(self, topic: Topic, texts: Sequence[AnswerTexts]) -> Judgement:
            return Judgement(tuple(float(len(text.answer)) for text in texts), (), None)

    source, out, pairs = write(tmp_path / "in", [{"question": "?", "answers": ["", "longer"]}]), tmp_path / "o", "p"
    await play(Silent(), source, out, pairs=tmp_path / pairs, plain=True)
    assert json.loads((tmp_path / pairs).read_text())["rejected"] == ""


def rewards(out: Path) -> dict[str, list[float]]:
    return {row["id"]: row["rewards"] for row in read_rows(out)}


async def test_every_group_is_judged_once_and_written(judge: Judge, tmp_path: Path) -> None:
    """H14: one line a group: rewards, every verdict, the metrics; a second run judges nothing again."""
    source, out = write(tmp_path / "in", GROUPS), tmp_path / "out"
    assert (await play(judge, source, out))[0]
    assert rewards(out) == {"a": [3.0, 5.0, 1.0], "b": [2.0, 2.0], "c": [1.0, 4.0]}
    assert all(row["verdicts"][0]["ranking"] == 3.0 for row in read_rows(out))
    before = out.read_bytes()
    clean, said = await play(judge, source, out)
    assert clean
    assert "3 had been judged before" in said
    assert sorted(judge.asked) == ["and?", "which then?", "which?"]
    assert out.read_bytes() == before


@pytest.mark.parametrize("kept", range(0, 400, 7))
async def test_a_crash_at_any_byte_costs_one_line_at_most(judge: Judge, tmp_path: Path, kept: int) -> None:
    """H14: whatever a crash left of the output, the next run drops the half line, judges what is missing and nothing
    else."""
    source, out = write(tmp_path / "in", GROUPS), tmp_path / "out"
    await play(judge, source, out)
    whole = out.read_bytes()
    out.write_bytes(whole[:kept])
    lines = whole[:kept].count(b"\n")
    judge.asked.clear()
    assert (await play(judge, source, out))[0]
    assert len(judge.asked) == 3 - lines
    assert rewards(out) == {"a": [3.0, 5.0, 1.0], "b": [2.0, 2.0], "c": [1.0, 4.0]}
    assert out.read_bytes().count(b"\n") == 3


async def test_what_fails_is_said_and_judged_again(judge: Judge, tmp_path: Path) -> None:
    """H14: a judge failure and a bad line are reported with their numbers and stop nothing; a failed group is not
    written, so the next run judges it again."""
    source, out = (
        write(tmp_path / "in", ["nonsense\n", {"question": "?", "answers": ["1", "no"]}, *GROUPS]),
        tmp_path / "out",
    )
    clean, said = await play(judge, source, out)
    assert not clean
    assert "line 1:" in said
    assert "line 2: the judge failed: it said no" in said
    assert sorted(rewards(out)) == ["a", "b", "c"]
    judge.asked.clear()
    assert not (await play(judge, source, out))[0]
    assert judge.asked == ["?"]


async def test_limit_and_how_many_are_judged_at_once(judge: Judge, tmp_path: Path) -> None:
    """H14: `--limit` counts groups that are judged now; never more than 64 are judged at a time."""
    many = [{"id": str(n), "question": f"{n}?", "answers": ["1", "2"]} for n in range(200)]
    source, out = write(tmp_path / "in", many), tmp_path / "out"
    await play(judge, source, out, limit=5)
    assert len(rewards(out)) == 5
    await play(judge, source, out, limit=7)
    assert len(rewards(out)) == 12
    await play(judge, source, out)
    assert len(rewards(out)) == 200
    assert 2 <= judge.most <= 64


@pytest.mark.parametrize("plain", [False, True])
async def test_pairs_and_best_answers(judge: Judge, tmp_path: Path, plain: bool) -> None:
    """Issue 6: the best over the worst with the gap as margin, in both forms; equal rewards make no pair; the best
    answer of each group, the first of equals."""
    source, out = write(tmp_path / "in", GROUPS), tmp_path / "out"
    pairs, best = tmp_path / "pairs", tmp_path / "best"
    await play(judge, source, out, pairs=pairs, best=best, plain=plain)
    found = [json.loads(line) for line in pairs.read_text().splitlines()]
    if plain:
        wanted = [("which?", "5", "1", 4.0), ("and?", "4", "1", 3.0)]
        assert [(row["prompt"], row["chosen"], row["rejected"], row["margin"]) for row in found] == wanted
    else:
        assert found[0]["prompt"] == [{"role": "user", "content": "which?"}]
        assert found[0]["chosen"] == [{"role": "assistant", "content": "5"}]
        assert found[0]["rejected"] == [{"role": "assistant", "content": "1"}]
    bests = [json.loads(line) for line in best.read_text().splitlines()]
    assert [(row["id"], row["slot"], row["answer"]) for row in bests] == [("a", 1, "5"), ("b", 0, "2"), ("c", 1, "4")]


async def test_best_leaves_out_default_scores_and_says_where_answers_tie(tmp_path: Path) -> None:
    """H14, J13: where default scores stood in for verdicts no answer is the best; of equals the first slot is written,
    with how many share its reward."""

    class Partly(Judge):
        async def __call__(self, topic: Topic, texts: Sequence[AnswerTexts]) -> Judgement:
            judgement = await super().__call__(topic, texts)
            unread = topic.conversation[0].content == "which?"
            return replace(judgement, failure_kind="unreadable", failure_reason="hm") if unread else judgement

    source, best = write(tmp_path / "in", GROUPS), tmp_path / "best"
    _, said = await play(Partly(), source, tmp_path / "out", best=best)
    rows = [json.loads(line) for line in best.read_text().splitlines()]
    assert [(row["id"], row["slot"], row["tied"]) for row in rows] == [("b", 0, 2), ("c", 1, 1)]
    assert "2 best answers in" in said
    assert "1 group without a best answer" in said


@pytest.mark.parametrize("reason", ["it is down", "it is down.", "it is down. ."])
async def test_the_reason_for_giving_up_is_one_sentence(tmp_path: Path, reason: str) -> None:
    """H14: however the judge's own words end."""

    async def judge(topic: Topic, texts: Sequence[AnswerTexts]) -> Judgement:
        raise JudgeFailed(reason, "down")

    source = write(tmp_path / "in", [GROUPS[0]] * 70)
    _, said = await play(judge, source, tmp_path / "out", give_up_after=1)
    assert "the last because it is down. What was judged is kept" in said


async def test_rows_of_two_attempts_are_told_apart(judge: Judge, tmp_path: Path) -> None:
    """H14: `attempt` stands in the row and beside the best answer. Rows written without it are taken up as they are."""
    rows = [rollout(slot, "1", _ng_group_id="G", _ng_group_attempt=attempt) for attempt in (0, 1) for slot in (0, 1)]
    source, out, best = write(tmp_path / "in", rows), tmp_path / "out", tmp_path / "best"
    await play(judge, source, out, best=best)
    for path in (out, best):
        assert [(row["id"], row["attempt"]) for row in map(json.loads, path.read_text().splitlines())] == [
            ("G", 0),
            ("G", 1),
        ]
    old = out.read_text().replace('"attempt":0,', "").replace('"attempt":1,', "")
    out.write_text(old)
    judge.asked.clear()
    assert (await play(judge, source, out, best=best))[0]
    assert judge.asked == []
    assert out.read_text() == old


@pytest.mark.parametrize(
    "text", ['{"something": "else"}\n', "a text without a line break", '{"line":1,"input":"ab"}\nmy notes']
)
async def test_a_foreign_output_file_is_refused(judge: Judge, tmp_path: Path, text: str) -> None:
    """H14: a file that this command did not write is neither appended to nor cut."""
    source, out = write(tmp_path / "in", GROUPS), tmp_path / "out"
    out.write_text(text)
    with pytest.raises(ConfigurationError, match="choose another --out"):
        await play(judge, source, out)
    assert out.read_text() == text
    assert judge.asked == []


async def test_half_a_surrogate_pair_breaks_no_file(judge: Judge, tmp_path: Path) -> None:
    """J21: JSON can name what UTF-8 cannot hold. It is written as for the judge, and the next run can read the file."""
    rows = ['{"id": "\\ud800", "question": "\\udfff?", "answers": ["1", "2"]}\n']
    source, out, pairs = write(tmp_path / "in", rows), tmp_path / "out", tmp_path / "pairs"
    for _ in range(2):
        assert (await play(judge, source, out, pairs=pairs, plain=True))[0]
        assert rewards(out) == {"\ufffd": [1.0, 2.0]}
        assert json.loads(pairs.read_text())["prompt"] == "\ufffd?"
    assert len(judge.asked) == 1


def test_done_remembers_lines() -> None:
    """Exactly the added lines are in, each with what was judged there."""
    done = Done()
    for line in (1, 8, 9, 1_000_000, 8):
        done.add(line, f"{line:032x}" if line > 8 else "ab" * 16)
    assert [line for line in range(1, 20) if line in done] == [1, 8, 9]
    assert 1_000_000 in done
    assert 2_000_000 not in done
    assert done.is_the_same(8, "ab" * 16)
    assert not done.is_the_same(8, "ba" * 16)


@pytest.mark.parametrize("change", ["answer", "question", "rules"])
async def test_other_texts_or_rules_do_not_get_old_rewards(judge: Judge, tmp_path: Path, change: str) -> None:
    """H14: a line whose text has changed since it was judged, or that was judged by another configuration, is refused
    and not taken as judged."""
    source, out = write(tmp_path / "in", GROUPS), tmp_path / "out"
    await play(judge, source, out)
    before = out.read_bytes()
    changed = [dict(GROUPS[0]), *GROUPS[1:]]
    if change == "answer":
        changed[0]["answers"] = ["3", "5", "2"]
    if change == "question":
        changed[0]["question"] = "which one?"
    with pytest.raises(ConfigurationError, match="line 1"):
        await play(judge, write(tmp_path / "in", changed), out, rules="other" if change == "rules" else "")
    assert out.read_bytes() == before


@pytest.mark.parametrize("name", ["pairs", "best"])
async def test_no_file_is_written_over_another(judge: Judge, tmp_path: Path, name: str) -> None:
    """H14: the same file for two purposes is refused before anything is written."""
    source, out = write(tmp_path / "in", GROUPS), tmp_path / "out"
    with pytest.raises(ConfigurationError, match="different files"):
        await play(judge, source, out, **{name: out})
    assert not out.exists()


@pytest.mark.parametrize("name", ["out", "pairs", "best", "report"])
@pytest.mark.parametrize("kind", ["full", "directory", "pipe", "nowhere"])
async def test_only_regular_files_are_written(judge: Judge, tmp_path: Path, name: str, kind: str) -> None:
    """H13: a device, a directory, a pipe, a missing directory: said before anything is read, judged or replaced."""
    path = tmp_path / "nowhere" / "file" if kind == "nowhere" else tmp_path / kind
    if kind == "full":
        path.symlink_to("/dev/full")
    if kind == "directory":
        path.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    source = write(tmp_path / "in", GROUPS)
    files = {"out": tmp_path / "out"} | {name: path}
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(ConfigurationError, match=f"cannot write {path}: "):
        await play(judge, source, files.pop("out"), **files)
    assert judge.asked == []
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("name", "says"), [("directory", "is a directory"), ("missing", "no such file"), ("pipe", "no regular file")]
)
async def test_an_input_that_is_no_file_is_named(judge: Judge, tmp_path: Path, name: str, says: str) -> None:
    """H13: with what it is instead."""
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match=f"cannot read {tmp_path / name}: .*{says}"):
        await play(judge, str(tmp_path / name), tmp_path / "out")
    assert not (tmp_path / "out").exists()


async def test_two_runs_do_not_share_an_output(judge: Judge, tmp_path: Path) -> None:
    """H14: the second is refused in one line and touches nothing; once the first has ended it may go on."""
    source, out = write(tmp_path / "in", GROUPS), tmp_path / "out"
    with Output(out):
        out.write_bytes(b'{"line":')
        with pytest.raises(ConfigurationError, match=f"another run .*{out}") as refused:
            await play(judge, source, out)
        assert out.read_bytes() == b'{"line":'
    assert "\n" not in str(refused.value)
    assert (await play(judge, source, out))[0]
    assert len(rewards(out)) == 3


def test_an_output_that_cannot_be_opened_is_one_clear_error(tmp_path: Path) -> None:
    """H13: the path and the reason, no traceback."""
    with pytest.raises(ConfigurationError, match="cannot write"):
        Output(tmp_path / "missing" / "out")
