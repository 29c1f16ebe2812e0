"""Starting and stopping: builds the parts from the settings, serves until a signal, and leaves nothing behind (L19)."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from typing import NamedTuple

import structlog
import uvicorn
import uvloop

from groupjudge.answers.slots import slots_per_file
from groupjudge.answers.spool import Spool
from groupjudge.core.book import Book, Limits
from groupjudge.errors import ConfigurationError
from groupjudge.service.analyst import Analyst
from groupjudge.service.app import Parts, build_app
from groupjudge.service.at_once import AtOnce
from groupjudge.service.bodies import BodyReader
from groupjudge.service.checkpointing import Participant
from groupjudge.service.compare import Compare
from groupjudge.service.control import ControlPlane
from groupjudge.service.control_routes import ControlRoutes
from groupjudge.service.extras import ExtraRoute
from groupjudge.service.gauges import Insides, watched
from groupjudge.service.host import Host
from groupjudge.service.intake import Intake
from groupjudge.service.judge import JudgeWhole
from groupjudge.service.judges import Judges, most_calls
from groupjudge.service.lag import LoopProbe
from groupjudge.service.login import Logins
from groupjudge.service.logs import configure_logs
from groupjudge.service.members import Members
from groupjudge.service.metrics import Metrics
from groupjudge.service.protocol import FrugalConnection
from groupjudge.service.readiness import Readiness
from groupjudge.service.sessions import Cookies, SessionTable, signing_secret
from groupjudge.service.status import Status
from groupjudge.service.verify import Verify
from groupjudge.service.visits import Door, Episodes, NoEpisodes, OpenEpisodes
from groupjudge.settings import Settings

log = structlog.get_logger(__name__)

KEEP_ALIVE_S = 75
LAST_READ_S = 0.1
"""So long after the listener closed what callers are sending is read, and answered."""
BACKLOG = 4096
_DESCRIPTORS_KEPT = 96
_LONGEST_HOST = 253
_STOPPING = (signal.SIGTERM, signal.SIGINT)
# The numbers of malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


class PortTakenError(ConfigurationError):
    """The address cannot be bound."""


def serve(settings: Settings, *, extras: Sequence[ExtraRoute] = (), on_listening: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `on_listening` gets the address once connections are accepted. `extras` are served
    beside our own routes.

    The process is to end after that: further such signals are ignored, so that they do not change its exit status.
    Raises ConfigurationError where the configuration cannot be served (a port in use, a judge that cannot be built).
    """
    configure_logs()
    raise_descriptor_limit()
    calm_collector()
    calm_allocator()
    uvloop.run(_serve(settings, extras, on_listening))


async def _serve(settings: Settings, extras: Sequence[ExtraRoute], on_listening: Callable[[str], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Not the loop's own handlers: it takes them away at its end, and a signal that comes then would end the process.
    afterwards = {number: signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set)) for number in _STOPPING}
    try:
        async with running(settings, extras) as address:
            on_listening(address)
            await stop.wait()
            log.info("stopping")
        log.info("stopped")
        afterwards = dict.fromkeys(_STOPPING, signal.SIG_IGN)
    finally:
        for number, handler in afterwards.items():
            signal.signal(number, handler)


@asynccontextmanager
async def running(settings: Settings, extras: Sequence[ExtraRoute] = ()) -> AsyncIterator[str]:
    """A server that accepts connections, as long as the context lasts; gives its address (`http://host:port`)."""
    sock = bind(settings.server.host, settings.server.port)
    async with _parts(settings) as parts:
        server = _Server(_uvicorn_config(settings, build_app(parts, extras), parts.reader.intake))
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            await server.accepts(serving)
            log.info("listening", address=_address(sock))
            yield _address(sock)
        finally:
            await parts.close()
            server.should_exit = True
            await serving


def raise_descriptor_limit() -> None:
    """Every waiting caller holds a connection, and its judge calls do: take what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def bodies_to_spool(open_files: int, judge_calls: int, per_file: int) -> int:
    """How many bodies may wait on disk, `per_file` to a file, where this process may have so many `open_files`. Each
    holds a connection too; the calls to the judge (half of all at most) and some callers that are refused must find
    descriptors, or nobody could be accepted."""
    room = open_files - _DESCRIPTORS_KEPT - min(judge_calls, open_files // 2)
    return max(1, room * per_file // (per_file + 1))


def _spool(settings: Settings) -> Spool:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = None
    if soft != resource.RLIM_INFINITY:
        most = bodies_to_spool(soft, most_calls(settings), slots_per_file())
    return Spool(settings.limits.spool_threshold_bytes, most_on_disk=most)


def calm_collector() -> None:
    """Look for garbage in cycles a little at a time. What is alive is cold: beside 8,192 callers that wait, looking at
    20,000 objects takes 25 ms, at 4,000 it takes 5 ms. Full collections look at all that is retained (100 ms beside
    4,096 groups of 16), so they are rare: such garbage is little here and mostly young."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(1_000, 3, 5_000)


def calm_allocator() -> None:
    """Keep the memory of large bodies for the next ones. The C library would give it back to the system at once, and
    each new page costs: of a body of 1.85 MB a fifth of all its time. Other C libraries have no such call."""
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for option, value in ((_M_TRIM_THRESHOLD, 32 << 20), (_M_MMAP_THRESHOLD, 16 << 20)):
        set_option(option, value)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket of our own; raises PortTakenError in one line where it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except (OSError, TypeError, ValueError) as error:  # the latter two: a text that can be no name
        sock.close()
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        shown = host if host.isprintable() and len(host) <= _LONGEST_HOST else repr(host[:_LONGEST_HOST])
        raise PortTakenError(
            f"cannot listen on {shown}:{port}: {why}; choose another server.port or server.host"
        ) from None
    sock.setblocking(False)
    return sock


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _uvicorn_config(settings: Settings, app: object, intake: Intake) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        loop="none",
        http=partial(FrugalConnection, intake=intake),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.server.grace_s,  # type: ignore[arg-type]  # it is only waited for
        backlog=BACKLOG,
    )


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: it would raise a caught signal again, and the exit status would not be 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and read what was sent until then before connections without a request are closed: uvicorn
        closes them at once, and a request that nobody had read yet would have no reply."""
        for server in self.servers:
            server.close()
        for sock in sockets or []:
            sock.close()
        await asyncio.sleep(LAST_READ_S)
        await super().shutdown(sockets)

    async def accepts(self, serving: asyncio.Task[None]) -> None:
        """Return once connections are accepted; raise what kept `serving` from it."""
        while not self.started:
            if serving.done():
                serving.result()
                raise ConfigurationError("the HTTP server stopped while it started")
            await asyncio.sleep(0.005)


@asynccontextmanager
async def _parts(settings: Settings) -> AsyncIterator[Parts]:
    """Everything behind the routes, built from the settings; the judge is closed at the end."""
    metrics = Metrics()
    limits = settings.limits
    spool = _spool(settings)
    analyst = _analyst(settings, spool)
    judges = Judges(settings, metrics)
    intake = Intake()
    try:
        host = Host(Book(_limits(settings)), judges.judge, metrics, open_early=judges.open_early)
        reader = BodyReader(limits.max_body_bytes, settings.server.body_timeout_s, spool, intake)
        at_once = AtOnce(judges.judge, settings.group.judging_timeout_s, metrics)
        insides = Insides(host, reader, spool, judges, at_once, settings.retention)
        metrics.watch(watched(insides))
        readiness = Readiness(judges.reachable)
        secret = signing_secret(settings.session.secret, settings.session.state_dir)
        sessions = _sessions(settings, host, reader, secret)
        token = settings.server.auth_token
        with closing(LoopProbe(lambda late: metrics.looked(late, host.census))):
            yield Parts(
                settings,
                host,
                reader,
                readiness,
                metrics,
                Status(settings, insides, metrics, readiness),
                None if token is None else Logins(token, secret),
                Verify(host, reader, analyst, sessions.episodes, metrics),
                Compare(settings, at_once, reader, analyst, metrics),
                JudgeWhole(settings, host, at_once, reader, analyst, sessions.episodes, metrics),
                at_once,
                Members(host, sessions.episodes, metrics),
                *sessions,
            )
    finally:
        analyst.close()
        intake.close()
        await judges.close()


class _Sessions(NamedTuple):
    """The parts that sessions and checkpoints need; without checkpointing there is neither participant nor control."""

    episodes: Episodes
    door: Door
    participant: Participant | None = None
    control: ControlRoutes | None = None


def _sessions(settings: Settings, host: Host, reader: BodyReader, secret: str) -> _Sessions:
    cookies = Cookies(secret)
    checkpoint, door = settings.checkpoint, Door()
    if not checkpoint.enabled or checkpoint.auth_token is None:
        return _Sessions(NoEpisodes(cookies), door)
    if settings.session.secret is None and settings.session.state_dir is None:
        log.warning("session_key_is_not_kept", remedy="set session.state_dir, or cookies end with this process")
    table = SessionTable()
    episodes = OpenEpisodes(table, cookies, door, lambda session: host.session_over(session, dropped=False))
    plane = ControlPlane(checkpoint.lease_grace_s)
    participant = Participant(checkpoint.instance, checkpoint.root_dir, plane, host, table, episodes)
    return _Sessions(episodes, door, participant, ControlRoutes(participant, reader, checkpoint.auth_token))


def _analyst(settings: Settings, spool: Spool) -> Analyst:
    return Analyst(spool, default_size=settings.group.size, max_size=settings.limits.max_group_size)


def _limits(settings: Settings) -> Limits:
    return Limits(
        collection_timeout_s=settings.group.collection_timeout_s,
        judging_timeout_s=settings.group.judging_timeout_s,
        ttl_s=settings.retention.ttl_s,
        max_results=settings.retention.max_results,
        max_attempt_records=settings.retention.max_attempt_records,
        max_active_groups=settings.limits.max_active_groups,
        default_score=settings.scoring.default_score,
        eager=settings.comparison.start == "eager",
        min_members=settings.group.min_members if settings.group.on_collection_timeout == "judge_present" else None,
    )
