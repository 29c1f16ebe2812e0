"""A judge's base address, and what authorises us there."""

from __future__ import annotations

import base64
from typing import NamedTuple

from yarl import URL

from groupjudge.errors import ConfigurationError

_URL_SHOWN = 200


class Address(NamedTuple):
    """A judge's base address: `shown` may stand in texts, `headers` carry what authorises us, `secrets` may not."""

    base: str
    shown: str
    headers: dict[str, str]
    secrets: tuple[str, ...]


def parse_address(base_url: str, api_key: str | None, key: str = "judge") -> Address:
    """Take a user and password out of `base_url`; `key` is where it stands in the configuration. Raises
    ConfigurationError, which quotes neither."""
    try:
        url = URL(base_url)
        (url.raw_host or "").encode("idna")  # as it is looked up
    except ValueError:
        raise ConfigurationError(f"{key}.base_url is no web address") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigurationError(f"{key}.base_url must be a web address such as http://127.0.0.1:8000/v1")
    if api_key is not None and url.user is not None:
        raise ConfigurationError(f"{key}.api_key and a user in {key}.base_url exclude each other: leave one out")
    if api_key is not None and not api_key.isprintable():
        raise ConfigurationError(f"{key}.api_key holds a line break or another character that no header can hold")
    bare = str(url.with_user(None)).rstrip("/")
    secrets, authorization = credentials(url, api_key)
    headers = {"Authorization": authorization} if authorization else {}
    return Address(bare, bare[:_URL_SHOWN], headers, secrets)


def credentials(url: URL, api_key: str | None) -> tuple[tuple[str, ...], str]:
    """The secrets, and the header value that they make."""
    if api_key is not None:
        return (api_key,), f"Bearer {api_key}"
    if url.user is None and url.password is None:
        return (), ""
    user, password = url.user or "", url.password or ""
    # A user without a password is a token.
    return (f"{user}:{password}", password or user), _basic(user, password)


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
