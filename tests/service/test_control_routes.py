"""The control plane's routes: who may call, with which bodies, and what errors look like (C5, C6, C8)."""

from __future__ import annotations

import hmac
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.applications import Starlette

from groupjudge.answers.spool import Spool
from groupjudge.service import control_routes
from groupjudge.service.bodies import BodyReader
from groupjudge.service.control_routes import BASE, ControlRoutes
from groupjudge.service.front import Front

from .asgi import GONE, Caller, part, scope
from .room import Room

TOKEN = "token-of-the-controller"
BEARER = {"authorization": f"Bearer {TOKEN}"}
CALLS = ("prepare", "commit", "restore", "resume", "renew", "retire", "forget")


class Answer(NamedTuple):
    status: int
    json: Any
    fields: dict[str, str]

    @property
    def error(self) -> tuple[int, str]:
        """Status and code of an error, which has exactly the shape of C8."""
        assert self.json.keys() == {"error"}
        assert self.json["error"].keys() == {"code", "detail"}
        return self.status, self.json["error"]["code"]


class Routes:
    """The routes over a room, behind a front that has a token of its own."""

    def __init__(self) -> None:
        self.room = Room()
        self.reader = BodyReader(1 << 24, 60.0, Spool(1 << 16))
        control = ControlRoutes(self.room.participant, self.reader, TOKEN)
        self.app = Front(Starlette(routes=control.routes()), "token-of-the-server")

    async def post(self, name: str, body: Any = None, fields: dict[str, str] | None = None, **how: Any) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.send(scope(f"{BASE}/{name}", "POST", BEARER if fields is None else fields), data, **how)

    async def send(self, asked: Any, data: bytes = b"") -> Answer:
        caller = Caller([part(data), GONE])
        await self.app(asked, caller.receive, caller.send)
        is_json = "json" in caller.fields.get("content-type", "") and caller.body
        return Answer(caller.status, json.loads(caller.body) if is_json else None, caller.fields)

    def call(self, **fields: Any) -> dict[str, Any]:
        return {"checkpoint_id": "ck", "deadline_ts": self.room.soon(), **fields}


@pytest.fixture
async def routes() -> Routes:
    return Routes()


@pytest.mark.parametrize(
    "said",
    [
        "",
        TOKEN,
        f"Bearer {TOKEN}x",
        "Bearer ",
        "Bearer token-of-the-server",
        f"Basic {TOKEN}",
        "Bearer \xe9",
        f"Bearer{TOKEN}",
    ],
)
async def test_every_call_wants_the_controllers_token(routes: Routes, said: str) -> None:
    """C5: not the server's; nothing happens without it."""
    fields = {"authorization": said} if said else {}
    for name in CALLS:
        answer = await routes.post(name, routes.call(), fields)
        assert answer.error == (401, "unauthorized")
        assert answer.fields["www-authenticate"] == "Bearer"
    assert (await routes.send(scope(f"{BASE}/status", "GET", fields))).error == (401, "unauthorized")
    assert routes.room.plane.phase.value == "idle"


async def test_the_controllers_token_is_enough(routes: Routes) -> None:
    """C5: the server's guards other paths."""
    assert (await routes.send(scope(f"{BASE}/status", "GET", BEARER))).json["phase"] == "idle"
    assert (await routes.post("prepare", routes.call(), {"authorization": f"bearer  {TOKEN} "})).status == 200
    assert (await routes.send(scope("/elsewhere", "GET", BEARER))).status == 401


async def test_the_token_is_compared_in_constant_time(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    """C5: by the function that is made for it, the whole of it."""
    compared = []

    def compare(said: bytes, token: bytes) -> bool:
        compared.append((said, token))
        return hmac.compare_digest(said, token)

    monkeypatch.setattr(control_routes.hmac, "compare_digest", compare, raising=True)
    await routes.post("prepare", routes.call(), {"authorization": "Bearer wrong"})
    assert compared[0] == (b"wrong", TOKEN.encode())


@pytest.mark.parametrize("prefix", ["/ng-rollout/r", "/ng-rollout/r/ng-rollout/s"])
async def test_no_call_is_behind_a_rollout_prefix(routes: Routes, prefix: str) -> None:
    """C5."""
    both = {"authorization": "Bearer token-of-the-server"}
    for token in (BEARER, both):
        answer = await routes.send(scope(f"{prefix}{BASE}/status", "GET", token))
        assert answer.status in (401, 404)
    assert (await routes.send(scope(f"{prefix}{BASE}/status", "GET", both))).status == 404


DIRECTORY = {"checkpoint_dir": "/ck"}
R = {"rollout_id": "r"}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint_id": ...},
        {"deadline_ts": ...},
        {"checkpoint_id": ""},
        {"checkpoint_id": "-ck"},
        {"checkpoint_id": "a/b"},
        {"checkpoint_id": "ck\n"},
        {"checkpoint_id": "c" * 129},
        {"checkpoint_id": 1},
        {"deadline_ts": "1"},
        {"deadline_ts": None},
        {"deadline_ts": True},
        {"deadline_ts": float("nan")},
        {"deadline_ts": float("inf")},
        {"more": 1},
    ],
    ids=str,
)
async def test_a_body_with_a_fault_is_refused(routes: Routes, name: str, changes: dict[str, Any]) -> None:
    """C6: every call, and nothing happens."""
    more = {
        "commit": {**DIRECTORY, "episode_ids": None},
        "restore": {**DIRECTORY, "episode_ids": None},
        "retire": {"episode_ids": [R]},
        "forget": {"rollout_ids": ["r"]},
    }
    body = routes.call(**more.get(name, {})) | changes
    answer = await routes.post(name, {key: value for key, value in body.items() if value is not ...})
    assert answer.error == (422, "invalid_request")
    assert routes.room.plane.phase.value == "idle"
    assert routes.room.plane.resume("ck")["idempotent"]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("commit", {}),
        ("commit", {"checkpoint_dir": 1}),
        ("commit", {**DIRECTORY, "episode_ids": "r"}),
        ("commit", {**DIRECTORY, "episode_ids": ["r"]}),
        ("commit", {**DIRECTORY, "episode_ids": [{"rollout_id": "r-a1"}]}),
        ("commit", {**DIRECTORY, "episode_ids": [R, {"rollout_id": "r", "attempt": -1}]}),
        ("commit", {**DIRECTORY, "episode_ids": [{"rollout_id": "r", "attempt": 2**63}]}),
        ("commit", {**DIRECTORY, "episode_ids": [{"rollout_id": "r", "attempt": 1.5}]}),
        ("commit", {**DIRECTORY, "episode_ids": [{"rollout_id": "r", "more": 1}]}),
        ("commit", {**DIRECTORY, "episode_ids": [{}]}),
        ("commit", {**DIRECTORY, "episode_ids": None, "stop": 1}),
        ("restore", {"episode_ids": []}),
        ("restore", DIRECTORY),
        ("restore", {**DIRECTORY, "episode_ids": [{"rollout_id": ""}]}),
        ("restore", {**DIRECTORY, "episode_ids": None, "stop": True}),
        ("retire", {}),
        ("retire", {"episode_ids": []}),
        ("retire", {"episode_ids": None}),
        ("retire", {"episode_ids": [{"rollout_id": "r/s"}]}),
        ("forget", {}),
        ("forget", {"rollout_ids": "r"}),
        ("forget", {"rollout_ids": ["r-a1"]}),
        ("forget", {"rollout_ids": [1]}),
        ("prepare", DIRECTORY),
    ],
    ids=str,
)
async def test_fields_of_one_call_with_a_fault_are_refused(routes: Routes, name: str, fields: dict[str, Any]) -> None:
    """C6."""
    assert (await routes.post(name, routes.call(**fields))).error == (422, "invalid_request")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"checkpoint_id":"\\ud800"}'])
async def test_what_is_no_json_object_is_refused(routes: Routes, body: bytes) -> None:
    """C6."""
    assert (await routes.post("prepare", body)).error == (422, "invalid_request")


@pytest.mark.parametrize("wrong", ["", ".ck", "-ck", "c/k", "ü", "x" * 129])
async def test_a_checkpoint_id_that_will_not_do_is_told_in_words(routes: Routes, wrong: str) -> None:
    """C6: not as a pattern that the reader has to work out."""
    detail = (await routes.post("prepare", routes.call(checkpoint_id=wrong))).json["error"]["detail"]
    assert "checkpoint_id" in detail
    assert "the first a letter or a digit" in detail
    assert "^" not in detail


async def test_bodies_that_are_just_right(routes: Routes, tmp_path: Path) -> None:
    """C6: the longest id, a byte order mark, an integer as deadline, defaults of attempt, scope and stop."""
    room = routes.room
    await room.seed("r")
    await room.seed("s-a2")
    longest = "0._-" * 32
    body = {"checkpoint_id": longest, "deadline_ts": int(room.soon())}
    assert (await routes.post("prepare", b"\xef\xbb\xbf" + json.dumps(body).encode())).status == 200
    answer = await routes.post("commit", body | {"checkpoint_dir": str(tmp_path / "1"), "stop": True})
    assert answer.json["episode_ids"] == ["r", "s-a2"]
    assert (await routes.post("resume", body)).json == {"phase": "idle", "idempotent": False}
    await routes.post("prepare", routes.call())
    scoped = routes.call(checkpoint_dir=str(tmp_path / "2"), episode_ids=[R, {"rollout_id": "s", "attempt": 2}, R])
    assert (await routes.post("commit", scoped)).json["episode_ids"] == ["r", "s-a2"]
    assert (await routes.post("renew", routes.call())).json.keys() == {"lease_expires_at"}
    await routes.post("resume", routes.call())
    other = routes.call(checkpoint_id="x")
    assert (await routes.post("retire", other | {"episode_ids": [R]})).json == {"retired": ["r"]}
    assert (await routes.post("forget", other | {"rollout_ids": ["r"]})).json == {"forgotten": ["r"]}
    assert (await routes.post("forget", other | {"rollout_ids": []})).json == {"forgotten": []}


async def test_a_scope_of_many_episodes_is_read_whole(routes: Routes, tmp_path: Path) -> None:
    """C6, C26: in a thread; its faults are found there too."""
    many = [{"rollout_id": f"r{number}"} for number in range(20_000)]
    await routes.room.seed("r19999")
    await routes.post("prepare", routes.call())
    asked = routes.call(checkpoint_dir=str(tmp_path), episode_ids=[*many, {"rollout_id": "?"}])
    answer = await routes.post("commit", asked)
    assert answer.error == (422, "invalid_request")
    assert "episode_ids.20000" in answer.json["error"]["detail"]
    assert (await routes.post("commit", asked | {"episode_ids": many})).json["episode_ids"] == ["r19999"]


async def test_errors_have_their_status(routes: Routes, tmp_path: Path) -> None:
    """C8: each code that a call can bring about."""
    directory = {"checkpoint_dir": str(tmp_path / "ck"), "episode_ids": None}
    missing = routes.call(**directory, checkpoint_id="re")
    assert (await routes.post("restore", missing)).error == (422, "invalid_checkpoint_state")
    assert (await routes.post("commit", routes.call(**directory))).error == (409, "invalid_phase")
    await routes.post("prepare", routes.call())
    assert (await routes.post("prepare", routes.call(checkpoint_id="x"))).error == (409, "checkpoint_conflict")
    late = routes.call(**directory, deadline_ts=routes.room.soon(-1))
    assert (await routes.post("commit", late)).error == (409, "deadline_exceeded")
    (tmp_path / "ck").write_text("no directory")
    assert (await routes.post("commit", routes.call(**directory))).error == (500, "write_failed")
    await routes.post("resume", routes.call())
    assert (await routes.post("prepare", routes.call())).error == (409, "stale_checkpoint")


async def test_whatever_else_goes_wrong_has_the_same_shape(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """C8, H5: a body that is too large or of another kind, a defect; a stopping server."""
    small = Routes()
    small.reader = BodyReader(10, 60.0, Spool(1 << 16))
    small.app = Front(Starlette(routes=ControlRoutes(small.room.participant, small.reader, TOKEN).routes()), None)
    assert (await small.post("prepare", small.call())).error == (413, "too_large")
    html = {**BEARER, "content-type": "text/html"}
    assert (await routes.post("prepare", routes.call(), html)).error == (415, "unsupported_media_type")
    monkeypatch.setattr(routes.room.participant, "prepare", lambda *_: 1 / 0)
    assert (await routes.post("prepare", routes.call())).error == (500, "internal")
    routes.reader.close()
    assert (await routes.post("prepare", routes.call())).error == (503, "shutting_down")
    assert TOKEN not in capsys.readouterr().out


async def test_a_controller_that_leaves_before_its_body_came_begins_nothing(routes: Routes) -> None:
    """C6."""
    caller = Caller([part(b'{"checkpoint_id":', more=True), GONE])
    await routes.app(scope(f"{BASE}/prepare", "POST", BEARER), caller.receive, caller.send)
    assert routes.room.plane.phase.value == "idle"


async def test_a_long_detail_is_cut(routes: Routes) -> None:
    """C8, H10a: and holds nothing that cannot be sent."""
    room = routes.room
    for number in range(40):
        room.verify(0, None, f"{'r' * 300}{number}", group=f"g{number}")
    episodes = [{"rollout_id": f"{'r' * 300}{number}"} for number in range(40)]
    answer = await routes.post("retire", routes.call(episode_ids=episodes, deadline_ts=room.soon(-1)))
    assert answer.error == (409, "deadline_exceeded")
    assert len(answer.json["error"]["detail"]) <= 2000
