"""`groupjudge judge`: the files, the progress and the summary around `judge_all`."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from groupjudge.errors import ConfigurationError
from groupjudge.model import JudgeUsage
from groupjudge.offline.about import About
from groupjudge.offline.groups import BadLine, FileGroup, read_groups
from groupjudge.offline.preferences import LinesFile, WholeFile, best, judged_groups, pair
from groupjudge.offline.results import Output, naming
from groupjudge.offline.run import JudgeGroup, judge_all
from groupjudge.offline.tally import Pace, Tally, cost, counted

if TYPE_CHECKING:
    from groupjudge.offline.report import Report


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for. `source` `-` is standard input; `pairs`, `best` and `report` are further files;
    `plain`: the pairs' texts as strings instead of messages; `give_up_after`: after so many failed groups in a row no
    further one is begun (0: never); `rules` names the configuration that rewards hang on."""

    source: str
    out: Path
    default_size: int
    max_size: int
    limit: int | None = None
    give_up_after: int = 0
    pairs: Path | None = None
    best: Path | None = None
    report: Path | None = None
    plain: bool = False
    rules: str = ""


async def run(
    request: Request,
    judge: JudgeGroup,
    console: Console,
    usage: Callable[[], Sequence[JudgeUsage]] = tuple,
) -> Tally:
    """Judge the file, then write what was asked for beside. Messages go to `console`. `usage` tells what
    judging has cost so far. Raises ConfigurationError."""
    _check_files(request)
    report = _report(request)
    tally = Tally()
    try:
        await _judge_and_write(request, judge, console, tally, report)
    except Exception:
        if tally.done:
            _summarize(tally, usage(), console)
        raise
    except BaseException:
        _say(console, "interrupted: what was judged is kept, and the same command goes on from there")
        _summarize(tally, usage(), console)
        raise
    _summarize(tally, usage(), console)
    return tally


async def _judge_and_write(
    request: Request, judge: JudgeGroup, console: Console, tally: Tally, report: Report | None
) -> None:
    with _input_file(request.source) as source, Output(request.out, request.rules) as output:
        # Only a bar needs to know how many there are, which costs reading everything once more.
        total = sum(1 for _ in _groups(request, source)) if console.is_terminal else None
        with _progress(console, total) as tell:
            groups = _groups(request, source)
            await judge_all(
                groups, output, judge, tell, tally=tally, limit=request.limit, give_up_after=request.give_up_after
            )
        output.sync()
        # While the output is still locked: no other run may write what is read here.
        _write_beside(request, source, report, console)
    if report and request.report:
        _write_page(request.report, report.page(tally), console)


def _summarize(tally: Tally, usage: Sequence[JudgeUsage], console: Console) -> None:
    gave_up = (_gave_up(tally),) if tally.gave_up else ()
    _say(console, *gave_up, tally.summary(), *map(cost, usage))


def _say(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _check_files(request: Request) -> None:
    """No file may be written over another, and none over what is no file."""
    targets = [path for path in (request.out, request.pairs, request.best, request.report) if path is not None]
    resolved = [path.resolve() for path in (Path(request.source), *targets)]
    if len(set(resolved)) < len(resolved):
        raise ConfigurationError("INPUT, --out, --pairs, --best and --report must be different files")
    for path in targets:
        if path.exists() and not path.is_file():
            raise ConfigurationError(f"cannot write {path}: {_no_file(path)}")
        if not path.absolute().parent.is_dir():
            raise ConfigurationError(f"cannot write {path}: no such directory")


def _no_file(path: Path) -> str:
    """What a path that names no regular file names instead."""
    if path.is_dir():
        return "it is a directory"
    return "it is no regular file" if path.exists() else "no such file"


def _groups(request: Request, source: Path) -> Iterator[FileGroup | BadLine]:
    with open(source, "rb") as file:
        yield from read_groups(file, request.default_size, request.max_size)


@contextmanager
def _input_file(source: str) -> Iterator[Path]:
    """The input as a file that can be read more than once."""
    if source != "-":
        if not Path(source).is_file():
            raise ConfigurationError(f"cannot read {source}: {_no_file(Path(source))} (- reads standard input)")
        yield Path(source)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "input.jsonl")
        with naming(path), open(path, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield path


@contextmanager
def _progress(console: Console, total: int | None) -> Iterator[Callable[[Tally, str | None], None]]:
    """A bar on a terminal; elsewhere only the messages."""
    pace = Pace()
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(
            "groups, {task.fields[pace]:.1f} verdicts/s, {task.fields[defaulted]} default scores, "
            "{task.fields[failures]} failures"
        ),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("groups", total=total, pace=0.0, defaulted=0, failures=0)

        def tell(tally: Tally, message: str | None) -> None:
            rate = pace.per_second(time.monotonic(), tally.verdicts)
            counts: dict[str, Any] = {"defaulted": tally.defaulted, "failures": tally.failures.count}
            progress.update(bar, completed=tally.done, pace=rate, **counts)
            if message is not None:
                _say(console, message)

        yield tell


def _report(request: Request) -> Report | None:
    """The report to fill, where one is wanted. Raises ConfigurationError where the extra is missing, before anything
    is judged."""
    if request.report is None:
        return None
    try:
        from groupjudge.offline.report import Report
    except ImportError as error:
        raise ConfigurationError(
            f"--report needs the extra `report` ({error.name} is missing): pip install 'groupjudge[report]'"
        ) from None
    name = "standard input" if request.source == "-" else Path(request.source).name
    return Report(About.of(name, request.rules))


def _write_page(path: Path, page: str, console: Console) -> None:
    with WholeFile(path) as file:
        file.write(page.encode("utf-8", "replace"))
    _say(console, f"report in {path}")


def _write_beside(request: Request, source: Path, report: Report | None, console: Console) -> None:
    """The files that are made from the input and its rewards, all in one pass."""
    if request.pairs is None and request.best is None and report is None:
        return
    without_best = 0
    with ExitStack() as files:
        pairs = files.enter_context(LinesFile(request.pairs)) if request.pairs else None
        bests = files.enter_context(LinesFile(request.best)) if request.best else None
        for group, row in judged_groups(_groups(request, source), request.out, request.rules):
            rewards = row["rewards"]
            if pairs and (preferred := pair(group, rewards, conversational=not request.plain)):
                pairs.add(preferred)
            if bests and row.get("failure_kind") is None:
                bests.add(best(group, rewards))
            elif bests:
                without_best += 1
            if report:
                report.add(group, row)
    for written, noun in ((pairs, "preference pair"), (bests, "best answer")):
        if written:
            console.print(f"{counted(written.count, noun)} in {written.path}", markup=False, soft_wrap=True)
    if without_best:
        why = "default scores stood in for verdicts"
        console.print(f"{counted(without_best, 'group')} without a best answer: {why}", markup=False, soft_wrap=True)


def _gave_up(tally: Tally) -> str:
    last = tally.failures.last.rstrip(". ")
    if tally.spent:
        return f"stopped: {last}. What was judged is kept, and the same command goes on from there"
    return (
        f"gave up: {tally.failures.in_a_row} groups in a row failed, the last because {last}. "
        "What was judged is kept: mend the judge and run the same command again (--give-up-after sets the number)"
    )
