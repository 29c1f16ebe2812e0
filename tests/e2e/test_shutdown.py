"""Stopping in the middle of everything (L19, H13): every caller has its reply, nothing is left, the status is 0; and
starting again after a kill."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM

import pytest

from .calling import BOUND_S, Client, Connection, Reply, cancelled_after, request, until
from .conftest import Serve
from .groups import TOKEN, Group, TextJudge
from .serving import Server, arguments, command, environment
from .test_compare import body as compare_body
from .test_refusals import check


def stopped(replies: Iterable[Reply]) -> None:
    """Every reply says that the server is stopping."""
    for reply in replies:
        check(reply, 503, "shutting_down")


def descendants(pid: int) -> set[int]:
    """The processes that a process started, and those that they did."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return set()
    found = set(map(int, children))
    return found.union(*map(descendants, found))


def is_running(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
async def test_everything_at_once(serve: Serve, judge: TextJudge, group: Group, free: None, number: int) -> None:
    """L19, H6: callers whose group collects, whose group is judged, that compare, and whose body is on its way; judging
    is cancelled and its connections closed. A signal that comes twice does no harm."""
    judging, collecting = replace(group, name=f"{group.name} judged"), group
    judge.hold()
    async with serve() as server:
        client = server.client
        callers = [client.caller(body) for body in judging.bodies()]
        callers += [client.caller(collecting.body(0)), client.caller(collecting.body(0), minimal=True)]
        callers.append(asyncio.ensure_future(client.post("/compare", compare_body(group))))
        async with (
            cancelled_after(callers),
            Connection(server.port) as upload,
            Connection(server.port) as chunks,
            Connection(server.port) as idle,
        ):
            await upload.send(request("POST", "/verify", group.body(1, padding="x" * 100_000))[:-1])
            await chunks.send(request("POST", "/compare", chunks=[compare_body(group)])[:-5])
            assert (await idle.ask(request("GET", "/healthz"))).status == 200
            await judge.until(lambda: judge.in_flight == 8)
            connections = {each.connection for each in judge.received[-8:]}
            await client.until_members(collecting.name, 1, callers=2)

            async def uploading() -> bool:
                return await client.metric("groupjudge_incoming_bodies") == 2

            await until(uploading)
            server.signal(number)
            server.signal(number)
            stopped([await caller for caller in callers])
            stopped([await upload.reply(), await chunks.reply()])
            assert [await each.ends() for each in (upload, chunks, idle)] == [b""] * 3
        assert await server.ended() == 0
        await judge.until(lambda: not judge.open_connections & connections)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)
    assert server.process.stdout is not None
    assert [event["event"] for event in server.events()][-2:] == ["stopping", "stopped"]


@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
async def test_signals_that_come_until_it_has_ended_do_no_harm(serve: Serve, number: int) -> None:
    """L19, H13: a supervisor that repeats itself, or an impatient Ctrl-C, does not change the status."""
    async with serve() as server:
        while server.process.poll() is None:
            server.signal(number)
            await asyncio.sleep(0)
        assert await server.ended() == 0
        assert [event["event"] for event in server.events()][-2:] == ["stopping", "stopped"]


async def test_a_reply_on_its_way_is_finished(serve: Serve, group: Group) -> None:
    """L19: its reader was slow, and has all of it before the process ends."""
    pair = replace(group, size=2)
    answer = pair.fields(0)["response"] | {"padding": "x" * 30_000_000}
    async with serve() as server, Connection(server.port, read_limit=1024) as slow:
        slow.reads_no_more()
        await slow.send(request("POST", "/verify", pair.body(0, response=answer)))
        await server.client.until_members(pair.name, 1, callers=1)
        assert (await server.client.verify(pair.body(1))).json["reward"] == pair.rewards()[1]
        server.signal(SIGTERM)

        async def stopping() -> bool:
            return any(event["event"] == "stopping" for event in server.events())

        await until(stopping)
        slow.reads_again()
        reply = await slow.reply()
        assert reply.status == 200
        assert reply.json["response"] == answer
        assert await server.ended() == 0


async def test_a_reader_that_never_reads_is_left_behind(serve: Serve, group: Group) -> None:
    """L19: after `server.grace_s` the process ends all the same, with status 0."""
    pair = replace(group, size=2)
    answer = pair.fields(0)["response"] | {"padding": "x" * 30_000_000}
    async with serve({"server.grace_s": 0.2}) as server, Connection(server.port, read_limit=1024) as stuck:
        server.may_log |= {
            "Cancel 1 running task(s), timeout graceful shutdown exceeded",
            "Exception in ASGI application\n",
        }
        stuck.reads_no_more()
        await stuck.send(request("POST", "/verify", pair.body(0, response=answer)))
        await server.client.until_members(pair.name, 1, callers=1)
        assert (await server.client.verify(pair.body(1))).status == 200
        assert await server.stop() == 0


async def test_a_kill_under_load_leaves_nothing_in_the_way(
    serve: Serve, judge: TextJudge, group: Group, free: None, tmp_path: Path
) -> None:
    """A killed server's files are gone with it, and so are the processes that it started; the next one takes its port
    at once and knows nothing of before."""
    judge.hold()
    spool = tmp_path / "spool"
    spool.mkdir()
    heavy = group.fields(1)["response"] | {"padding": ["x" * 100] * 70_000}
    async with serve({"limits.spool_threshold_bytes": 10}, env={"TMPDIR": str(spool)}) as server:
        async with cancelled_after([server.client.caller(body) for body in group.bodies()[:3]]) as callers:
            callers.append(server.client.caller(Group("heavy").body(1, response=heavy)))
            await server.client.until_members(group.name, 3, callers=3)
            await server.client.until_members("heavy", 1)
            callers.append(server.client.caller(group.body(3)))
            await judge.until(lambda: judge.is_asked_of(group))
            children = descendants(server.process.pid)
            assert await server.stop(SIGKILL) == -SIGKILL
            ends = await asyncio.gather(*callers, return_exceptions=True)
            assert all(isinstance(end, ConnectionError | asyncio.IncompleteReadError) for end in ends)
        judge.let_go()
        assert list(spool.iterdir()) == []

        async def gone() -> bool:
            return not any(map(is_running, children))

        await until(gone)
        async with serve({"server.port": server.port}) as again:
            assert again.port == server.port
            assert await again.client.groups() == []
            other = replace(group, note="with other answers")
            replies = await asyncio.gather(*map(again.client.verify, other.bodies()))
            assert [reply.json["reward"] for reply in replies] == other.rewards()


# --- starts that fail -------------------------------------------------------------------------------------------------


async def failing(sets: dict[str, object], **env: str) -> str:
    """The one line on stderr of a `serve` that exits with status 2."""
    run = await asyncio.to_thread(
        subprocess.run,
        command("serve", *arguments(sets)),
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        env=environment(**env),
    )
    assert (run.returncode, run.stdout) == (2, "")
    (line,) = run.stderr.splitlines()
    assert line.startswith("groupjudge: error: ")
    return line


async def test_a_port_in_use_is_one_clear_line(server: Server) -> None:
    """H10a, H13: the port is bound exclusively; the line says what to change."""
    line = await failing({"server.port": server.port, "judge.format": "responses"})
    assert f"127.0.0.1:{server.port}" in line
    assert "server.port" in line


async def test_a_host_that_is_not_here_is_one_clear_line() -> None:
    """H13."""
    assert "192.0.2.1" in await failing({"server.host": "192.0.2.1"})


@pytest.mark.parametrize(
    ("sets", "clues"),
    [
        ({"group.size": 0}, ("group.size", "0")),
        ({"nonsense": 1}, ("nonsense",)),
        ({"judge.base_url": "nowhere"}, ("judge.base_url", "nowhere")),
        ({"judge.template": "/nowhere/at/all", "judge.format": "template"}, ("/nowhere/at/all",)),
    ],
)
async def test_a_bad_configuration_is_one_clear_line(sets: dict[str, object], clues: tuple[str, ...]) -> None:
    """H12, H13: it names the key and the value."""
    line = await failing(sets)
    assert all(clue in line for clue in clues)
    assert TOKEN not in line


async def test_idle_connections_are_kept_and_a_listener_takes_many(server: Server) -> None:
    """H10a: a hundred idle connections harm nobody."""
    sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    try:
        client: Client = server.client
        assert (await client.get("/healthz")).status == 200
    finally:
        for each in sockets:
            each.close()
