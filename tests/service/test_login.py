"""Logins: cookies that stand for the token (H12)."""

from __future__ import annotations

import pytest

from groupjudge.service import login
from groupjudge.service.login import COOKIE, LASTS_S, Logins

from .asgi import headers

SECRET = "s" * 64


def logins(token: str = "token", secret: str = SECRET) -> Logins:
    return Logins(token, secret)


def sent(value: str, name: str = COOKIE) -> dict[str, str]:
    return {"cookie": f"other=1; {name}={value}"}


def test_a_cookie_of_its_own_is_a_login() -> None:
    """H12: each is new, and none holds the token."""
    one, other = logins().new_value(), logins().new_value()
    assert one != other
    assert "token" not in one
    assert logins().holds(headers(sent(one)))


@pytest.mark.parametrize("other", [logins("another"), logins(secret="t" * 64)], ids=["token", "secret"])
def test_a_changed_token_or_secret_ends_old_logins(other: Logins) -> None:
    """H12."""
    assert not other.holds(headers(sent(logins().new_value())))


def test_a_login_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """H12: after twelve hours, whatever the browser keeps."""
    value = logins().new_value()
    made = login.TimestampSigner.get_timestamp(logins()._signer)
    monkeypatch.setattr(login.TimestampSigner, "get_timestamp", lambda self: made + LASTS_S)
    assert logins().holds(headers(sent(value)))
    monkeypatch.setattr(login.TimestampSigner, "get_timestamp", lambda self: made + LASTS_S + 2)
    assert not logins().holds(headers(sent(value)))


@pytest.mark.parametrize("value", ["", "x", "a.b.c", "token", '"', "é", "." * 5000])
def test_what_nobody_signed_is_no_login(value: str) -> None:
    """H12: and breaks nothing."""
    assert not logins().holds(headers(sent(value)))
    assert not logins().holds(headers({}))


def test_a_login_changed_in_one_place_is_none() -> None:
    """H12."""
    value = logins().new_value()
    changed = ("B" if value[0] == "A" else "A") + value[1:]
    assert not logins().holds(headers(sent(changed)))
    assert not logins().holds(headers(sent(value, name="x" + COOKIE)))


def test_only_the_token_is_the_token() -> None:
    """H12: strange texts included."""
    assert logins().is_token("token")
    assert not any(map(logins().is_token, ("", "Token", "token ", "toke", "tokén", "\ud800")))
