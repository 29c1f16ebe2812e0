"""Keeping the judge's key out of every text that leaves this room (J12): a judge may well echo what it was sent."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from html import escape
from urllib.parse import quote, quote_plus

PLACEHOLDER = "[key]"
EXCERPT = 1000
"""How many characters of a judge's reply a reason may quote."""


class Scrubber:
    """Knows the secrets of one judge, and how they look in the spellings that a reply may use."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if secret for form in _spellings(secret)}
        self._longest = max(map(len, forms), default=0)
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def scrub(self, text: str) -> str:
        """`text` with every secret replaced, fit for UTF-8."""
        text = text.encode(errors="replace").decode()
        return text if self._pattern is None else self._pattern.sub(PLACEHOLDER, text)

    def excerpt(self, text: str | bytes, limit: int = EXCERPT) -> str:
        """The first `limit` characters of `text`, scrubbed before they are cut: a secret across the cut would show its
        first half. Bytes are read as UTF-8, whatever they are."""
        window = 2 * limit + 4 * self._longest
        if isinstance(text, bytes):
            text = text[: 4 * window].decode(errors="replace")
        is_cut = len(text) > window
        shown = self.scrub(text[:window])
        if is_cut:
            # The end of the window may hold the beginning of a secret.
            shown = shown[: len(shown) - self._longest]
        return shown[:limit]


def _spellings(secret: str) -> Iterator[str]:
    """The secret as it is, and as JSON, a URL, HTML and base64 spell it."""
    yield secret
    for ascii_only in (True, False):
        in_json = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield from (in_json, in_json.replace("/", r"\/"))
    for quoted in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield from (quoted, re.sub("%..", lambda match: match[0].lower(), quoted))
    yield from (escape(secret), escape(secret, quote=False))
    yield from _base64_cores(secret.encode(errors="replace"))


def _base64_cores(secret: bytes) -> Iterator[str]:
    """What base64 makes of the secret wherever in a longer text it stands, without the characters at either end that
    its neighbours have a part in."""
    for before in range(3):
        padded = bytes(before) + secret
        start, end = -(-before * 8 // 6), len(padded) * 8 // 6
        for encode in (b64encode, urlsafe_b64encode):
            if core := encode(padded).decode()[start:end]:
                yield core
