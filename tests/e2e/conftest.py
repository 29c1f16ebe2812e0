"""Servers for the end-to-end tests. Most tests share one, with a judge that reads; some start their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

from .calling import Client
from .groups import Group, TextJudge
from .serving import Server, serving

HERE = Path(__file__).parent
SHARED = {
    "group.size": 4,
    "limits.max_body_bytes": 400_000,
    "limits.spool_threshold_bytes": 4000,
    "judge.retries": 0,
    "judge.params": {},
    "scoring.score_range": None,
}
"""The shared server's configuration. Bodies of both kinds, kept in memory and spooled, come up."""

Serve = Callable[..., AbstractAsyncContextManager[Server]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here run on one loop, since they share servers and a judge."""
    for item in items:
        if HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def judge() -> AsyncIterator[TextJudge]:
    async with TextJudge() as judge:
        yield judge


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server(judge: TextJudge, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """The shared server. What is logged meanwhile is checked at the end."""
    sets = {**SHARED, "judge.base_url": judge.base_url}
    async with serving(sets, tmp_path_factory.mktemp("shared") / "log") as server:
        yield server


@pytest.fixture
def client(server: Server) -> Client:
    """Calls the shared server."""
    return server.client


@pytest.fixture
def free(judge: TextJudge) -> AsyncIterator[None]:
    """Whatever a test holds at the judge goes on after it."""
    yield
    judge.let_go()


@pytest.fixture
def serve(judge: TextJudge, tmp_path: Path) -> Serve:
    """Starts a server of one's own: `async with serve({"group.size": 2}) as server`."""
    numbers = count()

    def start(sets: dict[str, object] | None = None, **how: object) -> AbstractAsyncContextManager[Server]:
        sets = {"judge.base_url": judge.base_url, "judge.retries": 0, "judge.params": {}, **(sets or {})}
        return serving(sets, tmp_path / f"log{next(numbers)}", **how)  # type: ignore[arg-type]

    return start


_names = count()


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Group:
    """A group of four that no other test uses."""
    return Group(f"{request.node.name}-{next(_names)}")
