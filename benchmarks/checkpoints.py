"""What taking part in checkpoints costs (C26): a request beside 4,096 finished groups of 16, a commit of 65,536 open
sessions, and how long it keeps the event loop from other work.

All but the whole request is in one process, without sockets: the parts that `groupjudge serve` builds, filled by hand.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import os
import shutil
import statistics
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import structlog
import uvloop
from starlette.types import ASGIApp, Message, Scope

from benchmarks.load import Load, group_of
from benchmarks.table import Row
from benchmarks.workloads import P1, cpu_ms, judged
from groupjudge.checkpoints.records import Episode
from groupjudge.core.backing import SessionId
from groupjudge.core.effects import StartJudging
from groupjudge.model import Arrival, Fingerprint, GroupId, Judgement
from groupjudge.service.app import Parts, build_app
from groupjudge.service.run import _parts, calm_collector
from groupjudge.service.sessions import Cookies, SessionTable, new_session_id
from groupjudge.settings import Settings

GROUPS, N = 4096, 16
ROUNDS = 7
SECRET = "s" * 64
QUESTION = Fingerprint(hashlib.sha256(b"question").digest())
JUDGEMENT = Judgement(tuple(2.0 + slot / 8 for slot in range(N)), (), None)


async def requests() -> list[Row]:
    """CPU of a `/verify`, in a session and with checkpoints, beside one without, by turns."""
    async with AsyncExitStack() as stack:
        places = [await stack.enter_async_context(_served(enabled=enabled)) for enabled in (True, False)]
        for place in places:
            await place.groups(8)
        costs = [[await place.groups(32) for place in places] for _ in range(2 * ROUNDS)]
    on, off = (1e6 * min(column) for column in zip(*costs, strict=True))
    ratio = statistics.median(row[0] / row[1] for row in costs)
    what = f"a request in a session, without sockets, beside {GROUPS:,} finished groups of {N}"
    return [
        Row("C26", what, "us", on, 1.05 * off, off, note=f"baseline: checkpoints off; median of ratios {ratio:.2f}")
    ]


async def whole_requests() -> list[Row]:
    """CPU of a `/verify` over a socket, judge call included, in a session and with checkpoints, beside one without."""
    members, costs = group_of(P1), []
    async with AsyncExitStack() as stack:
        places = []
        for enabled in ("true", "false"):
            sets = (f"checkpoint.enabled={enabled}", "checkpoint.auth_token=secret", f"session.secret={SECRET}")
            server, _ = await stack.enter_async_context(judged(*sets))
            places.append((server, Load(server.address, "/ng-rollout/episode/verify", _cookie(server.address))))
        for _ in range(2 * ROUNDS):
            costs.append([await cpu_ms(server, load, members, 20, 8) for server, load in places])
        for _, load in places:
            load.close()
    on, off = (min(column) for column in zip(*costs[1:], strict=True))
    ratio = statistics.median(row[0] / row[1] for row in costs[1:])
    note = f"baseline: checkpoints off; median of ratios {ratio:.2f}"
    return [Row("C26", "a whole request in a session, 1 KB, judge call included", "ms", on, 1.05 * off, off, note=note)]


def _cookie(address: str) -> bytes:
    """The header lines of a caller that seeded a session and closes it later."""
    headers = {"Content-Type": "application/json"}
    seed = urllib.request.Request(address + "/ng-rollout/episode/seed_session", b"{}", headers)
    with urllib.request.urlopen(seed) as reply:
        cookie = reply.headers["set-cookie"].partition(";")[0]
    return f"Cookie: {cookie}\r\nx-ng-close-follows: 1\r\n".encode()


async def commits() -> list[Row]:
    """How long a commit takes, beside writing the same bytes, and the longest stall of the loop meanwhile."""
    async with _served(enabled=True) as place:
        taken, written, stalls, calm = [], [], [], []
        for number in range(ROUNDS):
            with tempfile.TemporaryDirectory() as folder:
                watch = asyncio.ensure_future(_longest_stall())
                taken.append(await place.commit(Path(folder) / "ck", f"ck{number}"))
                stalls.append(await _ended(watch))
                data = _records_in(folder)
                watch = asyncio.ensure_future(_longest_stall())
                written.append(await asyncio.to_thread(_write, Path(folder) / "raw", data))
                calm.append(await _ended(watch))
                shutil.rmtree(Path(folder) / "ck")
    count = GROUPS * N
    ms = [1e3 * min(each) for each in (taken, written, stalls, calm)]
    beside = f"baseline: hashing, writing and flushing its {len(data) / 1e6:.0f} MB"
    return [
        Row("C26", f"commit of {count:,} open sessions", "ms", ms[0], 3 * ms[1], ms[1], note=beside),
        Row("C26", "longest stall of the loop meanwhile", "ms", ms[2], 25.0, ms[3], note=beside),
    ]


class Place:
    """A server without sockets. Its finished groups were all brought in sessions that are still open."""

    def __init__(self, parts: Parts, app: ASGIApp) -> None:
        self._parts = parts
        self._app = app
        self._cookies = Cookies(SECRET)
        self._numbers = 0

    def fill(self) -> None:
        """Straight into the book: what went through the routes would look the same."""
        book = self._parts.host._book
        table = SessionTable() if self._parts.participant is None else self._parts.participant._table
        for number in range(GROUPS):
            for slot in range(N):
                session = new_session_id()
                table.seed(Episode(f"rollout-{number}-{slot}"), session)
                answer = Fingerprint(hashlib.sha256(b"%d %d" % (number, slot)).digest())
                group = GroupId(f"old-group-{number}")
                book.arrive(Arrival(group, 0, N, slot, QUESTION, answer, None, None), 0.0, session)
            start = cast(StartJudging, book.drain()[-1])
            book.judged(start.run, JUDGEMENT, 0.0)
            book.drain()
        if self._parts.participant is not None:
            self._parts.participant._lines.lines(table)

    async def groups(self, count: int) -> float:
        """CPU seconds of one request of so many groups."""
        asked = [await self._requests() for _ in range(count)]
        gc.collect()
        began = time.process_time()
        for group in asked:
            await asyncio.gather(*(self._verify(*each) for each in group))
        return (time.process_time() - began) / (count * N)

    async def _requests(self) -> list[tuple[Scope, bytes]]:
        """A group's requests, their sessions seeded before."""
        self._numbers += 1
        found = []
        for slot in range(N):
            episode, session = Episode(f"rollout-new-{self._numbers}-{slot}"), new_session_id()
            if self._parts.participant is not None:
                self._parts.participant._table.seed(episode, session).cookie_by(self._cookies)
            found.append((self._scope(episode, session), _body(f"new-{self._numbers}", slot)))
        return found

    def _scope(self, episode: Episode, session: SessionId) -> Scope:
        _, cookie = self._cookies.give(session)
        headers = [
            (b"host", b"x"),
            (b"content-type", b"application/json"),
            (b"cookie", cookie.partition(b";")[0]),
            (b"x-ng-close-follows", b"1"),
        ]
        path = f"/ng-rollout/{episode.key}/verify"
        return {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers, "state": {}}

    async def _verify(self, scope: Scope, body: bytes) -> None:
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        statuses = []

        async def receive() -> Message:
            if messages:
                return messages.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            statuses.append(message.get("status"))

        await self._app(scope, receive, send)
        assert statuses[0] == 200

    async def commit(self, directory: Path, checkpoint_id: str) -> float:
        """Seconds of a commit of everything."""
        participant = self._parts.participant
        assert participant is not None
        participant.prepare(checkpoint_id, time.time() + 600)
        began = time.perf_counter()
        await participant.commit(checkpoint_id, time.time() + 600, str(directory), None)
        took = time.perf_counter() - began
        await participant.resume(checkpoint_id)
        return took


@asynccontextmanager
async def _served(*, enabled: bool) -> AsyncIterator[Place]:
    checkpoint = {"enabled": enabled, "auth_token": "t"}
    values = {"judge": {"format": "responses"}, "session": {"secret": SECRET}, "checkpoint": checkpoint}
    async with _parts(Settings.model_validate(values)) as parts:
        parts.host._judge = _judge
        parts.host._clock = time.monotonic
        place = Place(parts, build_app(parts))
        place.fill()
        calm_collector()
        yield place
        await parts.close()


async def _judge(topic: object, texts: object) -> Judgement:
    return JUDGEMENT


def _body(group: str, slot: int) -> bytes:
    part = {"type": "output_text", "text": f"answer {slot}", "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    fields = {
        "responses_create_params": {"input": [{"role": "user", "content": f"Question of {group}?"}]},
        "response": {"id": "r", "object": "response", "output": [message]},
        "_ng_group_id": group,
        "_ng_rollout_index": slot,
        "_ng_group_size": N,
    }
    return json.dumps(fields).encode()


def _records_in(folder: str) -> bytes:
    return next(Path(folder).rglob("*.jsonl")).read_bytes()


def _write(path: Path, data: bytes) -> float:
    """Write the bytes as C12 asks of whoever writes them: hashed, flushed to disk, renamed, the entry flushed."""
    began = time.perf_counter()
    with path.with_suffix(".tmp").open("wb") as file:
        file.write(data)
        hashlib.sha256(data).hexdigest()
        file.flush()
        os.fsync(file.fileno())
    path.with_suffix(".tmp").rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    return time.perf_counter() - began


async def _longest_stall() -> float:
    """Until it is cancelled: the longest time by which a millisecond's sleep was late."""
    longest = 0.0
    try:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - began - 0.001)
    except asyncio.CancelledError:
        return longest


async def _ended(watch: asyncio.Future[float]) -> float:
    watch.cancel()
    return await watch


def on_uvloop(work: Callable[[], Any]) -> list[Row]:
    """Measure on the loop that the server uses, and without its log."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    rows: list[Row] = uvloop.run(work())
    return rows


def measure() -> list[Row]:
    """Every figure."""
    return [*on_uvloop(commits), *on_uvloop(requests), *asyncio.run(whole_requests())]
