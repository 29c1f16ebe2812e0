"""No key in any text (J12)."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.judging.scrub import Scrubber

KEY = 'sk-Ab/9+z="<&>~\\ü'
SPELLINGS = {
    "plain": KEY,
    "JSON": json.dumps(KEY)[1:-1],
    "JSON, not ASCII": json.dumps(KEY, ensure_ascii=False)[1:-1],
    "JSON, slashes escaped": json.dumps(KEY)[1:-1].replace("/", "\\/"),
    "URL": quote(KEY, safe=""),
    "URL path": quote(KEY),
    "form": quote_plus(KEY),
    "URL, lower case": quote(KEY, safe="")
    .replace("%2F", "%2f")
    .replace("%2B", "%2b")
    .replace("%3D", "%3d")
    .replace("%3C", "%3c")
    .replace("%3E", "%3e")
    .replace("%5C", "%5c")
    .replace("%C3%BC", "%c3%bc"),
    "HTML": html.escape(KEY),
    "HTML, quotes left": html.escape(KEY, quote=False),
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_key_is_replaced_in_each_spelling(spelling: str) -> None:
    """J12."""
    assert Scrubber([KEY]).scrub(f"a {spelling} b {spelling}") == "a [key] b [key]"


@pytest.mark.parametrize("before", ["", "B", "Be", "Bearer ", "anna:"])
@pytest.mark.parametrize("after", ["", "x", "xy", "xyz"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_key_is_replaced_wherever_it_stands_in_base64(before: str, after: str, encode: object) -> None:
    """J12: what remains decodes to next to nothing of it."""
    key = "sk-0123456789abcdef?>~"
    encoded = encode(f"{before}{key}{after}".encode()).decode()  # type: ignore[operator]
    scrubbed = Scrubber([key]).scrub(encoded)
    assert "[key]" in scrubbed
    assert len(scrubbed.replace("[key]", "")) <= len(encoded) - len(key) * 8 // 6 + 2


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=20),
    st.text(st.characters(exclude_categories=())),
    st.text(st.characters(exclude_categories=())),
)
def test_a_scrubbed_text_is_fit_for_utf_8_and_has_no_key(key: str, before: str, after: str) -> None:
    """J12."""
    scrubbed = Scrubber([key]).scrub(before + key + after)
    scrubbed.encode()
    assert key not in scrubbed.replace("[key]", "\0")


@given(st.integers(0, 3000), st.sampled_from(list(SPELLINGS.values())))
def test_a_key_across_the_cut_does_not_show_its_beginning(position: int, spelling: str) -> None:
    """J12: cut after it is scrubbed; the first 1,000 characters are kept where no key stands."""
    text = "." * position + spelling + "." * 3000
    for whole in (text, text.encode()):
        excerpt = Scrubber([KEY]).excerpt(whole)
        assert set(excerpt.replace("[key]", "")) <= set(".[key]")
        assert len(excerpt) == 1000


def test_many_keys_before_the_cut_do_not_pull_half_a_key_into_sight() -> None:
    """J12: replaced keys are shorter, so that what stood behind the cut moves up."""
    for filler in range(40):
        excerpt = Scrubber([KEY]).excerpt("." * filler + KEY * 500)
        assert set(excerpt.replace("[key]", "")) <= set(".[key]")


def test_a_short_text_is_quoted_whole() -> None:
    assert Scrubber([KEY]).excerpt(b"short \xff text") == "short \ufffd text"
    assert Scrubber().excerpt("x" * 3000) == "x" * 1000
    assert Scrubber().excerpt("abc", 2) == "ab"
    assert Scrubber([""]).scrub("abc") == "abc"
    assert Scrubber([KEY]).scrub("a\ud800b") == Scrubber().scrub("a\ud800b") == "a?b"


def test_several_secrets_are_all_replaced_the_longest_first() -> None:
    """J12."""
    assert Scrubber(["anna", "anna:password"]).scrub("anna:password anna") == "[key] [key]"
