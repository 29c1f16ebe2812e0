"""Bodies that come compressed (H10)."""

from __future__ import annotations

import gzip
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.answers import encoding
from groupjudge.answers.encoding import UnsupportedEncoding, expanded, supported_encodings
from groupjudge.errors import BodyTooLarge, InvalidRequest

BODY = b'{"a":"' + random.Random(1).randbytes(700_000).hex().encode() + bytes(500_000) + b'"}'


def compressed(body: bytes, name: str) -> bytes:
    """A body in a coding, with a checksum."""
    if name != "zstd":
        return gzip.compress(body, mtime=0)
    zstd = encoding._zstd
    return bytes(zstd.compress(body, options={zstd.CompressionParameter.checksum_flag: 1}))


def expand(body: bytes, name: str, limit: int, piece: int = 100_000) -> bytes:
    """A body expanded as it comes, in pieces of a size."""
    pieces = (body[start : start + piece] for start in range(0, len(body), piece))
    return b"".join(expanded(pieces, name, limit))


every_encoding = pytest.mark.parametrize("name", [*supported_encodings(), "x-gzip", "GZIP "])


@every_encoding
def test_a_body_is_what_it_was(name: str) -> None:
    """H10: whatever its size, and though it comes in several streams."""
    kind = name.strip().lower()
    for body in (b"", b"{}", BODY, bytes(3_000_000)):
        assert expand(compressed(body, kind), name, len(body)) == body
    assert expand(compressed(BODY, kind) + compressed(b"{}", kind), name, len(BODY) + 2) == BODY + b"{}"


@pytest.mark.parametrize("name", ["", "identity", " Identity "])
def test_a_plain_body_is_itself(name: str) -> None:
    """H10."""
    assert [*expanded((BODY, b"x"), name, 1)] == [BODY, b"x"]


@every_encoding
def test_a_body_that_grows_too_large_is_given_up(name: str) -> None:
    """H10: at the limit, not after all of it was expanded."""
    kind = name.strip().lower()
    with pytest.raises(BodyTooLarge, match="max_body_bytes"):
        expand(compressed(BODY, kind), name, len(BODY) - 1)
    with pytest.raises(BodyTooLarge):
        expand(compressed(bytes(50_000_000), kind), name, 1000)


def test_a_bomb_is_expanded_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """H10: what is made of 50 MB of zeros before it is given up is the limit and one step."""
    made: list[int] = []

    class Counted(encoding._Gzip):
        def feed(self, data: bytes):  # type: ignore[no-untyped-def]
            for out in super().feed(data):
                made.append(len(out))
                yield out

    monkeypatch.setitem(encoding._EXPANDERS, "gzip", Counted)
    with pytest.raises(BodyTooLarge):
        expand(compressed(bytes(50_000_000), "gzip"), "gzip", 1_000_000)
    assert sum(made) <= 1_000_000 + max(made)
    assert max(made) <= 1 << 18


@every_encoding
@pytest.mark.parametrize("cut", [0, 1, 5, 1000, -9, -1])
def test_a_stream_that_was_cut_short_is_invalid(name: str, cut: int) -> None:
    """H10: 422."""
    with pytest.raises(InvalidRequest, match="too early"):
        expand(compressed(BODY, name.strip().lower())[:cut], name, len(BODY))


@every_encoding
def test_what_is_no_stream_is_invalid(name: str) -> None:
    """H10: from the start, in the middle, or behind the end."""
    good = compressed(BODY, name.strip().lower())
    for bad in (BODY, b"{}" + good, good[:-3] + b"\x00\x01\x02", good + b"{}", good[:50] + b"!!!!!" + good[55:]):
        with pytest.raises(InvalidRequest) as raised:
            expand(bad, name, 10 * len(BODY))
        assert raised.value.problems[0]["type"] == "encoding_invalid"


@pytest.mark.parametrize("name", ["br", "deflate", "gzip, gzip", "gzip,identity,gzip", "x" * 500])
def test_other_encodings_are_refused_with_what_is_read(name: str) -> None:
    """H10, H10a: 415 with a hint, bounded."""
    with pytest.raises(UnsupportedEncoding) as raised:
        expand(zlib.compress(b"{}"), name, 100)
    assert raised.value.code == "unsupported_media_type"
    assert len(str(raised.value)) < 200


@given(st.binary(max_size=2000), st.integers(1, 3), st.sampled_from([7, 64, 1 << 18]), st.sampled_from([1, 50, 9999]))
def test_steps_of_any_size_give_the_same_body(body: bytes, streams: int, step: int, piece: int) -> None:
    """H10: no byte is lost between two steps, or two pieces of what is expanded."""
    steps = encoding._INPUT_STEP, encoding._OUTPUT_STEP
    encoding._INPUT_STEP, encoding._OUTPUT_STEP = step, step
    try:
        assert expand(compressed(body, "gzip") * streams, "gzip", 10_000, piece) == body * streams
    finally:
        encoding._INPUT_STEP, encoding._OUTPUT_STEP = steps
