"""How long a call waits before it tries again (J12)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.judging.pauses import backoff_s, retry_after_s

NOW = datetime(2025, 3, 1, 12, 0, 0, tzinfo=UTC).timestamp()


def test_the_pause_doubles_up_to_ten_seconds() -> None:
    """J12."""
    assert [backoff_s(0.2, retry, 0.0) for retry in range(8)] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert backoff_s(0.0, 5, 0.5) == 0.0
    assert backoff_s(30.0, 0, 0.0) == 10.0


def test_jitter_takes_up_to_a_quarter_off() -> None:
    """J12."""
    assert backoff_s(1.0, 1, 0.5) == pytest.approx(1.75)


@given(st.floats(0, 1e300), st.integers(0, 10**9), st.floats(0, 1, exclude_max=True))
def test_a_pause_is_never_longer_than_ten_seconds_nor_shorter_than_three_quarters_of_it(
    sleep: float, retry: int, random: float
) -> None:
    """J12: whatever is configured."""
    longest = backoff_s(sleep, retry, 0.0)
    assert 0.75 * longest <= backoff_s(sleep, retry, random) <= longest <= 10.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("60", 60.0),
        ("61", 60.0),
        ("999999999999999999", 60.0),
        ("Sat, 01 Mar 2025 12:00:20 GMT", 20.0),
        ("Sat, 01 Mar 2025 12:00:20", 20.0),
        ("Sat, 01 Mar 2025 13:00:20 +0100", 20.0),
        ("Saturday, 01-Mar-25 12:00:20 GMT", 20.0),
        ("Sat, 01 Mar 2025 11:59:00 GMT", 0.0),
        ("Sun, 01 Mar 2026 12:00:00 GMT", 60.0),
        ("-5", None),
        ("+5", None),
        ("1e3", None),
        ("nan", None),
        ("inf", None),
        ("٣", None),
        ("", None),
        ("soon", None),
        ("9" * 400, None),
        ("Sat, 99 Mar 2025 12:00:20 GMT", None),
        ("Sat, 01 Mar 99999999 12:00:20 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_within_a_minute(header: str | None, seconds: float | None) -> None:
    """J12: nonsense counts as missing."""
    assert retry_after_s(header, NOW) == seconds


def test_a_date_without_a_zone_is_in_gmt_wherever_the_server_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """J12: HTTP dates are."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert retry_after_s("Sat, 01 Mar 2025 12:00:20", NOW) == 20.0
    time.tzset()


@given(st.text())
def test_no_header_breaks_the_reader(header: str) -> None:
    """J12."""
    seconds = retry_after_s(header, NOW)
    assert seconds is None or 0 <= seconds <= 60


@given(st.integers(-200, 200))
def test_a_date_counts_from_now(seconds: int) -> None:
    """J12."""
    moment = datetime.fromtimestamp(NOW + seconds, tz=UTC)
    assert retry_after_s(format_datetime(moment, usegmt=True), NOW) == min(max(seconds, 0), 60)
