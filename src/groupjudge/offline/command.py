"""`groupjudge judge`: the files, the progress and the summary around `judge_all`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from groupjudge.errors import ConfigurationError
from groupjudge.offline.groups import BadLine, FileGroup, read_groups
from groupjudge.offline.preferences import best, pair, rewarded, write_lines
from groupjudge.offline.results import Output
from groupjudge.offline.run import JudgeGroup, Tally, judge_all


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for. `source` `-` is standard input; `pairs` and `best` are further files to write;
    `plain`: the pairs' texts as strings instead of messages; `rules` names the configuration that rewards hang on."""

    source: str
    out: Path
    default_size: int
    max_size: int
    limit: int | None = None
    pairs: Path | None = None
    best: Path | None = None
    plain: bool = False
    rules: str = ""


async def run(request: Request, judge: JudgeGroup, console: Console) -> Tally:
    """Judge the file, then write what was asked for beside. Messages go to `console`. Raises ConfigurationError."""
    _check_files(request)
    with _input_file(request.source) as source, Output(request.out, request.rules) as output:
        total = sum(1 for _ in _groups(request, source))
        with _progress(console, total) as tell:
            groups = _groups(request, source)
            tally = await judge_all(groups, output, judge, tell, limit=request.limit)
        output.close()
        _write_beside(request, source, console)
    console.print(_summary(tally))
    return tally


def _check_files(request: Request) -> None:
    """No file may be written over another."""
    named = [Path(request.source), request.out, request.pairs, request.best]
    resolved = [path.resolve() for path in named if path is not None]
    if len(set(resolved)) < len(resolved):
        raise ConfigurationError("INPUT, --out, --pairs and --best must be different files")


def _groups(request: Request, source: Path) -> Iterator[FileGroup | BadLine]:
    with open(source, "rb") as file:
        yield from read_groups(file, request.default_size, request.max_size)


@contextmanager
def _input_file(source: str) -> Iterator[Path]:
    """The input as a file that can be read more than once."""
    if source != "-":
        if not Path(source).is_file():
            raise ConfigurationError(f"cannot read {source}: no such file")
        yield Path(source)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "input.jsonl")
        with open(path, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield path


@contextmanager
def _progress(console: Console, total: int) -> Iterator[Callable[[Tally, str | None], None]]:
    """A bar on a terminal; elsewhere only the messages."""
    numbers = TextColumn("{task.fields[verdicts]} verdicts, {task.fields[failures]} failures")
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("groups"),
        numbers,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("groups", total=total, verdicts=0, failures=0)

        def tell(tally: Tally, message: str | None) -> None:
            done = tally.judged + tally.skipped + len(tally.failures) + tally.bad_lines
            progress.update(bar, completed=done, verdicts=tally.verdicts, failures=len(tally.failures))
            if message is not None:
                console.print(message, markup=False, highlight=False, soft_wrap=True)

        yield tell


def _write_beside(request: Request, source: Path, console: Console) -> None:
    def rows(of: Callable[[FileGroup, list[float]], dict[str, Any] | None]) -> Iterator[dict[str, Any] | None]:
        return (of(group, rewards) for group, rewards in rewarded(_groups(request, source), request.out))

    if request.pairs is not None:
        conversational = not request.plain
        count = write_lines(request.pairs, rows(lambda g, rewards: pair(g, rewards, conversational=conversational)))
        console.print(f"{count} preference pairs in {request.pairs}", markup=False)
    if request.best is not None:
        count = write_lines(request.best, rows(best))
        console.print(f"{count} best answers in {request.best}", markup=False)


def _summary(tally: Tally) -> str:
    parts = [f"{tally.judged} groups judged with {tally.verdicts} verdicts"]
    if tally.skipped:
        parts.append(f"{tally.skipped} had been judged before")
    if tally.failures:
        parts.append(f"{len(tally.failures)} failed (the next run judges them again)")
    if tally.bad_lines:
        parts.append(f"{tally.bad_lines} bad lines")
    return "; ".join(parts)
