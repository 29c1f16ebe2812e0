"""Session cookies, and the key that signs them (H7, H12)."""

from __future__ import annotations

import stat
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from groupjudge.errors import ConfigurationError
from groupjudge.service.sessions import COOKIE, Cookies, new_session_id, signing_secret


def cookie(cookies: Cookies, session: str) -> str:
    """The value of the cookie that is given out for a session."""
    name, value = cookies.give(session)  # type: ignore[arg-type]
    assert name == b"set-cookie"
    return SimpleCookie(value.decode())[COOKIE].value


def test_a_cookie_comes_back_as_the_session_it_was_given_for() -> None:
    """H7: beside other cookies; with the same secret after a restart too."""
    session = new_session_id()
    value = cookie(Cookies("s" * 64), session)
    again = Cookies("s" * 64)
    assert again.named_by(f"{COOKIE}={value}".encode()) == session
    assert again.named_by(f'{COOKIE}="{value}"'.encode()) == session
    assert again.named_by(f"{COOKIE}={value} ; c=d".encode()) == session
    assert again.named_by(f"a=b; {COOKIE}={value}; c=d".encode()) == session


@pytest.mark.parametrize("change", ["", "x", "other session", "other secret", "other name", "nothing"])
def test_a_cookie_that_we_did_not_sign_names_no_session(change: str) -> None:
    """H7."""
    cookies, session = Cookies("s" * 64), new_session_id()
    value = cookie(cookies, session)
    sent = {
        "": f"{COOKIE}=",
        "x": f"{COOKIE}={value}x",
        "other session": f"{COOKIE}={value.replace(session, new_session_id())}",
        "other secret": f"{COOKIE}={cookie(Cookies('t' * 64), session)}",
        "other name": f"x{COOKIE}={value}",
        "nothing": "",
    }
    assert cookies.named_by(sent[change].encode()) is None
    assert cookies.named_by(b"") is None


def test_a_cookie_is_not_for_scripts_and_can_be_taken_back() -> None:
    """H7."""
    _, given = Cookies("s" * 64).give(new_session_id())
    assert SimpleCookie(given.decode())[COOKIE]["httponly"]
    _, taken = Cookies.take_back()
    assert SimpleCookie(taken.decode())[COOKIE]["max-age"] == "0"


def test_sessions_cannot_be_guessed() -> None:
    """H7: 24 random bytes each."""
    ids = {new_session_id() for _ in range(100)}
    assert len(ids) == 100
    assert {len(each) for each in ids} == {32}


def test_the_secret_is_the_configured_one_or_a_random_one(tmp_path: Path) -> None:
    """H12."""
    assert signing_secret("mine", str(tmp_path)) == "mine"
    assert list(tmp_path.iterdir()) == []
    assert signing_secret(None, None) != signing_secret(None, None)


def test_the_random_secret_is_kept_where_it_may_be(tmp_path: Path) -> None:
    """H12: so that cookies survive a restart; nobody else may read it, and no temporary file stays."""
    state = tmp_path / "deep" / "state"
    first = signing_secret(None, str(state))
    assert signing_secret(None, str(state)) == first
    assert len(first) >= 64
    (file,) = state.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_state_directory_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    """H13: no directory; a file that holds no secret, which is not replaced."""
    taken = tmp_path / "file"
    taken.write_text("x")
    with pytest.raises(ConfigurationError, match=r"session\.state_dir"):
        signing_secret(None, str(taken))
    signing_secret(None, str(tmp_path / "state"))
    (file,) = (tmp_path / "state").iterdir()
    for text in (b"", b"short", b"\xff" * 64):
        file.write_bytes(text)
        with pytest.raises(ConfigurationError, match=r"session\.state_dir"):
            signing_secret(None, str(tmp_path / "state"))
        assert file.read_bytes() == text
