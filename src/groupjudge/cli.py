"""The command line (H13). Each command is a small function that imports what it needs when it runs, so that the light
ones start at once.

Exit status: 0 success, 2 bad usage or configuration, 1 any other failure, 130 interrupted by Ctrl-C. An error is one
line on stderr (a configuration has one for each problem); `--debug` adds the traceback.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from groupjudge import __version__
from groupjudge.errors import ConfigurationError, GroupJudgeError

if TYPE_CHECKING:
    from groupjudge.settings import Settings

_Command = TypeVar("_Command", bound=Callable[..., Any])

_INTERRUPTED = 130  # what a shell expects of a program that Ctrl-C ended
_LONGEST_LINE = 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (default: the process's own) name, and return the exit status."""
    run = _Run()
    try:
        result = cli.main(arguments, prog_name="groupjudge", standalone_mode=False, obj=run)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except BrokenPipeError:
        _silence_stdout()
        return 1
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    except Exception as error:
        if run.debug:
            traceback.print_exc()
        return _report(error)


@dataclass
class _Run:
    """What all commands of one run share."""

    debug: bool = False


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Group-relative rewards from a generative judge."""


def _keep_debug(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.ensure_object(_Run).debug |= value


def debuggable(command: _Command) -> _Command:
    """Give a command the option `--debug`, which `main` looks at when the command fails."""
    option = click.option(
        "--debug", is_flag=True, expose_value=False, is_eager=True, callback=_keep_debug, help="Show tracebacks."
    )
    return option(command)


def configured(command: _Command) -> _Command:
    """Give a command the options `--config`, `--set` and `--debug`; it gets `config` and `sets`."""
    file = click.option(
        "--config", "-c", type=click.Path(path_type=Path), metavar="FILE", help="A YAML file with the configuration."
    )
    single = click.option(
        "--set", "sets", multiple=True, metavar="KEY.PATH=VALUE", help="Set one key; can be given many times."
    )
    return file(single(debuggable(command)))


def settings_of(config: Path | None, sets: Sequence[str]) -> Settings:
    """The configuration that the options, the file and this process's environment give (H12)."""
    from groupjudge.configuration import load

    return load(config, os.environ, sets)


@cli.command()
@configured
def serve(config: Path | None, sets: tuple[str, ...]) -> None:
    """Serve until SIGTERM or SIGINT."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # until the server takes the signal over
    settings = settings_of(config, sets)
    from groupjudge.service.run import serve as run

    run(settings, on_listening=lambda address: click.echo(f"groupjudge listens on {address}"))


@cli.command()
@configured
@click.option("--input", "source", type=click.Path(path_type=Path), metavar="FILE", help="Your own tasks (JSON Lines).")
def demo(config: Path | None, sets: tuple[str, ...], source: Path | None) -> None:
    """Judge some groups with the embedded judge, over HTTP, on this machine."""
    settings = settings_of(config, ("judge.format=local", *sets))
    from rich.console import Console

    from groupjudge.demo import TASKS, read_tasks, run

    run(settings, TASKS if source is None else read_tasks(source), Console())


@cli.command()
@configured
@click.argument("source", metavar="INPUT.jsonl")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Rewards, one line a group; resumes there.")
@click.option("--limit", type=click.IntRange(min=1), help="Judge at most so many groups.")
@click.option(
    "--give-up-after",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Stop when so many groups in a row failed; 0: never.",
)
@click.option("--strategy", help="The same as --set comparison.strategy=...")
@click.option("--judges-per-pair", type=click.IntRange(min=1), help="The same as --set comparison.judges_per_pair=...")
@click.option("--pairs", type=click.Path(path_type=Path), help="Also write preference pairs for DPO.")
@click.option("--plain", is_flag=True, help="Preference pairs as plain texts instead of messages.")
@click.option("--best", type=click.Path(path_type=Path), help="Also write the best answer of each group.")
@click.option("--report", type=click.Path(path_type=Path), help="Also write a page about rewards and judge (HTML).")
def judge(config: Path | None, sets: tuple[str, ...], source: str, out: Path, **options: Any) -> int:
    """Judge a file of groups; `-` reads standard input."""
    strategy, judges = options.pop("strategy"), options.pop("judges_per_pair")
    sets += (f"comparison.strategy={strategy}",) if strategy else ()
    sets += (f"comparison.judges_per_pair={judges}",) if judges else ()
    settings = settings_of(config, sets)
    import uvloop
    from rich.console import Console

    from groupjudge.offline.command import Request, run
    from groupjudge.offline.usage import UsageEvents
    from groupjudge.service.judges import judge_with, rules_of
    from groupjudge.service.logs import configure_logs

    configure_logs()
    parts = rules_of(settings)
    request = Request(source, out, settings.group.size, settings.limits.max_group_size, **options, rules=parts)
    console = Console(stderr=True)
    tally = uvloop.run(
        judge_with(settings, lambda judges: run(request, judges.judge, console, judges.usage), UsageEvents())
    )
    return 0 if tally.is_clean else 1


@cli.command("config")
@configured
def show_config(config: Path | None, sets: tuple[str, ...]) -> None:
    """Print the effective configuration; secrets are masked."""
    from groupjudge.configuration import effective

    click.echo(effective(settings_of(config, sets)), nl=False)


@cli.command("nemo-gym")
@debuggable
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite files that say something else.")
def nemo_gym(folder: Path, force: bool) -> None:
    """Write a resources server for NeMo Gym, to stand in for its genrm_compare: resources_servers/NAME."""
    from groupjudge.integrations.nemo_gym import write_folder

    for path in write_folder(folder, force=force):
        click.echo(path)


def _report(error: Exception) -> int:
    """Say on stderr what went wrong, and return the exit status."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return error.exit_code
    lines = str(error).splitlines() if isinstance(error, ConfigurationError) else [_in_one_line(error)]
    for line in lines:
        click.echo(f"groupjudge: error: {line}", err=True)
    if isinstance(error, ConfigurationError):
        return 2
    return error.exit_code if isinstance(error, click.ClickException) else 1


def _in_one_line(error: Exception) -> str:
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "groupjudge"
        text = f"{error.format_message()} (see {command} --help)"
    elif isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, GroupJudgeError):
        text = str(error)
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        text = f"{type(error).__name__}: {error} (--debug shows where)"
    return " ".join(text.split())[:_LONGEST_LINE]


def _silence_stdout() -> None:
    """Nobody reads stdout any more: without this the interpreter complains about it once more when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
