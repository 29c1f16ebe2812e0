"""Everything beside `/verify` and `/compare`: health, metrics, groups, documents, sessions, the token (H7, H8)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from html.parser import HTMLParser
from http.cookies import SimpleCookie

import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from groupjudge import __version__

from .calling import Client, cancelled_after, request
from .groups import REJECTED, SECRETS, TOKEN, Group, TextJudge
from .serving import Server
from .test_refusals import check

ROUTES = {
    "/verify": "post",
    "/compare": "post",
    "/seed_session": "post",
    "/close_session": "post",
    "/healthz": "get",
    "/livez": "get",
    "/health": "get",
    "/readyz": "get",
    "/metrics": "get",
    "/": "get",
    "/v1/status": "get",
    "/v1/groups": "get",
    "/docs": "get",
    "/openapi.json": "get",
}
"""Every endpoint of the contract."""


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/health", "/readyz"])
async def test_it_says_that_it_is_well(server: Server, path: str) -> None:
    """H8: by GET and by HEAD."""
    reply = await server.client.get(path)
    assert reply.status == 200
    assert reply.json["status"] in ("ok", "ready")


async def test_the_description_covers_every_endpoint(client: Client) -> None:
    """H8: with the schema of its body, and no reference that leads nowhere."""
    reply = await client.get("/openapi.json")
    assert reply.headers["content-type"] == "application/json"
    description = reply.json
    assert description["info"]["version"] == __version__
    assert {path: method for path, method in ROUTES.items() if method not in description["paths"].get(path, {})} == {}
    for path in ("/verify", "/compare"):
        assert description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    for reference in references(description):
        target = description
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]


def references(value: object) -> list[str]:
    """Every `$ref` in a JSON value."""
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [each for inner in value.values() for each in references(inner)]
    return [each for inner in value for each in references(inner)] if isinstance(value, list) else []


async def test_what_is_described_is_served(client: Client) -> None:
    """H8: no path of the description is 404, and none takes another method."""
    for path, operations in (await client.get("/openapi.json")).json["paths"].items():
        if "{" in path:
            continue
        for method in operations:
            reply = await client.send(request(method.upper(), path, b"{}" if method == "post" else None))
            assert reply.status not in (404, 405), path


class _Text(HTMLParser):
    """The text of a page, and what it would fetch from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.fetched: list[str] = []

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "img"):
            self.fetched.append(tag)


async def test_the_page_for_people_needs_nothing_from_elsewhere(client: Client) -> None:
    """H8: it names every endpoint."""
    reply = await client.get("/docs")
    assert reply.headers["content-type"].startswith("text/html")
    page = _Text()
    page.feed(reply.body.decode())
    assert [path for path in ROUTES if path not in page.text] == []
    assert page.fetched == []


async def test_the_metrics_are_read_by_prometheus(client: Client, group: Group) -> None:
    """H8: and count what was done; no name of a group is in them."""
    before = await client.metric("groupjudge_groups_ended_total", outcome="completed")
    await asyncio.gather(*map(client.verify, group.bodies()))
    await client.verify(b"[]")
    reply = await client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(reply.body.decode())}
    assert all(family.documentation for family in families.values())
    assert await client.metric("groupjudge_groups_ended_total", outcome="completed") == before + 1
    assert await client.metric("groupjudge_replies_total", route="verify", code="ok") >= 4
    assert await client.metric("groupjudge_replies_total", route="verify", code="invalid_request") >= 1
    assert group.name not in reply.body.decode()


async def test_groups_are_shown_without_a_text(client: Client, judge: TextJudge, group: Group, free: None) -> None:
    """H8: collecting, judging and finished; id, attempt, phase, members, ages, outcome."""
    failed = replace(group, name=f"{group.name} failed", note=REJECTED)
    await asyncio.gather(*map(client.verify, failed.bodies()))
    async with cancelled_after([client.caller(group.body(slot)) for slot in (0, 2)]) as callers:
        await client.until_members(group.name, 2, callers=2)
        row = await client.group(group.name)
        assert (row["attempt"], row["phase"], row["size"], row["outcome"]) == (0, "collecting", 4, None)
        assert (row["members"], row["missing"]) == ([0, 2], [1, 3])
        judge.hold()
        callers += [client.caller(group.body(slot)) for slot in (1, 3)]
        await judge.until(lambda: judge.is_asked_of(group))
        row = await client.group(group.name)
        assert (row["phase"], row["members"], row["missing"]) == ("judging", [0, 1, 2, 3], [])
        assert 0 <= row["judging_s"] <= row["age_s"]
        judge.let_go()
        await asyncio.gather(*callers)
    row = await client.group(group.name)
    assert (row["phase"], row["outcome"]) == ("completed", {"rewards": group.rewards()})
    assert 0 <= row["finished_s_ago"] <= row["age_s"]
    row = await client.group(failed.name)
    assert (row["phase"], row["outcome"]) == ("judge_failed", {"failure": "judge_failed"})
    shown = (await client.get("/v1/groups?limit=10000")).body.decode()
    assert [secret for secret in SECRETS if secret in shown] == []


async def test_how_many_groups_are_shown(client: Client, group: Group) -> None:
    """H8: the newest finished ones first."""
    for name in ("older", "newer"):
        await asyncio.gather(*map(client.verify, replace(group, name=f"{group.name} {name}").bodies()))
    reply = (await client.get("/v1/groups?limit=1")).json
    assert [row["id"] for row in reply["finished"]] == [f"{group.name} newer"]
    assert reply["finished_total"] >= 2
    for wrong in ("0", "-1", "x", "10001", "1e3", "", "%31%30%30%30%30%31", "9" * 5000):
        check(await client.get(f"/v1/groups?limit={wrong}"), 422, "invalid_request")


# --- sessions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"{}", b' {"any": [1]} ', b"\xef\xbb\xbf{}"])
async def test_a_session_is_a_signed_cookie(client: Client, body: bytes) -> None:
    """H7: a new one each time."""
    seen = set()
    for _ in range(2):
        reply = await client.post("/seed_session", body)
        assert (reply.status, reply.json) == (200, {})
        ((name, morsel),) = SimpleCookie(reply.headers["set-cookie"]).items()
        assert morsel["httponly"]
        seen.add(morsel.value)
        closed = await client.post("/close_session", body, {"Cookie": f"{name}={morsel.value}"})
        assert (closed.status, closed.json) == (200, {})
        assert SimpleCookie(closed.headers["set-cookie"])[name]["max-age"] == "0"
    assert len(seen) == 2


@pytest.mark.parametrize("body", [b"[]", b"null", b"5", b"{", b'{"a":\xff}', b"[" * 300])
async def test_a_session_wants_an_object_or_nothing(client: Client, body: bytes) -> None:
    """H7, H10."""
    for target in ("/seed_session", "/close_session"):
        check(await client.post(target, body), 422, "invalid_request")


@pytest.mark.parametrize("cookie", ["groupjudge_session=forged", "groupjudge_session=a.b", "\xff=;;=", "a" * 4000])
async def test_a_strange_cookie_is_no_session(client: Client, cookie: str) -> None:
    """H7: it changes nothing."""
    for target in ("/seed_session", "/close_session"):
        assert (await client.post(target, b"{}", {"Cookie": cookie})).status == 200
    assert (await client.post("/verify", Group("alone", 1).body(0), {"Cookie": cookie})).status == 200


# --- the bearer token -------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def guarded(judge: TextJudge, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A server that wants a token; it comes from the environment, as secrets do."""
    from .serving import serving

    log = tmp_path_factory.mktemp("guarded") / "log"
    sets = {"judge.base_url": judge.base_url, "judge.params": {}}
    async with serving(sets, log, env={"GROUPJUDGE_SERVER__AUTH_TOKEN": TOKEN}) as server:
        yield server


BODY = Group("alone", 1).body(0)


@pytest.mark.parametrize("path", ROUTES)
async def test_the_token_guards_all_but_health(guarded: Server, path: str) -> None:
    """H12: whatever is sent in its place; on a path with an episode's key too. The reply does not say what was sent."""
    method = ROUTES[path].upper()
    body = BODY if method == "POST" else None
    open_to_all = path in ("/healthz", "/livez", "/health")
    wrong = [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        TOKEN,
        "Bearer \xff\xe9",
    ]
    for said in wrong:
        for target in (path, f"/ng-rollout/k{path}"):
            reply = await guarded.client.send(request(method, target, body, {"Authorization": said}))
            if open_to_all:
                assert reply.status == 200
                continue
            check(reply, 401, "unauthorized")
            assert reply.headers["www-authenticate"] == "Bearer"
            assert TOKEN.encode() not in reply.body
    for right in (f"Bearer {TOKEN}", f"bearer  {TOKEN}"):
        reply = await guarded.client.send(request(method, path, body, {"Authorization": right}))
        assert reply.status not in (401, 404, 405)


async def test_the_token_guards_paths_that_are_none(guarded: Server) -> None:
    """H12: who has no token learns nothing of the paths."""
    for path in ("/", "/nothing", "/v1/groups/x/0", "/healthz/", "/healthz/../metrics", "//metrics"):
        check(await guarded.client.get(path), 401, "unauthorized")


async def test_a_refused_body_is_not_read(guarded: Server) -> None:
    """H12, H10a: the connection serves on."""
    from .calling import Connection

    async with Connection(guarded.port) as connection:
        check(await connection.ask(request("POST", "/verify", b"x" * 3_000_000)), 401, "unauthorized")
        good = request("POST", "/verify", BODY, {"Authorization": f"Bearer {TOKEN}"})
        assert (await connection.ask(good)).json["reward"] == 3.0


async def test_the_configuration_shows_no_token() -> None:
    """H12: secrets are masked in what `config` prints."""
    import subprocess

    from .serving import command, environment

    run = await asyncio.to_thread(
        subprocess.run,
        command("config"),
        capture_output=True,
        text=True,
        env=environment(GROUPJUDGE_SERVER__AUTH_TOKEN=TOKEN, GROUPJUDGE_JUDGE__API_KEY=TOKEN),
    )
    assert run.returncode == 0
    assert "auth_token" in run.stdout
    assert TOKEN not in run.stdout + run.stderr


async def test_the_log_is_json_and_tells_what_became_of_groups(server: Server, group: Group) -> None:
    """L26: group, attempt, result; the texts' absence is checked for every server when it stops."""
    await asyncio.gather(*map(server.client.verify, group.bodies()))
    failed = replace(group, name=f"{group.name} failed", note=REJECTED)
    await asyncio.gather(*map(server.client.verify, failed.bodies()))
    told = {event["group"]: event for event in server.events() if event["event"] == "group_judged"}
    assert (told[group.name]["attempt"], told[group.name]["result"]) == (0, "rewarded")
    assert told[failed.name]["result"] == "judge_failed"
    warned = [event for event in server.events() if event["event"] == "judge_failed" and event["group"] == failed.name]
    assert "400" in json.dumps(warned)
    server.check_log()
