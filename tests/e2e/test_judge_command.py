"""`groupjudge judge` as people run it: a process, files, standard input, a terminal, a judge behind a socket (H14)."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.support.judges import Received, Reply, StubJudge, http, responses

from .calling import BOUND_S, until
from .groups import GARBLED, TextJudge, rewards_of, shown
from .serving import ROOT, command, environment

QUESTIONS = [{"id": f"q{n}", "question": f"{n}?", "answers": [f"a {n}", f"b {n}", f"c {n}"]} for n in range(5)]


def lines(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def judged(
    judge: StubJudge, *arguments: str, stdin: bytes = b"", limits: dict[str, int] | None = None
) -> tuple[int, str]:
    """The exit status and what was said."""
    sets = ("--set", "judge.format=responses", "--set", f"judge.base_url={judge.base_url}", "--set", "judge.retries=0")
    process = await asyncio.create_subprocess_exec(
        *command("judge", *arguments, *sets, limits=limits),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment(),
        cwd=ROOT,
    )
    said, _ = await asyncio.wait_for(process.communicate(stdin), BOUND_S)
    assert process.returncode is not None
    return process.returncode, said.decode()


async def test_a_file_from_standard_input_is_judged(tmp_path: Path) -> None:
    """H14, J14: the rewards are those of the formula; the row says what judging cost."""
    out, pairs, best = tmp_path / "out", tmp_path / "pairs", tmp_path / "best"
    async with TextJudge() as judge:
        beside = ("--pairs", str(pairs), "--best", str(best))
        status, said = await judged(judge, "-", "--out", str(out), *beside, stdin=lines(QUESTIONS))
    assert status == 0, said
    assert "5 groups judged with 15 verdicts\n" in said
    rows = {row["id"]: row for row in read(out)}
    for question in QUESTIONS:
        row = rows[question["id"]]
        assert row["rewards"] == rewards_of(question["question"], question["answers"])
        assert row["judge"]["tries"] == {"ok": 3}
        assert len(row["judge"]["try_s"]) == 3
    assert len(read(best)) == 5
    assert len(read(pairs)) == sum(len(set(row["rewards"])) > 1 for row in rows.values())


async def test_what_a_group_cost_is_written_with_it(tmp_path: Path) -> None:
    """H14: tokens that the judge reports and tries that failed go to the group that caused them, however many are
    judged at once."""

    def say(request: Received) -> Reply:
        asked, first, _ = shown(request)
        number = int(asked[:-1])
        if first == "a 2" and first not in seen:
            seen.append(first)
            return http(503)
        verdict = json.dumps({"score_1": 4, "score_2": 2, "ranking": 1})
        return responses(verdict, usage={"input_tokens": 100 + number, "output_tokens": number})

    seen: list[str] = []
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_bytes(lines(QUESTIONS))
    async with StubJudge(by=say) as judge:
        status, said = await judged(judge, str(source), "--out", str(out), "--set", "judge.retry_sleep_s=0")
        assert (status, seen) == (1, ["a 2"]), said
        status, said = await judged(judge, str(source), "--out", str(out))
    assert status == 0, said
    costs = {row["id"]: row["judge"] for row in read(out)}
    for number in range(5):
        cost = costs[f"q{number}"]
        assert (cost["prompt_tokens"], cost["completion_tokens"], cost["reported"]) == (300 + 3 * number, 3 * number, 3)


async def test_judging_stops_when_the_judge_is_down(tmp_path: Path) -> None:
    """H14: after so many failures in a row no further group is begun; one line says so and what to do, and the next run
    goes on."""
    many = [{"question": f"{n}?", "answers": ["a", "b"]} for n in range(1000)]
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_bytes(lines(many))
    async with StubJudge(otherwise=http(503, "down")) as judge:
        status, said = await judged(judge, str(source), "--out", str(out), "--give-up-after", "10")
        asked = len(judge.received)
    assert status == 1
    assert 10 <= said.count("the judge failed:") <= 10 + 64
    assert asked <= 2 * (10 + 64)
    (line,) = [line for line in said.splitlines() if line.startswith("gave up:")]
    assert "status 503" in line
    assert "run the same command again" in line
    async with TextJudge() as judge:
        status, said = await judged(judge, str(source), "--out", str(out), "--give-up-after", "10")
    assert status == 0, said
    assert len(read(out)) == 1000


async def test_the_rest_is_judged_where_failures_are_not_in_a_row(tmp_path: Path) -> None:
    """H14: a failure stops nothing; only failures that nothing interrupts do."""

    def say(request: Received) -> Reply:
        asked, _, _ = shown(request)
        return http(400, "no") if int(asked[:-1]) % 2 else responses('{"score_1": 4, "score_2": 2, "ranking": 1}')

    many = [{"question": f"{n}?", "answers": ["a", "b"]} for n in range(400)]
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_bytes(lines(many))
    async with StubJudge(by=say) as judge:
        status, said = await judged(judge, str(source), "--out", str(out), "--give-up-after", "80")
    assert status == 1
    assert "gave up" not in said
    assert "200 groups judged with 400 verdicts; 200 failed (the next run judges them again)" in said


async def test_default_scores_are_counted_where_people_look(tmp_path: Path) -> None:
    """H14, J13: in the summary."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_bytes(lines([*QUESTIONS, {"question": "?", "answers": [GARBLED, "a", "b"]}]))
    async with TextJudge() as judge:
        lenient = ("--set", "judge.on_unreadable=default_scores")
        status, said = await judged(judge, str(source), "--out", str(out), *lenient)
    assert status == 0, said
    assert "6 groups judged with 18 verdicts, 2 of them default scores\n" in said


async def test_a_full_disk_is_named_and_loses_nothing(tmp_path: Path) -> None:
    """H13, H14: the error names the file, the summary says what was judged; the next run judges the rest."""
    many = [{"id": f"{n}", "question": f"{n}?", "answers": ["a", "b"]} for n in range(100)]
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_bytes(lines(many))
    async with TextJudge() as judge:
        status, said = await judged(judge, str(source), "--out", str(out), limits={"RLIMIT_FSIZE": 20_000})
        written = out.read_bytes().count(b"\n")
        assert (status, 0 < written < 100) == (1, True), said
        assert said.splitlines()[-1] == f"groupjudge: error: {out}: File too large"
        assert f"{written} groups judged with {2 * written} verdicts" in said
        status, said = await judged(judge, str(source), "--out", str(out))
    assert status == 0, said
    assert sorted(int(row["id"]) for row in read(out)) == list(range(100))
    assert f"{written} had been judged before" in said


def _heed_interrupts() -> None:
    """Tests that a shell runs in the background have SIGINT ignored, and what they start inherits it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def test_an_interrupted_run_says_what_was_judged(tmp_path: Path) -> None:
    """H13, H14: Ctrl-C ends with status 130 after the summary, and what was judged is kept."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_bytes(lines(QUESTIONS))
    async with TextJudge() as judge:
        judge.hold()
        process = await asyncio.create_subprocess_exec(
            *command("judge", str(source), "--out", str(out), "--set", "judge.format=responses"),
            *("--set", f"judge.base_url={judge.base_url}"),
            stderr=asyncio.subprocess.PIPE,
            env=environment(PYTHONFAULTHANDLER="1"),
            preexec_fn=_heed_interrupts,
        )
        await judge.until(lambda: judge.in_flight == 15)
        judge.let_go_of(lambda request: shown(request)[0] == "0?")

        async def is_written() -> bool:
            return out.read_bytes().count(b"\n") == 1

        await until(is_written)
        process.send_signal(signal.SIGINT)
        try:
            _, said = await asyncio.wait_for(process.communicate(), BOUND_S)
        except TimeoutError:
            process.send_signal(signal.SIGABRT)  # it says where it hangs
            _, said = await process.communicate()
    assert process.returncode == 130, said.decode()
    assert b"interrupted" in said
    assert b"1 group judged with 3 verdicts\n" in said
    assert b"Traceback" not in said
    assert [row["id"] for row in read(out)] == ["q0"]


async def test_all_that_is_said_goes_to_stderr(tmp_path: Path) -> None:
    """H13: warnings of a panel too; stdout stays free."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_bytes(lines(QUESTIONS))
    broken = StubJudge(otherwise=http(400, "no"))
    async with TextJudge() as judge, broken:
        panel = [
            {"juror": name, "format": "responses", "base_url": each.base_url, "retries": 0}
            for name, each in (("good", judge), ("broken", broken))
        ]
        process = await asyncio.create_subprocess_exec(
            *command("judge", str(source), "--out", str(out), "--set", f"judges={json.dumps(panel)}"),
            *("--set", "comparison.jurors=all"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
        )
        printed, said = await asyncio.wait_for(process.communicate(), BOUND_S)
    assert process.returncode == 0, said
    assert printed == b""
    assert b"juror_left_out" in said


async def test_a_bar_shows_how_far_judging_is(tmp_path: Path) -> None:
    """H14: on a terminal: groups done of all, verdicts a second, failures, time left."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_bytes(lines(QUESTIONS))
    ours, theirs = pty.openpty()
    async with TextJudge() as judge:
        process = await asyncio.create_subprocess_exec(
            *command("judge", str(source), "--out", str(out), "--set", "judge.format=responses"),
            *("--set", f"judge.base_url={judge.base_url}"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(TERM="xterm", COLUMNS="140"),
        )
        os.close(theirs)
        said = await asyncio.wait_for(asyncio.to_thread(_all_of, ours), BOUND_S)
        assert await asyncio.wait_for(process.wait(), BOUND_S) == 0
    for part in ("5/5", "groups, ", " verdicts/s, ", "0 default scores, ", "0 failures", "left"):
        assert part in said


def _all_of(descriptor: int) -> str:
    parts = []
    with open(descriptor, "rb", buffering=0) as terminal:
        try:
            while part := terminal.read(65536):
                parts.append(part)
        except OSError:  # how a terminal ends whose other side is closed
            pass
    return b"".join(parts).decode("utf-8", "replace")


@pytest.mark.parametrize("options", [["--give-up-after", "-1"], ["--limit", "0"], ["--judges-per-pair", "0"]])
async def test_options_out_of_range_are_bad_usage(tmp_path: Path, options: list[str]) -> None:
    """H13: exit status 2 and one line."""
    async with TextJudge() as judge:
        status, said = await judged(judge, "-", "--out", str(tmp_path / "out"), *options)
    assert status == 2
    assert options[0] in said
    assert len(said.splitlines()) == 1
