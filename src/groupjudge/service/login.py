"""A login for browsers: the token goes in once by a form, and a signed cookie stands for it from then on.

The cookie opens what is only read (GET and HEAD): a page of somebody else that makes a browser send something gets
nowhere with it. It holds no token; it is signed with a key made of the server's secret and the token, so that a changed
token ends all logins, and it ends by itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from typing import ClassVar
from urllib.parse import parse_qs

from itsdangerous import BadSignature, TimestampSigner
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request, cookie_parser
from starlette.responses import Response

from groupjudge.service import static

COOKIE = "groupjudge_login"
LASTS_S = 12 * 3600
MAX_FORM_BYTES = 8192
_ELSEWHERE = frozenset(("cross-site", "same-site"))


class Logins:
    """Cookies that stand for the token `auth_token`; `secret` is the server's own."""

    def __init__(self, auth_token: str, secret: str) -> None:
        self._token = auth_token.encode()
        key = hmac.digest(secret.encode(), self._token, "sha256")
        self._signer = TimestampSigner(
            key, salt="groupjudge.login", key_derivation="hmac", digest_method=hashlib.sha256
        )

    def is_token(self, said: str) -> bool:
        """Whether that is the token. Takes as long for a wrong one."""
        return hmac.compare_digest(said.encode("utf-8", "replace"), self._token)

    def new_value(self) -> str:
        """The value of a new login's cookie."""
        return self._signer.sign(secrets.token_urlsafe(12)).decode()

    def holds(self, headers: Headers) -> bool:
        """Whether the request's cookie is a login that has not ended."""
        said = headers.get("cookie", "")
        if COOKIE not in said:
            return False
        try:
            self._signer.unsign(cookie_parser(said).get(COOKIE, ""), max_age=LASTS_S)
        except (BadSignature, UnicodeError):
            return False
        return True


class LoginRoutes:
    """`/login` and `/logout`. `logins` None: the server wants no token, so there is nothing to log in to."""

    WRONG: ClassVar[str] = "That is not this server's token."
    ELSEWHERE: ClassVar[str] = "The form was sent by another site. Enter the token here."

    def __init__(self, logins: Logins | None, patience_s: float) -> None:
        """A form that is not here within `patience_s` seconds is given up."""
        self._logins = logins
        self._patience_s = patience_s

    async def login(self, request: Request) -> Response:
        """GET shows the form; POST takes the token from it."""
        if self._logins is None or (request.method != "POST" and self._logins.holds(request.headers)):
            return _see_page()
        if request.method != "POST":
            return static.login_page()
        if request.headers.get("sec-fetch-site") in _ELSEWHERE:
            return static.login_page(self.ELSEWHERE, 401)
        form = await self._form(request)
        if form is None:
            return static.login_page("The form was too large, or did not come.", 413)
        if not self._logins.is_token(form.strip()):
            return static.login_page(self.WRONG, 401)
        return _see_page(_cookie(self._logins.new_value(), LASTS_S, request.headers))

    async def logout(self, request: Request) -> Response:
        """Takes the cookie back."""
        if request.headers.get("sec-fetch-site") in _ELSEWHERE:
            return static.login_page(self.ELSEWHERE, 401)
        return Response(status_code=303, headers={"location": "login", "set-cookie": _cookie("", 0, request.headers)})

    async def _form(self, request: Request) -> str | None:
        """The token in the form; empty where the form has none, None where it does not come or is too large."""
        body = b""
        try:
            async with asyncio.timeout(self._patience_s):
                async for part in request.stream():
                    body += part
                    if len(body) > MAX_FORM_BYTES:
                        return None
        except (TimeoutError, ClientDisconnect):
            return None
        return parse_qs(body.decode("utf-8", "replace"), max_num_fields=None).get("token", [""])[0]


def _see_page(cookie: str | None = None) -> Response:
    headers = {"location": "./", "cache-control": "no-store"}
    return Response(status_code=303, headers=headers if cookie is None else {**headers, "set-cookie": cookie})


def _cookie(value: str, lasts_s: int, headers: Headers) -> str:
    """Secure where a proxy says that the browser came by HTTPS; this server itself speaks HTTP."""
    secure = "; Secure" if headers.get("x-forwarded-proto", "").lower() == "https" else ""
    return f"{COOKIE}={value}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}"
