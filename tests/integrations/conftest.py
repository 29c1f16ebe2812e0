"""What the tests of adapters share: a judge that refuses some questions, and a real server that asks it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.e2e.groups import TextJudge, shown
from tests.e2e.serving import Server, serving
from tests.support.judges import Received, Reply, http

HERE = Path(__file__).parent
REFUSED = "refuses"
"""A question with this word in it has no rewards."""


class PickyJudge(TextJudge):
    """Its verdict hangs on the texts; some questions it refuses."""

    def _say(self, request: Received) -> Reply:
        if request.method == "POST" and REFUSED in shown(request)[0]:
            return http(400, "no verdict on this question")
        return super()._say(request)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here run on one loop, since they share a server and a judge."""
    for item in items:
        if HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def judge() -> AsyncIterator[PickyJudge]:
    async with PickyJudge() as judge:
        yield judge


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server(judge: PickyJudge, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """The server that all tests here call. What is logged meanwhile is checked at the end."""
    sets = {
        "judge.base_url": judge.base_url,
        "judge.retries": 0,
        "judge.params": {},
        "scoring.score_range": None,
        "group.collection_timeout_s": 60,
    }
    async with serving(sets, tmp_path_factory.mktemp("integrations") / "log") as server:
        yield server


@pytest.fixture
def address(server: Server) -> str:
    return server.address
