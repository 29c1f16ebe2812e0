"""The login for browsers, as a browser does it (H12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from urllib.parse import quote_plus

import pytest
import pytest_asyncio

from .calling import Client, Connection, Reply, request
from .conftest import Serve
from .groups import TOKEN, Group, TextJudge
from .serving import Server, serving

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
FORM = {"Content-Type": "application/x-www-form-urlencoded", **BROWSER}


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def guarded(judge: TextJudge, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    log = tmp_path_factory.mktemp("login") / "log"
    sets = {"judge.base_url": judge.base_url, "judge.params": {}, "server.body_timeout_s": 0.3}
    async with serving(sets, log, env={"GROUPJUDGE_SERVER__AUTH_TOKEN": TOKEN}) as server:
        yield server


async def log_in(client: Client, token: str = TOKEN, **headers: str) -> Reply:
    return await client.post("/login", f"token={quote_plus(token)}".encode(), FORM | headers)


async def cookie_of(client: Client) -> dict[str, str]:
    """The header that a browser sends after its login."""
    ((name, morsel),) = SimpleCookie((await log_in(client)).headers["set-cookie"]).items()
    return {"Cookie": f"{name}={morsel.value}"}


async def test_a_browser_finds_the_login_logs_in_and_reads(guarded: Server) -> None:
    """H12: page, status, groups, metrics and documents."""
    client = guarded.client
    sent = await client.get("/", BROWSER)
    assert (sent.status, sent.headers["location"]) == (303, "login")
    form = await client.get("/login", BROWSER)
    assert form.status == 200
    assert b'name="token"' in form.body
    done = await log_in(client, f" {TOKEN} ")
    assert (done.status, done.headers["location"]) == (303, "./")
    ((_, morsel),) = SimpleCookie(done.headers["set-cookie"]).items()
    assert morsel["httponly"]
    assert (morsel["samesite"], morsel["path"], morsel["max-age"]) == ("Strict", "/", "43200")
    assert TOKEN not in done.headers["set-cookie"]
    cookie = await cookie_of(client)
    for path in ("/", "/v1/status", "/v1/groups", "/metrics", "/docs", "/openapi.json", "/readyz"):
        assert (await client.get(path, cookie)).status == 200, path
    assert (await client.get("/login", cookie)).headers["location"] == "./"


async def test_a_login_changes_nothing(guarded: Server) -> None:
    """H12: another site that has a browser send something gets a 401, whatever it sends."""
    cookie = await cookie_of(guarded.client)
    for path in ("/verify", "/compare", "/v1/judge", "/seed_session", "/close_session"):
        reply = await guarded.client.post(path, Group("forged", 1).body(0), cookie)
        assert reply.said == (401, "unauthorized"), path


async def test_the_control_plane_knows_no_login(serve: Serve) -> None:
    """C5, H12: it has a token of its own."""
    sets = {"server.auth_token": TOKEN, "checkpoint.enabled": True, "checkpoint.auth_token": "other"}
    async with serve(sets) as server:
        cookie = await cookie_of(server.client)
        assert (await server.client.get("/v1/status", cookie)).status == 200
        assert (await server.client.get("/ng-control/v1/checkpoint/status", cookie)).status in (401, 403, 404, 405)
        assert (await server.client.post("/ng-control/v1/checkpoint/prepare", b"{}", cookie)).status == 401


@pytest.mark.parametrize(
    "body",
    [b"", b"token=", b"token=wrong", b"token", b"other=x", b"token=wrong&token=" + TOKEN.encode(), b"\xff\xfe", b"{}"],
)
async def test_anything_else_is_shown_the_form_again(guarded: Server, body: bytes) -> None:
    """H12: with a word about it, and no cookie."""
    reply = await guarded.client.post("/login", body, FORM)
    assert reply.status == 401
    assert reply.headers["content-type"].startswith("text/html")
    assert b'role="alert"' in reply.body
    assert "set-cookie" not in reply.headers
    assert b"wrong" not in reply.body


async def test_a_form_that_is_too_large_or_stops_coming_is_given_up(guarded: Server) -> None:
    """H10a, H12."""
    reply = await guarded.client.post("/login", b"token=" + b"x" * 9000, FORM)
    assert reply.status == 413
    async with Connection(guarded.port) as connection:
        await connection.send(request("POST", "/login", b"token=" + TOKEN.encode(), FORM)[:-3])
        assert (await connection.reply()).status == 413


@pytest.mark.parametrize("path", ["/login", "/logout"])
async def test_a_form_of_another_site_is_refused(guarded: Server, path: str) -> None:
    """H12: as far as browsers say where it comes from."""
    for origin in ("cross-site", "same-site"):
        body = b"token=" + TOKEN.encode()
        reply = await guarded.client.post(path, body, {**FORM, "Sec-Fetch-Site": origin})
        assert reply.status == 401
        assert "set-cookie" not in reply.headers


async def test_the_way_back_is_always_the_page(guarded: Server) -> None:
    """H12: no address in the request leads a browser elsewhere."""
    for target in ("/login?next=//evil.example", "/login?url=https://evil.example/"):
        reply = await guarded.client.post(target, b"token=" + TOKEN.encode() + b"&next=//evil.example", FORM)
        assert reply.headers["location"] == "./"


async def test_a_logout_takes_the_cookie_back(guarded: Server) -> None:
    """H12."""
    reply = await guarded.client.post("/logout", b"", FORM)
    assert (reply.status, reply.headers["location"]) == (303, "login")
    ((_, morsel),) = SimpleCookie(reply.headers["set-cookie"]).items()
    assert (morsel.value, morsel["max-age"]) == ("", "0")


async def test_a_cookie_goes_only_over_https_where_the_browser_came_so(guarded: Server) -> None:
    """H12: a proxy before the server says it."""
    assert "Secure" not in (await log_in(guarded.client)).headers["set-cookie"]
    secure = await log_in(guarded.client, **{"X-Forwarded-Proto": "https"})
    assert secure.headers["set-cookie"].endswith("; Secure")


async def test_without_a_token_there_is_no_login(client: Client) -> None:
    """H12: the page is open then."""
    assert (await client.get("/", BROWSER)).status == 200
    for reply in (await client.get("/login", BROWSER), await log_in(client)):
        assert (reply.status, reply.headers["location"]) == (303, "./")
        assert "set-cookie" not in reply.headers


async def test_pages_let_a_browser_run_nothing_else(client: Client, guarded: Server) -> None:
    """No script and no style but the server's own files; no page of another site shows them in a frame."""
    for reply in (await client.get("/"), await guarded.client.get("/login"), await client.get("/pages/page.js")):
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
    for name in ("../front.py", "nothing.js", "%2e%2e/front.py", "index.html", ""):
        assert (await client.get(f"/pages/{name}")).status == 404
