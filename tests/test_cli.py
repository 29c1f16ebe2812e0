"""The command line, as a person or a script meets it (H13)."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import groupjudge
from groupjudge import cli
from groupjudge.configuration import load
from groupjudge.errors import ConfigurationError, GroupFailed
from groupjudge.settings import Settings

# As a user's: no settings of ours, and output that is written when its buffer is full or the process ends.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.upper().startswith("GROUPJUDGE_") and name != "PYTHONUNBUFFERED"
}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`groupjudge ARGUMENTS` as a process of its own."""
    command = [sys.executable, "-m", "groupjudge", *arguments]
    return subprocess.run(
        command, env=ENVIRONMENT | environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def failing() -> Iterator[Callable[[BaseException], None]]:
    """Gives a function that makes the command `fail` raise what it is handed; the command goes with the test."""

    def install(error: BaseException) -> None:
        @cli.cli.command("fail")
        @cli.debuggable
        def fail() -> None:
            raise error

    yield install
    cli.cli.commands.pop("fail", None)


# --- what a script sees: a real process ---


def test_the_version_is_one_line() -> None:
    """H13: exit status 0."""
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"groupjudge {groupjudge.__version__}\n", "")


def test_config_prints_what_file_environment_and_options_give(tmp_path: Path) -> None:
    """H12, H13: and the print is a file that gives the same."""
    file = tmp_path / "c.yaml"
    file.write_text("group: {size: 2, judging_timeout_s: 5}\nserver: {port: 1}\n")
    done = run("config", "--config", str(file), "--set", "server.port=3", GROUPJUDGE_GROUP__SIZE="4")
    assert (done.returncode, done.stderr) == (0, "")
    file.write_text(done.stdout)
    expected = {"group": {"size": 4, "judging_timeout_s": 5}, "server": {"port": 3}}
    assert load(file, {}, []) == Settings.model_validate(expected)


@pytest.mark.parametrize("command", ["config", "serve"])
def test_a_bad_configuration_is_status_2_and_a_line_for_each_problem(command: str) -> None:
    """H13: on stderr, without a traceback, before anything is started."""
    done = run(command, "--set", "group.size=0", "--set", "judge.formt=x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "groupjudge: error: judge.formt: unknown key; did you mean judge.format? (--set judge.formt)",
        "groupjudge: error: group.size: must be greater than or equal to 1, not 0 (--set group.size)",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--nope"], "No such option"),
        (["nope"], "No such command"),
        (["serve", "--nope"], "No such option"),
        (["serve", "extra"], "unexpected extra argument"),
        (["config", "--set"], "requires an argument"),
        (["config", "--config", "a", "--set"], "requires an argument"),
    ],
)
def test_bad_usage_is_status_2_and_one_line_that_says_where_to_look(arguments: list[str], says: str) -> None:
    """H13: no usage text over several lines."""
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert says in line
    assert line.endswith("--help)")


def test_no_command_is_bad_usage_and_shows_the_help() -> None:
    """H13: on stderr, since nothing was asked for."""
    done = run()
    assert (done.returncode, done.stdout) == (2, "")
    assert "serve" in done.stderr
    assert "config" in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["serve", "--help"], ["config", "-h"]])
def test_help_is_a_success(arguments: list[str]) -> None:
    """H13: on stdout."""
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: groupjudge")


@pytest.mark.parametrize("command", ["config", "chatty"])
def test_a_reader_that_goes_away_is_no_traceback(command: str) -> None:
    """H13: as in `groupjudge config | head -1`; also where a command left its output to be written at the end."""
    script = (
        "import sys; from groupjudge import cli; cli.cli.command('chatty')(lambda: print('x')); "
        f"sys.exit(cli.main(['{command}']))"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_light_commands_load_no_server() -> None:
    """H13: `--version` and `config` start at once, so neither may import what only serving and judging need."""
    script = (
        "import sys; from groupjudge.cli import main; status = main(sys.argv[1:]); "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr); sys.exit(status)"
    )
    heavy = {"aiohttp", "uvicorn", "starlette", "prometheus_client", "rich", "numpy", "structlog", "xllamacpp"}
    for command, more in (("--version", {"pydantic", "ruamel", "asyncio"}), ("config", set())):
        done = subprocess.run(
            [sys.executable, "-c", script, command], env=ENVIRONMENT, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0
        assert not set(done.stderr.split()) & (heavy | more)


def test_a_module_run_is_the_command() -> None:
    """H13: `python -m groupjudge` calls itself by the command's name; the installed command is `main`."""
    assert run("serve", "--help").stdout.startswith("Usage: groupjudge serve ")
    (command,) = [entry for entry in _entry_points() if entry.name == "groupjudge"]
    assert command.load() is cli.main


def _entry_points() -> Any:
    from importlib.metadata import entry_points

    return entry_points(group="console_scripts")


# --- what a failing command leads to ---


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (ConfigurationError("server.port: 1 is taken"), 2, "server.port: 1 is taken"),
        (GroupFailed("no member\ncame"), 1, "no member came"),
        (FileNotFoundError(errno.ENOENT, "No such file", "in.jsonl"), 1, "in.jsonl: No such file"),
        (OSError(errno.ENOSPC, "No space left"), 1, "No space left"),
        (OSError("odd"), 1, "OSError: odd (--debug shows where)"),
        (KeyError("x"), 1, "KeyError: 'x' (--debug shows where)"),
        (click.ClickException("a file is bad"), 1, "a file is bad"),
        (click.UsageError("no input"), 2, "no input (see groupjudge fail --help)"),
        (ValueError("y" * 5000), 1, "ValueError: " + "y" * 988),
    ],
)
def test_an_error_is_one_bounded_line_and_a_status(
    error: Exception,
    status: int,
    line: str,
    failing: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """H13: 2 for usage and configuration, 1 for everything else, no traceback."""
    failing(error)
    assert cli.main(["fail"]) == status
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"groupjudge: error: {line}\n")


def test_debug_adds_the_traceback_and_changes_neither_line_nor_status(
    failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """H13: before the line, so that the line is the last thing seen."""
    failing(KeyError("x"))
    assert cli.main(["fail", "--debug"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last)")
    assert said.endswith("groupjudge: error: KeyError: 'x' (--debug shows where)\n")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupted_command_ends_quietly(
    error: BaseException, failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """H13: with the status that a shell expects of Ctrl-C."""
    failing(error)
    assert cli.main(["fail"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_command_may_choose_its_status() -> None:
    """H14: `judge` ends with 1 where a line was bad; a command that says nothing succeeded."""
    for returned, status in ((1, 1), (0, 0), (None, 0)):
        cli.cli.add_command(click.Command("chosen", callback=lambda returned=returned: returned))
        try:
            assert cli.main(["chosen"]) == status
        finally:
            cli.cli.commands.pop("chosen")


# --- serve ---


def test_serve_says_its_address_once_it_listens_and_stops_cleanly(tmp_path: Path) -> None:
    """H13, L19: the line comes when connections are accepted, through a pipe too; SIGTERM ends it with status 0."""
    command = [sys.executable, "-m", "groupjudge", "serve", "--set", "server.port=0"]
    with subprocess.Popen(
        command, env=ENVIRONMENT, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line.startswith("groupjudge listens on http://127.0.0.1:")
            port = int(line.rstrip().rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), timeout=10):
                pass
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=30) == 0
        finally:
            server.kill()


def test_serve_says_in_one_line_that_its_port_is_taken() -> None:
    """H13, H10a: without a traceback, naming the port."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run("serve", "--set", f"server.port={port}")
    assert done.returncode in (1, 2)
    assert str(port) in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
