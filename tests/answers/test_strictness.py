"""What is JSON and what is not, wherever it stands in a body (H10)."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.answers.fingerprint import answer_fingerprint
from groupjudge.answers.jsontext import Malformed
from groupjudge.errors import InvalidRequest

from .json_values import Paths, rngs
from .test_verify import ANSWER, BODY, encoded, read, with_fields

LONG = "[" + "12," * 2000 + "7]"
FLOATS = "[" + "-0.125," * 2000 + "1e-05]"


def places(value: str) -> list[str]:
    """Bodies that hold a text at every kind of place, with and without long arrays around it."""
    response = '"response":{"output":[{"type":"message","ids":%s%s}]%s}'
    rest = '"responses_create_params":{"input":"Hi"%s},"_ng_rollout_index":0'
    return [
        "{" + response % (LONG, f',"x":{value}', "") + "," + rest % "" + "}",
        "{" + response % (LONG, "", f',"x":{value}') + "," + rest % "" + "}",
        "{" + response % (LONG, "", "") + "," + rest % f',"x":{value}' + "}",
        "{" + response % (LONG, "", "") + "," + rest % f',"x":{LONG},"y":{value}' + "}",
        "{" + response % (FLOATS, "", "") + "," + rest % "" + f',"x":{value}}}',
        "{" + response % ("[]", "", f',"x":[{value}]') + "," + rest % "" + "}",
    ]


@pytest.mark.parametrize(
    "value",
    ["01", "-", "1.", ".5", "+1", "1e", "0x1", "-NaN", "nan", "inf", "tru", "'a'", '"\\x"', '"\\u12"', '"\t"', '"\n"',
     '"\x00"', "[1,]", "[,1]", "[1 2]", "[1,,2]", "{,}", '{"a"}', '{"a":1,}', "{a:1}", '{"a":1 "b":2}', "[1}",
     '"\\ud8"', "1\x0b", "\xa01", "/**/1", "[1]]", "[" + "1," * 3000 + "]", "[" + "1.5," * 3000 + "01]",
     "[" + "1," * 3000 + "- 1]", "[" + "1 ," * 3000 + "1 1]", "[" + "NaN," * 3000 + "-NaN]",
     "[" + "1.5," * 3000 + "]],[[1]"],
    ids=lambda text: repr(text[:6] + text[-6:]),
)  # fmt: skip
def test_what_is_no_json_is_refused_wherever_it_stands(value: str) -> None:
    """H10: with the byte at which it goes wrong."""
    for body in map(str.encode, places(value)):
        with pytest.raises(Malformed) as raised:
            read(body)
        error = raised.value
        with pytest.raises(json.JSONDecodeError) as referee:
            json.loads(body, parse_int=str)
        assert error.offset in (len(body.decode()[: referee.value.pos].encode()), len(body))
        assert error.problems == [
            {"loc": ["body", error.offset], "type": "json_invalid",
             "msg": f"malformed JSON at byte {error.offset}: {error.reason}"}
        ]  # fmt: skip


@pytest.mark.parametrize(
    "value",
    ["NaN", "-Infinity", "1e400", "-0", "-0.0", '"\\ud800"', '{"\\ud800":1}', "9" * 5000, "[" + "NaN," * 3000 + "1.5]",
     "[" + "null," * 3000 + "1.5]", "[" + "true," * 3000 + "[]]", "[" + "{}," * 3000 + "1]",
     '"' + ": [1,2]," * 1000 + '"', "[" + "7" * 100_000 + "]", '":[' + "1," * 3000 + '1],"',
     '"\\":[' + "1," * 3000 + '1]"', '{"a\\\\":' + LONG + "}",
     '"' + "\\" * 6000 + '"', "[[" + "1.5," * 3000 + "1],[2]]", "1e-400", "[" + "1e400," * 3000 + "1]"],
    ids=lambda text: repr(text[:6] + text[-6:]),
)  # fmt: skip
def test_what_careful_readers_accept_is_accepted_wherever_it_stands(value: str) -> None:
    """H10: and the answer's fingerprint is the same as read in one piece."""
    for body in map(str.encode, places(value)):
        request = read(body)
        response = body[slice(*request.response)]
        json.loads(response, parse_int=str)
        with Paths(block=1 << 30, tolerant=True, plain=True):
            assert request.arrival.answer == answer_fingerprint(response)


@pytest.mark.parametrize("at", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_body_that_was_cut_short_says_so(at: float) -> None:
    """H10: whatever it was cut in."""
    body = encoded(with_fields(response={"output": [{"x": [1.5] * 3000, "text": "x" * 5000, "y": list(range(3000))}]}))
    with pytest.raises(Malformed, match="ends before its JSON is complete"):
        read(body[: int(len(body) * at)])


@pytest.mark.parametrize("where", range(6))
def test_invalid_utf8_is_refused_with_its_byte(where: int) -> None:
    """H10: in strings, keys, and fields that nobody reads; also behind a long array and with a byte order mark."""
    body = b"\xef\xbb\xbf" + places('{"caf\\u00e9 \u20ac":"?!"}')[where].encode()
    read(body)
    for good, bad in (
        (b"?!", b"\xff!"),
        (b"?!", b"\xed\xa0\x80"),
        (b"\xe2\x82\xac", b"\xe2\x82"),
        (b"?!", b"\xc0\x80"),
    ):
        broken = body.replace(good, bad, 1)
        with pytest.raises(Malformed, match="invalid UTF-8") as raised:
            read(broken)
        assert raised.value.offset == broken.find(bad)


def test_a_byte_order_mark_is_skipped() -> None:
    """H10: spans are places in the body as it came."""
    body = b"\xef\xbb\xbf" + encoded(BODY)
    request = read(body)
    assert json.loads(body[slice(*request.response)]) == ANSWER
    assert request.arrival == read(BODY).arrival
    with pytest.raises(Malformed, match="byte 4:"):
        read(b"\xef\xbb\xbf{]")


@pytest.mark.parametrize("opener", ["[", '{"a":', "[1,", '[1.5,{"a":'])
def test_nesting_beyond_256_levels_is_refused_at_its_place(opener: str) -> None:
    """H10: in the answer and everywhere else."""
    per = opener.count("[") + opener.count("{")
    closer = "".join({"[": "]", "{": "}"}[each] for each in reversed(opener) if each in "[{")
    # How many levels are around each of the places.
    for place, around in enumerate((4, 2, 2, 2, 1, 3)):
        fits = (256 - around) // per
        read(places(opener * fits + "1" + closer * fits)[place].encode())
        for count in (fits + 1, 2000):
            body = places(opener * count + "1" + closer * count)[place].encode()
            with pytest.raises(Malformed, match="deeper than 256 levels") as raised:
                read(body)
            start = body.rindex(opener.encode() * count)
            brackets = [index for index in range(start, len(body)) if body[index] in b"[{"]
            assert raised.value.offset == brackets[256 - around]


@pytest.mark.parametrize(
    "body", [b"[" * 1_000_000, b'{"a":' * 200_000, b'{"response":' + b"[" * 1_000_000, b'[{"' * 100_000]
)
def test_a_million_brackets_are_refused_without_a_fuss(body: bytes) -> None:
    """H10: 422, never a RecursionError."""
    with pytest.raises(InvalidRequest):
        read(body)


@pytest.mark.parametrize(
    "value",
    ["1" + "0" * 1_000_000, "[" + "1" * 1_000_000 + ",NaN]", '"' + '\\"' * 300_000, '"' + "\\" * 300_001,
     "[" + "-" * 100_000,     '"' + "{" * 300_000 + '"', "{" + ",".join(f'"k{i}":[]' for i in range(30_000)) + "}",
     '"\\ud800' + "a[" * 300_000 + '"',     '[{"a":[NaN]}' + ',{"a":"\\""}' * 30_000 + "]"],
    ids=lambda text: repr(text[:8]),
)  # fmt: skip
def test_big_odd_bodies_are_read_in_a_time_that_grows_with_their_length(value: str) -> None:
    """H10, H11: a quadratic reader would not come to an end here."""
    for body in places(value):
        try:
            read(body.encode())
        except Malformed:
            assert value.startswith(('"' + '\\"', '"' + "\\" * 3, "[-"))


def fault_of(body: bytes) -> InvalidRequest | None:
    """What is wrong with a body."""
    try:
        read(body)
    except InvalidRequest as error:
        return error
    return None


@given(
    rngs,
    st.sampled_from([b"", b"\xff", b"[", b"]", b"{", b'"', b"\\", b"NaN", b"0", b",", b"-"]),
)
def test_a_body_is_refused_as_malformed_exactly_where_another_reader_refuses_it(
    rng: random.Random, piece: bytes
) -> None:
    """H10: json.loads is the referee; a few bytes are changed anywhere."""
    body = rng.choice(places('[1.5,{"a":"b"},null]')).encode()
    start = rng.randrange(len(body)) if rng.random() < 0.3 else rng.randrange(40)
    if rng.random() < 0.5:
        start = len(body) - 1 - start
    broken = body[:start] + piece + body[start + rng.randrange(2) :]
    try:
        json.loads(broken.decode(), parse_int=str)
    except ValueError:
        with pytest.raises(Malformed):
            read(broken)
        return
    assert not isinstance(fault_of(broken), Malformed)
