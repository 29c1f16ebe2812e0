"""What every request passes first (H5, H9, H12)."""

from __future__ import annotations

import json

import pytest
from starlette.types import Receive, Scope, Send

from groupjudge.service.front import Front
from groupjudge.service.login import COOKIE, Logins
from groupjudge.service.reply import send_reply
from groupjudge.service.wire import json_reply

from .asgi import Caller, scope


class Seen:
    """An application that remembers its requests."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await send_reply(send, json_reply({}))


async def passed(front: Front, path: str, **how: object) -> Caller:
    caller = Caller()
    await front(scope(path, **how), caller.receive, caller.send)  # type: ignore[arg-type]
    return caller


@pytest.mark.parametrize(
    ("path", "inner", "episode"),
    [
        ("/verify", "/verify", None),
        ("/ng-rollout/a/verify", "/verify", "a"),
        ("/ng-rollout/0.b_c-D/v1/groups", "/v1/groups", "0.b_c-D"),
        ("/ng-rollout/a/", "/", "a"),
        ("/ng-rollout/a//x", "//x", "a"),
        ("/ng-rollout/a/ng-rollout/b/verify", "/ng-rollout/b/verify", "a"),
        ("/ng-rollout/a", "/ng-rollout/a", None),
        ("/ng-rollout//verify", "/ng-rollout//verify", None),
        ("/ng-rollout/-a/verify", "/ng-rollout/-a/verify", None),
        ("/ng-rollout/.a/verify", "/ng-rollout/.a/verify", None),
        ("/ng-rollout/a b/verify", "/ng-rollout/a b/verify", None),
        ("/ng-rollout/é/verify", "/ng-rollout/é/verify", None),
        ("/ng-rollout/a\n/verify", "/ng-rollout/a\n/verify", None),
        ("/x/ng-rollout/a/verify", "/x/ng-rollout/a/verify", None),
        ("/ng-rollout/a/ng-control/v1", "/ng-rollout/a/ng-control/v1", None),
    ],
)
async def test_the_prefix_of_an_episode(path: str, inner: str, episode: str | None) -> None:
    """H9: the rest of the path is served, and the key is remembered."""
    app = Seen()
    assert (await passed(Front(app, None), path)).status == 200
    (seen,) = app.scopes
    assert seen["path"] == inner
    assert seen.get("state", {}).get("episode") == episode


@pytest.mark.parametrize(
    ("said", "may"),
    [
        (None, False),
        ("Bearer secret", True),
        ("bearer secret", True),
        ("BEARER   secret ", True),
        ("Bearer secret2", False),
        ("Bearer secre", False),
        ("Bearer ", False),
        ("Bearer", False),
        ("secret", False),
        ("Basic secret", False),
        ("Bearer \xe9", False),
        ("Bearer secret secret", False),
    ],
)
async def test_the_token(said: str | None, may: bool) -> None:
    """H12, H5: nobody else gets to the application."""
    app = Seen()
    caller = await passed(Front(app, "secret"), "/verify", fields={} if said is None else {"Authorization": said})
    assert bool(app.scopes) is may
    if not may:
        assert (caller.status, json.loads(caller.body)["code"]) == (401, "unauthorized")
        assert caller.fields["www-authenticate"] == "Bearer"
        assert "secret" not in caller.body.decode()


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/health", "/ng-rollout/k/healthz", "/ng-control/v1/x"])
async def test_paths_without_a_token(path: str) -> None:
    """H12: health, and the control plane, which has a token of its own."""
    assert (await passed(Front(Seen(), "secret"), path)).status == 200


@pytest.mark.parametrize(
    "path", ["/healthz/", "/Healthz", "/metrics", "/ng-control", "/ng-rollout/k/ng-control/v1/x", "/"]
)
async def test_paths_that_only_look_open(path: str) -> None:
    """H12."""
    assert (await passed(Front(Seen(), "secret"), path)).status == 401


async def test_what_nobody_caught_is_a_500_and_a_line_without_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    """H5, L26."""

    async def breaks(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("the text of an answer")

    caller = await passed(Front(breaks, None), "/verify")
    assert (caller.status, json.loads(caller.body)["code"]) == (500, "internal")
    logged = capsys.readouterr()
    assert "request_broke" in logged.out + logged.err
    assert "the text of an answer" not in logged.out + logged.err + caller.body.decode()


async def test_a_reply_that_began_is_not_begun_again() -> None:
    """The HTTP server then cuts the connection, since the length was promised."""

    async def breaks(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError

    caller = await passed(Front(breaks, None), "/verify")
    assert [message["type"] for message in caller.sent] == ["http.response.start"]


async def test_only_http_is_served() -> None:
    """A websocket gets no answer from the application."""
    app, caller = Seen(), Caller()
    await Front(app, None)({**scope("/verify"), "type": "websocket"}, caller.receive, caller.send)
    assert app.scopes == []


async def test_a_path_of_its_own_is_reached_by_post_alone() -> None:
    """What is given at once is given behind prefix and token."""
    app, own = Seen(), Seen()
    front = Front(app, "secret", {"/verify": own})
    right = {"Authorization": "Bearer secret"}
    await passed(front, "/ng-rollout/k/verify", method="POST", fields=right)
    await passed(front, "/verify", method="GET", fields=right)
    await passed(front, "/verify", method="POST")
    assert [len(own.scopes), len(app.scopes)] == [1, 1]


LOGINS = Logins("secret", "s" * 64)


def logged_in(**fields: str) -> dict[str, str]:
    return {"Cookie": f"{COOKIE}={LOGINS.new_value()}", **fields}


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "get", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/v1/status", "/verify", "/ng-rollout/k/v1/judge"])
async def test_a_login_opens_only_what_is_read(method: str, path: str) -> None:
    """H12: what changes something wants the token itself, so that no other site can have a browser do it."""
    app = Seen()
    caller = await passed(Front(app, "secret", logins=LOGINS), path, method=method, fields=logged_in())
    assert bool(app.scopes) is (method in ("GET", "HEAD"))
    assert caller.status == (200 if app.scopes else 401)


async def test_a_login_does_not_mend_a_wrong_token_that_posts() -> None:
    """H12."""
    fields = logged_in(Authorization="Bearer wrong")
    assert (await passed(Front(Seen(), "secret", logins=LOGINS), "/verify", method="POST", fields=fields)).status == 401


@pytest.mark.parametrize(
    ("path", "method", "accept", "status"),
    [
        ("/", "GET", "text/html,application/xhtml+xml", 303),
        ("/docs", "GET", "text/html", 303),
        ("/", "GET", "*/*", 401),
        ("/", "GET", "", 401),
        ("/", "POST", "text/html", 401),
        ("/v1/status", "GET", "text/html", 401),
        ("/verify", "GET", "text/html", 401),
    ],
)
async def test_a_browser_is_shown_the_login(path: str, method: str, accept: str, status: int) -> None:
    """H12: always the same place, whatever it asked for; a program gets its 401."""
    refused: list[str] = []
    front = Front(Seen(), "secret", logins=LOGINS, refused=refused.append)
    caller = await passed(front, path, method=method, fields={"Accept": accept})
    assert caller.status == status
    assert caller.fields.get("location") == ("login" if status == 303 else None)
    assert refused == ["unauthorized"]


@pytest.mark.parametrize("path", ["/login", "/logout", "/pages/style.css"])
async def test_the_way_to_the_login_is_open(path: str) -> None:
    """H12."""
    assert (await passed(Front(Seen(), "secret", logins=LOGINS), path)).status == 200
