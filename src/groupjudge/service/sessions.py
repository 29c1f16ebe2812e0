"""Sessions: a random id in a signed cookie (H7)."""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie

from itsdangerous import BadSignature, Signer
from starlette.datastructures import Headers

COOKIE = "groupjudge_session"


class Sessions:
    """Gives out session ids and reads them back from cookies; a cookie that somebody else signed is no session."""

    def __init__(self, secret: str | None) -> None:
        self._signer = Signer(secret or secrets.token_hex(32), salt="groupjudge.session")

    def named_by(self, headers: Headers) -> str | None:
        """The id in the request's cookie, if it is one of ours."""
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
            return None if morsel is None else self._signer.unsign(morsel.value).decode()
        except (BadSignature, CookieError, UnicodeDecodeError):
            return None

    def begin(self) -> tuple[bytes, bytes]:
        """The header that gives its receiver a new session."""
        value = self._signer.sign(secrets.token_urlsafe(18)).decode()
        return (b"set-cookie", f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Lax".encode())

    @staticmethod
    def end() -> tuple[bytes, bytes]:
        """The header that takes the cookie back."""
        return (b"set-cookie", f"{COOKIE}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0".encode())
