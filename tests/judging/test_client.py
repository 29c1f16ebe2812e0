"""One call to a judge over HTTP: its tries, its pauses and its endings (J12, J13, J22), over real sockets."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from groupjudge.errors import ConfigurationError, JudgeFailed
from groupjudge.judging import endpoint
from groupjudge.judging.gate import Gate
from groupjudge.judging.reading import ReadingRules, ReadResult, read_verdict
from groupjudge.model import Pair

from ..support import judges
from ..support.http_judges import ANSWERS, PAIR, TOPIC, Judged, answers, judge_of
from ..support.judges import StubJudge, chat, cut, http, verdict

KEY = "sk-very/secret+key=="

TRIED_AGAIN = {
    "408": http(408, "slow"),
    "429": http(429, "busy"),
    "500": http(500, "oops"),
    "503": http(503, "loading"),
    "599": http(599, "odd"),
    "HTML": judges.HTML,
    "event stream": judges.EVENT_STREAM,
    "nothing": http(200, b""),
    "no content": http(204, b""),
    "other JSON": http(200, '{"hello": 1}'),
    "JSON list": http(200, "[1]"),
    "no choices": http(200, '{"choices": []}'),
    "error object": http(200, '{"error": {"message": "busy", "code": 429}}'),
    "error object without code": http(200, '{"error": {"message": "broken"}, "choices": []}'),
    "disconnected": judges.DISCONNECT,
    "reset": judges.RESET,
    "cut in the body": cut(verdict()),
    "cut in the head": cut(verdict(), 20),
    "no HTTP": judges.Reply(b"SSH-2.0-OpenSSH\r\n\r\n", "close"),
    "bogus gzip": http(200, b"not gzip at all", {"Content-Encoding": "gzip"}),
    "invalid UTF-8": http(200, b'{"choices": "\xff\xfe"}'),
    "deeply nested": http(200, b"[" * 100_000),
    "huge integer": http(200, b'{"n": ' + b"9" * 5000 + b"}"),
    "larger than any reply": http(200, verdict().raw.split(b"\r\n\r\n", 1)[1] + b" " * (8 << 20)),
    "unreadable": chat("I like both."),
    "out of range": chat('{"score_1": 9, "score_2": 2, "ranking": 1}'),
    "thoughts only": chat('<think>{"score_1": 4, "score_2": 2, "ranking": 1}'),
    "empty": chat(""),
    "white space": chat(" \n"),
    "null": chat(None),
    "finish reason length": chat(judges.verdict_text(), "length"),
}


@pytest.mark.parametrize("reply", TRIED_AGAIN.values(), ids=TRIED_AGAIN.keys())
async def test_a_transient_failure_is_tried_again_with_the_same_request(reply: judges.Reply) -> None:
    """J12, J22: the next try brings the verdict; both sent the same bytes."""
    async with StubJudge(reply, verdict(5, 1, 1)) as stub, judge_of(stub, retries=1) as judge:
        assert await judge.ask() == (5, 1, 1)
    first, second = stub.received
    assert (first.body, first.headers, first.target) == (second.body, second.headers, second.target)
    assert len(judge.clock.pauses) == 1
    assert judge.counted.calls == [("verdict", 2)]


NOT_TRIED_AGAIN = {
    "400": (http(400, "bad request"), "status 400", "bad request"),
    "401": (http(401, "who are you"), "status 401", "who are you"),
    "404": (http(404, "no such model"), "status 404", "no such model"),
    "422": (http(422, "cannot"), "status 422", "cannot"),
    "error object": (http(200, '{"error": {"code": 404, "message": "gone"}}'), "status 404", "gone"),
    "redirect": (http(307, "", {"Location": "http://elsewhere/v1"}), "status 307", "http://elsewhere/v1"),
    "redirect to nowhere": (http(302), "status 302", "redirect"),
}


@pytest.mark.parametrize(("reply", "status", "quote"), NOT_TRIED_AGAIN.values(), ids=NOT_TRIED_AGAIN.keys())
async def test_another_http_error_fails_at_once_with_its_status_and_reply(
    reply: judges.Reply, status: str, quote: str
) -> None:
    """J12, L26: one try; the reason quotes the judge, the summary has only the status."""
    async with StubJudge(reply) as stub, judge_of(stub) as judge:
        with pytest.raises(JudgeFailed) as failed:
            await judge.ask()
    assert len(stub.received) == 1
    assert status in failed.value.reason
    assert quote in failed.value.reason
    assert status in failed.value.summary
    assert quote not in failed.value.summary.replace("redirect", "")
    assert judge.counted.calls == [("failed", 1)]
    assert judge.counted.tries[0][0] == "rejected"


async def test_a_redirect_is_never_followed() -> None:
    """J22."""
    async with StubJudge() as target:
        moved = http(308, "", {"Location": f"{target.base_url}/chat/completions"})
        async with StubJudge(moved) as stub, judge_of(stub) as judge:
            with pytest.raises(JudgeFailed, match="redirects are refused"):
                await judge.ask()
    assert target.received == []


async def test_the_deadline_of_a_request_fails_the_call_at_once_and_closes_its_connection() -> None:
    """J12: not tried again."""
    async with StubJudge() as stub, judge_of(stub, request_timeout_s=0.05) as judge:
        stub.hold()
        with pytest.raises(JudgeFailed, match=r"request_timeout_s") as failed:
            await judge.ask()
        await stub.until(lambda: not stub.open_connections)
    assert len(stub.received) == 1
    assert "deadline" in failed.value.summary
    assert judge.counted.tries == [("deadline", None)]
    assert judge.gate.in_flight == 0


async def test_a_reply_that_stops_in_its_middle_ends_at_the_deadline() -> None:
    """J12: a stalled body hangs nobody."""
    stalled = judges.Reply(verdict().raw[:-5], "silence")
    async with StubJudge(stalled) as stub, judge_of(stub, request_timeout_s=0.05) as judge:
        with pytest.raises(JudgeFailed, match="request_timeout_s"):
            await judge.ask()


async def test_waiting_for_a_place_does_not_use_up_the_deadline_of_a_request() -> None:
    """J12: a call that waits longer than `request_timeout_s` for its place is still made."""
    gate = Gate(1)
    async with StubJudge() as stub, judge_of(stub, gate=gate, request_timeout_s=0.05) as judge:
        async with gate:
            call = asyncio.create_task(judge.ask())
            await asyncio.sleep(0.1)  # longer than the deadline: what is under test is that nothing comes of it
            assert gate.waiting == 1
        assert await call == (4, 2, 2)


async def test_retries_share_one_allowance_and_the_last_transport_error_fails_the_call() -> None:
    """J12, J13: an unreadable reply and a 503 use up two tries; the last was a transport error."""
    async with StubJudge(chat("hm"), http(503, "down")) as stub, judge_of(stub, retries=1) as judge:
        with pytest.raises(JudgeFailed, match=r"after 2 tries: .*status 503: down") as failed:
            await judge.ask()
    assert "503" in failed.value.summary
    assert "down" not in failed.value.summary
    assert judge.counted.tries == [("unreadable", 200), ("transport", 503)]


async def test_tries_that_all_end_unfinished_fail_the_call() -> None:
    """J13: no try brought a finished, non-empty reply."""
    async with StubJudge(chat(""), chat("x", "length")) as stub, judge_of(stub, retries=1) as judge:
        with pytest.raises(JudgeFailed, match="finish reason length"):
            await judge.ask()


@pytest.mark.parametrize("last", [chat("no idea"), chat(""), chat("hm", "length")])
async def test_a_finished_reply_that_nobody_could_read_leaves_the_call_unreadable(last: judges.Reply) -> None:
    """J13: some try brought a finished reply, and the last one was no transport error."""
    script = (http(500), chat("no idea"), last)
    async with StubJudge(*script) as stub, judge_of(stub, retries=2) as judge:
        problem = await judge.ask()
    assert isinstance(problem, str)
    assert "after 3 tries" in problem
    assert "no idea" in problem
    assert judge.counted.calls == [("unreadable", 3)]


async def test_without_retries_one_try_is_made() -> None:
    """J12: 1 + retries."""
    async with StubJudge(http(503), verdict()) as stub, judge_of(stub, retries=0) as judge:
        with pytest.raises(JudgeFailed, match="after 1 try"):
            await judge.ask()
    assert len(stub.received) == 1
    assert judge.clock.pauses == []


async def test_pauses_double_and_stop_growing_at_ten_seconds() -> None:
    """J12."""
    async with StubJudge(otherwise=http(500)) as stub, judge_of(stub, retries=8) as judge:
        with pytest.raises(JudgeFailed):
            await judge.ask()
    assert judge.clock.pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10])


@pytest.mark.parametrize(
    ("header", "pause"),
    [("7", 7.0), ("900", 60.0), ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0), ("soon", 0.2)],
)
async def test_retry_after_sets_the_pause(header: str, pause: float) -> None:
    """J12: seconds or a date, up to 60 s; nonsense is ignored."""
    busy = http(429, "", {"Retry-After": header})
    async with StubJudge(busy) as stub, judge_of(stub) as judge:
        assert await judge.ask() == (4, 2, 2)
    assert judge.clock.pauses == pytest.approx([pause])


async def test_a_call_holds_no_place_while_it_pauses_and_queues_again_after() -> None:
    """J3: with one place, a second call is served during the first one's pause."""
    paused, resume = asyncio.Event(), asyncio.Event()

    async def sleep(_: float) -> None:
        paused.set()
        await resume.wait()

    script = (http(500), verdict(1, 1, 3), verdict(2, 2, 3))
    async with StubJudge(*script) as stub, judge_of(stub, max_concurrency=1, sleep=sleep) as judge:
        first = asyncio.create_task(judge.ask())
        await paused.wait()
        assert judge.gate.in_flight == 0
        assert await judge.ask() == (1, 1, 3)
        resume.set()
        assert await first == (2, 2, 3)


async def test_calls_are_served_first_come_first_served_within_the_bound() -> None:
    """J3: never more at once than there are places, and in the order in which they were made."""
    texts = answers(*(f"answer {n}" for n in range(40)))
    async with StubJudge() as stub, judge_of(stub, max_concurrency=3) as judge:
        stub.hold()
        prepared = judge.prepare(TOPIC, texts)
        calls = [asyncio.create_task(judge.compare(prepared, Pair(n, 0, 0))) for n in range(40)]
        await stub.until(lambda: len(stub.received) == 3)
        assert (judge.gate.in_flight, judge.gate.waiting) == (3, 37)
        stub.let_go()
        await asyncio.gather(*calls)
    assert stub.peak <= 3
    order = [request.json["messages"][-2]["content"] for request in stub.received]
    seats = {f"answer {n}": n for n in range(40)}
    # Three are under way at a time, so a request may overtake at most the two beside it.
    assert all(abs(seats[text] - place) <= 2 for place, text in enumerate(order))


async def test_a_thousand_calls_at_once_all_get_their_own_verdict() -> None:
    """J3, L24: each reply depends on its request and reaches the call that sent it."""

    def by_first_answer(request: judges.Received) -> judges.Reply:
        return verdict(1, 5, float(request.json["messages"][-2]["content"]) / 200 + 1)

    texts = answers(*map(str, range(1000)))
    async with StubJudge(by=by_first_answer) as stub, judge_of(stub, max_concurrency=64) as judge:
        prepared = judge.prepare(TOPIC, texts)
        calls = await asyncio.gather(*(judge.compare(prepared, Pair(n, 0, 0)) for n in range(1000)))
    assert [call.reading.ranking for call in calls if call.reading] == [n / 200 + 1 for n in range(1000)]
    assert stub.peak <= 64
    assert stub.connections <= 64


async def test_connections_are_used_again() -> None:
    """J22: one pool, no new connection per call."""
    async with StubJudge() as stub, judge_of(stub) as judge:
        for _ in range(5):
            await judge.ask()
    assert stub.connections == 1


async def test_an_answer_larger_than_a_megabyte_is_sent_whole_and_again() -> None:
    """J22: also on its second try."""
    texts = answers("é" * 1_500_000, "b")
    async with StubJudge(http(500)) as stub, judge_of(stub) as judge:
        assert await judge.ask(texts=texts) == (4, 2, 2)
    assert [len(r.json["messages"][-2]["content"]) for r in stub.received] == [1_500_000] * 2


async def test_what_the_judge_calls_its_reply_does_not_matter() -> None:
    """J22: `Content-Type` is not trusted over the bytes."""
    odd = http(body=verdict().raw.split(b"\r\n\r\n", 1)[1], content_type="text/html; charset=utf-16")
    async with StubJudge(odd) as stub, judge_of(stub) as judge:
        assert await judge.ask() == (4, 2, 2)


async def test_a_compressed_reply_is_read() -> None:
    """The judge is asked not to compress; a gateway that does anyway is understood."""
    import gzip

    body = verdict().raw.split(b"\r\n\r\n", 1)[1]
    packed = http(200, gzip.compress(body), {"Content-Encoding": "gzip"})
    async with StubJudge(packed) as stub, judge_of(stub) as judge:
        assert await judge.ask() == (4, 2, 2)
    assert stub.received[0].headers["accept-encoding"] == "identity"


async def test_the_key_is_sent_and_never_quoted() -> None:
    """J12: whatever spelling the judge echoes it in."""
    import base64
    from urllib.parse import quote

    echo = " ".join([KEY, json.dumps(KEY), quote(KEY, safe=""), base64.b64encode(f"Bearer {KEY}".encode()).decode()])
    async with StubJudge(http(401, f"wrong key {echo}")) as stub, judge_of(stub, api_key=KEY) as judge:
        with pytest.raises(JudgeFailed) as failed:
            await judge.ask()
    assert stub.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert "wrong key [key]" in failed.value.reason
    for part in ("very", "secret", base64.b64encode(KEY.encode()).decode()[3:-6]):
        assert part not in failed.value.reason
        assert part not in repr(judge._options)


async def test_the_key_is_not_quoted_from_a_redirect_an_unreadable_reply_or_other_json() -> None:
    """J12: every text that leaves is scrubbed."""
    moved = http(302, "", {"Location": f"http://x/{KEY}"})
    for reply in (moved, http(200, json.dumps({"got": KEY}))):
        async with StubJudge(reply) as stub, judge_of(stub, api_key=KEY, retries=0) as judge:
            with pytest.raises(JudgeFailed) as failed:
                await judge.ask()
        assert "secret" not in failed.value.reason
    async with StubJudge(chat(f"your key is {KEY}")) as stub, judge_of(stub, api_key=KEY, retries=0) as judge:
        problem = await judge.ask()
    assert "your key is [key]" in problem
    assert "secret" not in problem


async def test_a_user_in_the_address_is_sent_as_basic_and_never_shown() -> None:
    """J12."""
    async with StubJudge(otherwise=http(401, "no: anna:hunter22 or hunter22")) as stub:
        with_user = stub.base_url.replace("http://", "http://anna:hunter22@")
        async with Judged(with_user) as judge:
            with pytest.raises(JudgeFailed) as failed:
                await judge.ask()
            assert "hunter22" not in str(await judge.reachable())
    assert stub.received[0].headers["authorization"] == "Basic YW5uYTpodW50ZXIyMg=="
    assert "hunter22" not in failed.value.reason
    assert f"127.0.0.1:{stub.port}" in failed.value.reason


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://u:pw77@h/v1", "k"),
        ("ftp://u:pw77@h", None),
        ("http://", None),
        ("http://[::", None),
        ("http://u:pw77@h..example", None),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_quoting_it(url: str, key: str | None) -> None:
    with pytest.raises(ConfigurationError, match=r"judge\.base_url") as refused:
        Judged(url, api_key=key)
    assert "pw77" not in str(refused.value)


async def test_the_reason_quotes_the_first_thousand_characters_of_the_reply() -> None:
    """J12."""
    async with StubJudge(http(400, "é" * 5000)) as stub, judge_of(stub) as judge:
        with pytest.raises(JudgeFailed) as failed:
            await judge.ask()
    assert failed.value.reason.count("é") == 1000
    assert len(failed.value.reason) < 2000


async def test_what_is_counted() -> None:
    """J12, J13: tries, calls, tokens."""
    usage = {"prompt_tokens": 12, "completion_tokens": 3}
    async with StubJudge(http(500), chat(judges.verdict_text(), usage=usage)) as stub, judge_of(stub) as judge:
        await judge.ask()
    assert judge.counted.tries == [("transport", 500), ("ok", 200)]
    assert judge.counted.calls == [("verdict", 2)]
    assert judge.counted.tokens == [(12, 3)]


async def test_differing_verdicts_in_one_reply_are_counted_as_ambiguous() -> None:
    """J11."""
    both = judges.verdict_text(1, 2, 5) + " no: " + judges.verdict_text(4, 2, 2)
    async with StubJudge(chat(both)) as stub, judge_of(stub) as judge:
        assert await judge.ask() == (4, 2, 2)
    assert judge.counted.ambiguities == 1


@pytest.mark.parametrize(
    ("code", "there"), [(200, True), (404, True), (405, True), (401, False), (403, False), (503, False)]
)
async def test_a_judge_is_reachable_where_it_answers_and_lets_us_in(code: int, there: bool) -> None:
    """H8."""
    async with StubJudge(http(code, "text of the judge")) as stub, judge_of(stub, api_key=KEY) as judge:
        reason = await judge.reachable()
    assert (reason is None) == there
    assert there or str(code) in str(reason)
    assert "text of the judge" not in str(reason)
    (request,) = stub.received
    assert (request.method, request.target) == ("GET", "/v1/models")
    assert request.headers["authorization"] == f"Bearer {KEY}"


async def test_a_judge_that_is_not_there_or_silent_is_not_reachable() -> None:
    """H8."""
    async with StubJudge(judges.SILENCE) as stub, judge_of(stub, request_timeout_s=0.05) as judge:
        assert "does not answer" in str(await judge.reachable())
    async with judge_of(stub) as judge:
        assert "cannot connect" in str(await judge.reachable())


async def test_a_judge_that_is_not_there_fails_the_call_with_its_address() -> None:
    async with StubJudge() as stub:
        pass
    async with judge_of(stub, retries=1) as judge:
        with pytest.raises(
            JudgeFailed, match=rf"after 2 tries: cannot connect to .*:{stub.port}/v1: .*Error: .*onnect"
        ):
            await judge.ask()


SECRETIVE = {
    "status line": judges.Reply(f"HTTP/1.1 {KEY}\r\n\r\n".encode(), "close"),
    "header": judges.Reply(f"HTTP/1.1 200 OK\r\nX\x01 {KEY}: 1\r\n\r\n".encode(), "close"),
    "HTML": http(200, f"<html>{KEY}", content_type="text/html"),
    "error object": http(200, json.dumps({"error": {"message": KEY}})),
    "503": http(503, KEY),
}


@pytest.mark.parametrize("reply", SECRETIVE.values(), ids=SECRETIVE.keys())
async def test_no_kind_of_failure_quotes_the_key_nor_the_judge_in_its_summary(reply: judges.Reply) -> None:
    """J12, L26: malformed HTTP is quoted by the client library, so that too is scrubbed."""
    async with StubJudge(reply) as stub, judge_of(stub, api_key=KEY, retries=0) as judge:
        with pytest.raises(JudgeFailed) as failed:
            await judge.ask()
    assert "secret" not in failed.value.reason
    assert "secret" not in failed.value.summary
    assert "key" not in failed.value.summary
    assert "html>" not in failed.value.summary


async def test_a_judge_that_was_closed_before_any_call_opens_nothing() -> None:
    """L19."""
    async with StubJudge() as stub:
        judge = judge_of(stub)
        await judge.close()
        with pytest.raises(RuntimeError, match="closed"):
            await judge.ask()
    assert stub.connections == 0


async def test_a_closed_judge_refuses_calls() -> None:
    async with StubJudge() as stub, judge_of(stub) as judge:
        await judge.ask()
        await judge.close()
        with pytest.raises(RuntimeError, match="closed"):
            await judge.ask()


async def test_closing_leaves_no_connection_and_may_come_twice_or_before_any_call() -> None:
    """L19."""
    async with StubJudge() as stub:
        judge = judge_of(stub)
        await judge.close()
        judge = judge_of(stub)
        await judge.ask()
        await judge.close()
        await judge.close()
        await stub.until(lambda: not stub.open_connections)


@pytest.mark.parametrize("on", [True, False])
async def test_the_schema_goes_out_where_structured_output_is_on(on: bool) -> None:
    """J8."""
    async with StubJudge() as stub, judge_of(stub, format="template", structured_output=on) as judge:
        assert await judge.ask() == (4, 2, 2)
    body = stub.received[0].json
    assert ("response_format" in body) == on
    assert "Paris." in body["messages"][0]["content"]


async def test_the_responses_api_is_asked_and_read() -> None:
    """J6: its reasoning is not."""
    reply = judges.responses(judges.verdict_text(5, 1, 1))
    async with StubJudge(reply) as stub, judge_of(stub, format="responses") as judge:
        assert await judge.ask() == (5, 1, 1)
    assert stub.received[0].target == "/v1/responses"
    assert stub.received[0].json["metadata"] == {"response_1": "Paris.", "response_2": "Lyon."}


async def test_an_empty_answer_goes_out_as_configured() -> None:
    """J21."""
    async with StubJudge() as stub, judge_of(stub, empty_answer_text="[nothing]") as judge:
        await judge.ask(texts=answers("None", "b"))
    assert stub.received[0].json["messages"][-2]["content"] == "[nothing]"


def test_a_template_that_would_lose_the_principle_is_refused_at_start(tmp_path: Path) -> None:
    """J10."""
    path = tmp_path / "template.txt"
    path.write_text("${conversation} ${answer_1} ${answer_2}")
    Judged("http://h/v1", format="template", template=str(path))
    with pytest.raises(ConfigurationError, match="principle"):
        Judged("http://h/v1", format="template", template=str(path), use_principle=True)


async def test_a_call_without_events_or_injected_parts_works() -> None:
    from groupjudge.judging.client import HttpJudge, HttpJudgeOptions

    from ..support.http_judges import RULES

    async with StubJudge(http(500)) as stub:
        options = HttpJudgeOptions(stub.base_url, format="genrm", retry_sleep_s=0.0)
        async with HttpJudge(options, RULES) as judge:
            call = await judge.compare(judge.prepare(TOPIC, ANSWERS), PAIR)
    assert call.reading == (4, 2, 2)


@pytest.mark.parametrize(("length", "apart"), [(100, False), (100_000, True)])
async def test_a_long_reply_is_read_where_it_holds_nobody_up(
    length: int, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H11: one that was made to be tangled takes seconds to read; a short one is read at once."""
    threads: list[int] = []

    def recorded(text: str, rules: ReadingRules) -> ReadResult:
        threads.append(threading.get_ident())
        return read_verdict(text, rules)

    monkeypatch.setattr(endpoint, "read_verdict", recorded)
    text = "{" * length + judges.verdict_text(5, 1, 1)
    async with StubJudge(chat(text)) as stub, judge_of(stub, retries=0) as judge:
        assert await judge.ask() == (5, 1, 1)
    assert [thread != threading.get_ident() for thread in threads] == [apart]
