"""Bodies of every kind and in every way over the wire (H10, H10a): 4xx with the right code, never 500, and the
connection serves on."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from dataclasses import replace

import pytest

from groupjudge.answers.encoding import supported_encodings

from .calling import Client, Connection, request
from .conftest import Serve
from .groups import Group, TextJudge
from .serving import Server
from .test_refusals import check

LIMIT = 400_000
ALONE = Group("alone", 1)
GOOD = ALONE.body(0)
TEXT = ALONE.text(0).encode()


def mangled(old: bytes, new: bytes) -> bytes:
    body = GOOD.replace(old, new, 1)
    assert body != GOOD
    return body


MALFORMED = {
    "empty": b"",
    "space": b" \r\n\t ",
    "a word": b"hello",
    "null": b"null",
    "a list": b"[]",
    "a string": b'"x"',
    "truncated at the end": GOOD[:-1],
    "truncated in a string": GOOD[: GOOD.index(TEXT) + 5],
    "truncated after a backslash": GOOD[: GOOD.index(TEXT)] + b"\\",
    "truncated in an escape": GOOD[: GOOD.index(TEXT)] + b"\\u12",
    "truncated in a number": GOOD[:1] + b'"x":-',
    "text behind": GOOD + b"x",
    "an object behind": GOOD + b"{}",
    "a trailing comma": GOOD[:-1] + b",}",
    "single quotes": GOOD.replace(b'"', b"'"),
    "a comment": b"/* */" + GOOD,
    "a leading zero": mangled(b'"id": "r"', b'"id": 01'),
    "a bare point": mangled(b'"id": "r"', b'"id": .5'),
    "a hex number": mangled(b'"id": "r"', b'"id": 0x1'),
    "+Infinity": mangled(b'"id": "r"', b'"id": +Infinity'),
    "nan": mangled(b'"id": "r"', b'"id": nan'),
    "a control character": mangled(TEXT, b"a\nb"),
    "a bad escape": mangled(TEXT, b"\\x41"),
    "invalid UTF-8 in a string": mangled(TEXT, b"\xff\xfe"),
    "overlong UTF-8": mangled(TEXT, b"\xc0\xaf"),
    "a surrogate in UTF-8": mangled(TEXT, b"\xed\xa0\x80"),
    "cut UTF-8": GOOD[: GOOD.index(TEXT)] + b"\xe2\x82",
    "invalid UTF-8 in an unknown field": GOOD[:-1] + b',"x":"\xff"}',
    "invalid UTF-8 outside": GOOD + b"\xff",
    "UTF-16": GOOD.decode().encode("utf-16"),
    "a byte order mark twice": b"\xef\xbb\xbf\xef\xbb\xbf" + GOOD,
    "depth 257": GOOD[:-1] + b',"x":' + b"[" * 256 + b"]" * 256 + b"}",
    "depth 100,000": GOOD[:-1] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "depth 257 in the answer": mangled(b'"id": "r"', b'"id": ' + b"[" * 255 + b"1" + b"]" * 255),
    "unclosed depth": b'{"a":' * 60_000,
    "a long run of brackets": b"[" * 300_000,
    "binary": bytes(range(256)) * 100,
}


@pytest.mark.parametrize("what", MALFORMED)
async def test_a_malformed_body_is_refused_and_the_connection_serves_on(server: Server, what: str) -> None:
    """H10: 422 with a clear reason, of a body with and without a length."""
    body = MALFORMED[what]
    async with Connection(server.port) as connection:
        for raw in (request("POST", "/verify", body), request("POST", "/verify", chunks=[body] if body else [])):
            reply = await connection.ask(raw)
            check(reply, 422, "invalid_request")
            assert (await connection.ask(request("POST", "/verify", GOOD))).status == 200


@pytest.mark.parametrize("what", ["truncated in a string", "invalid UTF-8 in a string", "depth 257", "a list", "empty"])
@pytest.mark.parametrize("target", ["/compare", "/verify"])
async def test_the_reason_is_clear(client: Client, target: str, what: str) -> None:
    """H10: it says what is wrong and, where that has a place, at which byte."""
    clues = {"t": "ends before", "i": "UTF-8", "d": "256 levels", "a": "must be a JSON object", "e": "ends before"}
    reply = await client.post(target, MALFORMED[what])
    assert clues[what[0]] in check(reply, 422, "invalid_request")


@pytest.mark.parametrize(
    "change",
    [
        (b'"id": "r"', b'"id": ' + b"9" * 20_000),
        (b'"id": "r"', b'"id": -1e99999'),
        (b'"id": "r"', b'"id": [NaN, Infinity, -Infinity]'),
        (b'"id": "r"', b'"id": "\\ud800\\udc00\\ud800"'),
        (b'"id": "r"', b'"id": ' + b"[" * 253 + b"]" * 253),
        (b'"id": "r"', b'"id": {' + b",".join(b'"%d":0' % n for n in range(20_000)) + b"}"),
        (b"{", b"\xef\xbb\xbf{"),
    ],
    ids=["wide integer", "far float", "no numbers", "surrogates", "depth 256", "many keys", "byte order mark"],
)
async def test_what_is_odd_but_json_is_accepted(client: Client, change: tuple[bytes, bytes]) -> None:
    """H10."""
    assert (await client.verify(mangled(*change))).status == 200


# --- types and encodings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    ["", "application/json", "Application/JSON; charset=utf-8", "application/problem+json", "text/plain", "a/b+json;x"],
)
async def test_content_types_that_are_read(client: Client, kind: str) -> None:
    """H10a."""
    assert (await client.post("/verify", GOOD, {"Content-Type": kind})).status == 200


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/html",
        "text/json",
        "application/jsonx",
        "json",
    ],
)
async def test_content_types_that_are_not(client: Client, kind: str) -> None:
    """H10a: with a hint."""
    assert "application/json" in check(
        await client.post("/verify", GOOD, {"Content-Type": kind}), 415, "unsupported_media_type"
    )


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
async def test_a_large_body_is_echoed_as_it_was(client: Client, group: Group, encoding: str) -> None:
    """H2, H10: in chunks of any size, or with its length said."""
    pair = replace(group, size=2)
    large = [pair.fields(slot)["response"] | {"padding": [f"{slot} {n}" for n in range(15_000)]} for slot in range(2)]
    bodies = [pair.body(slot, response=large[slot]) for slot in range(2)]
    if encoding == "gzip":
        bodies = [gzip.compress(body) for body in bodies]
    chunks = [bodies[1][start : start + 777] for start in range(0, len(bodies[1]), 777)]
    async with Connection(client.port) as connection:
        asked = connection.ask(request("POST", "/verify", chunks=chunks, headers={"Content-Encoding": encoding}))
        replies = await asyncio.gather(client.post("/verify", bodies[0], {"Content-Encoding": encoding}), asked)
    assert [reply.json["reward"] for reply in replies] == pair.rewards()
    assert [reply.json["response"] for reply in replies] == large


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip", "identity", "gzip, identity"])
async def test_a_compressed_body_is_expanded(client: Client, group: Group, encoding: str) -> None:
    """H10: and the expanded one is echoed."""
    both = replace(group, size=2)
    bodies = [both.body(slot) if encoding == "identity" else gzip.compress(both.body(slot)) for slot in range(2)]
    bodies[1] = (
        bodies[1] if encoding == "identity" else gzip.compress(both.body(1)[:50]) + gzip.compress(both.body(1)[50:])
    )
    replies = await asyncio.gather(*(client.post("/verify", body, {"Content-Encoding": encoding}) for body in bodies))
    assert [reply.json["reward"] for reply in replies] == both.rewards()
    assert [reply.json["response"] for reply in replies] == [both.fields(slot)["response"] for slot in range(2)]


PACKED = gzip.compress(GOOD)
BROKEN = {
    "plain": GOOD,
    "truncated": PACKED[:-9],
    "without its checksum": PACKED[:-4],
    "wrong checksum": PACKED[:-8] + b"\0" * 8,
    "garbage behind": PACKED + b"garbage",
    "zlib": zlib.compress(GOOD),
    "header alone": PACKED[:10],
    "empty": b"",
    "of malformed JSON": gzip.compress(GOOD[:-1]),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_broken_gzip_body_is_refused(server: Server, what: str) -> None:
    """H10."""
    async with Connection(server.port) as connection:
        reply = await connection.ask(request("POST", "/verify", BROKEN[what], {"Content-Encoding": "gzip"}))
        check(reply, 422, "invalid_request")
        assert (await connection.ask(request("POST", "/verify", GOOD))).status == 200


async def test_a_bomb_is_refused(client: Client) -> None:
    """H10: the limit holds after expansion."""
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < LIMIT
    check(await client.post("/verify", bomb, {"Content-Encoding": "gzip"}), 413, "too_large")
    just = GOOD + b" " * (LIMIT - len(GOOD))
    assert (await client.post("/verify", gzip.compress(just), {"Content-Encoding": "gzip"})).status == 200
    check(await client.post("/verify", gzip.compress(just + b" "), {"Content-Encoding": "gzip"}), 413, "too_large")


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "zstd"])
async def test_encodings_that_are_not_read(client: Client, encoding: str) -> None:
    """H10, H5: with what may be sent instead."""
    if encoding in supported_encodings():
        pytest.skip("read here")
    check(await client.post("/verify", PACKED, {"Content-Encoding": encoding}), 415, "unsupported_media_type")


# --- sizes ------------------------------------------------------------------------------------------------------------


async def test_a_body_of_exactly_the_limit_is_read(client: Client) -> None:
    """H5."""
    assert (await client.verify(GOOD + b" " * (LIMIT - len(GOOD)))).status == 200


@pytest.mark.parametrize("extra", [1, 3_000_000])
async def test_a_body_beyond_the_limit_is_refused(server: Server, extra: int) -> None:
    """H5: whether it says so or not; the connection serves on where the caller sends all of it."""
    body = GOOD + b" " * (LIMIT - len(GOOD) + extra)
    async with Connection(server.port) as connection:
        check(await connection.ask(request("POST", "/verify", body)), 413, "too_large")
        assert (await connection.ask(request("POST", "/verify", GOOD))).status == 200
        chunks = [body[start : start + 50_000] for start in range(0, len(body), 50_000)]
        check(await connection.ask(request("POST", "/verify", chunks=chunks)), 413, "too_large")
        assert (await connection.ask(request("POST", "/verify", GOOD))).status == 200


async def test_a_large_body_is_refused_before_it_is_sent(server: Server) -> None:
    """H5, H10a: the length in its head is enough, with `Expect: 100-continue` too."""
    for expect in ("", "100-continue"):
        async with Connection(server.port) as connection:
            head = request("POST", "/verify", None, {"Content-Length": str(10**30), "Expect": expect})
            if expect == "":
                head = request("POST", "/verify", None, {"Content-Length": str(10**12)})
            else:
                head = request("POST", "/verify", None, {"Content-Length": str(10**9), "Expect": expect})
            await connection.send(head)
            status, headers = await connection.head()
            assert status == 413
            assert json.loads(await connection.exactly(int(headers["content-length"])))["code"] == "too_large"


async def test_expect_100_continue_is_answered(server: Server) -> None:
    """H10a."""
    async with Connection(server.port) as connection:
        raw = request("POST", "/verify", GOOD, {"Expect": "100-continue"})
        await connection.send(raw[: -len(GOOD)])
        assert await connection.head() == (100, {})
        await connection.send(GOOD)
        assert (await connection.reply()).status == 200
        large = GOOD + b" " * 300_000
        raw = request("POST", "/verify", large, {"Expect": "100-continue"})
        await connection.send(raw[: -len(large)])
        assert await connection.head() == (100, {})
        for start in range(0, len(large), 50_000):
            await connection.send(large[start : start + 50_000])
        assert (await connection.reply()).status == 200


# --- ways over the wire -----------------------------------------------------------------------------------------------


async def test_a_body_may_come_byte_by_byte(server: Server, group: Group) -> None:
    """H10: with a length, and in chunks."""
    raw = request("POST", "/verify", GOOD)
    async with Connection(server.port) as connection:
        for start in range(0, len(raw), 7):
            await connection.send(raw[start : start + 7])
        assert (await connection.reply()).status == 200
        raw = request("POST", "/verify", chunks=[GOOD[i : i + 1] for i in range(len(GOOD))])
        assert (await connection.ask(raw)).json["reward"] == 3.0


async def test_pipelined_requests_are_answered_in_order(server: Server, judge: TextJudge, group: Group) -> None:
    """One connection that carries a whole group cannot: each waits for the one before. But what needs nobody can."""
    singles = [replace(group, name=f"{group.name} {number}", size=1).body(0) for number in range(5)]
    async with Connection(server.port) as connection:
        await connection.send(b"".join(request("POST", "/verify", body) for body in singles))
        names = [(await connection.reply()).json["_ng_group_id"] for _ in singles]
        assert names == [f"{group.name} {number}" for number in range(5)]
        await connection.send(request("POST", "/verify", MALFORMED["a list"]) + request("GET", "/healthz"))
        assert [(await connection.reply()).status for _ in range(2)] == [422, 200]


async def test_a_caller_of_http_1_0_is_served(server: Server) -> None:
    """The reply ends with the connection."""
    async with Connection(server.port) as connection:
        reply = await connection.ask(request("POST", "/verify", GOOD).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        assert reply.status == 200
        assert await connection.ends() == b""


async def test_what_is_no_http_is_refused(server: Server) -> None:
    """By the HTTP server itself; others are unharmed."""
    for raw in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /verify HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ):
        async with Connection(server.port) as connection:
            await connection.send(raw)
            assert (await connection.ends()).startswith(b"HTTP/1.1 400 ")
    assert (await server.client.verify(GOOD)).status == 200


async def test_a_body_that_stops_coming_is_given_up(serve: Serve, group: Group) -> None:
    """H10a: 408, with a length and in chunks, before its first byte and in its middle; nothing of it stays, and others
    are unharmed. Its caller is told that the connection ends, for the rest of the body would be taken for a request."""
    async with serve({"server.body_timeout_s": 0.3}) as server:
        async with (
            Connection(server.port) as first,
            Connection(server.port) as second,
            Connection(server.port) as third,
        ):
            await first.send(request("POST", "/verify", group.body(0, padding="x" * 200_000))[:-1])
            await second.send(request("POST", "/verify", chunks=[group.body(0)])[:-5])
            await third.send(request("POST", "/seed_session", None, {"Content-Length": "5"}))
            for connection in (first, second, third):
                reply = await connection.reply()
                check(reply, 408, "body_timeout")
                assert reply.headers["connection"] == "close"
                assert await connection.ends() == b""
        assert await server.client.group(group.name) is None
        assert (await server.client.verify(GOOD)).status == 200
        assert await server.client.metric("groupjudge_incoming_bodies") == 0
        assert await server.client.metric("groupjudge_spool_bytes", place="disk") == 0
