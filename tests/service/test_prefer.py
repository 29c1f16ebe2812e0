"""The `Prefer` header, as far as it matters here (H3, RFC 7240)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from groupjudge.service.prefer import preferences, wants_minimal


def sent(*lines: str) -> Headers:
    return Headers(raw=[(b"prefer", line.encode("latin-1")) for line in lines])


@pytest.mark.parametrize(
    ("lines", "minimal"),
    [
        ((), False),
        (("return=minimal",), True),
        (("RETURN=Minimal",), True),
        (("return = minimal",), True),
        (('return="minimal"',), True),
        (("return=minimal; foo=bar",), True),
        (("respond-async, return=minimal",), True),
        (("respond-async", "return=minimal"), True),
        (("return=representation, return=minimal",), False),
        (("return=representation", "return=minimal"), False),
        (("return",), False),
        (("return=",), False),
        (("return=minimally",), False),
        (("x-return=minimal",), False),
        (("minimal",), False),
        (("",), False),
        ((",,;=,return=minimal",), True),
    ],
)
def test_who_wants_no_echo(lines: tuple[str, ...], minimal: bool) -> None:
    """H3: of a preference that comes twice the first counts."""
    assert wants_minimal(sent(*lines)) is minimal


@given(st.lists(st.text(st.characters(max_codepoint=255)), max_size=4))
def test_any_header_is_read(lines: list[str]) -> None:
    """Nothing that a caller writes there is an error."""
    assert all(name == name.lower() for name in preferences(sent(*lines)))
