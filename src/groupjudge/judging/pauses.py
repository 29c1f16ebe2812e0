"""How long a call waits before it tries again (J12). Pure: the random number and the time come in as arguments."""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

LONGEST_PAUSE_S = 10.0
LONGEST_RETRY_AFTER_S = 60.0
JITTER = 0.25
_MOST_DOUBLINGS = 64
_DECIMAL = re.compile(r"[0-9]{1,18}(\.[0-9]{0,18})?")


def backoff_s(retry_sleep_s: float, retry: int, random: float) -> float:
    """The pause before the `retry`-th further try (0: the first): `retry_sleep_s` doubled `retry` times, at most 10 s,
    and up to a quarter less of it, so that calls that failed together come back apart. `random` is in [0, 1)."""
    doubled = retry_sleep_s * 2.0 ** min(retry, _MOST_DOUBLINGS)
    return min(doubled, LONGEST_PAUSE_S) * (1.0 - JITTER * random)


def retry_after_s(header: str | None, now: float) -> float | None:
    """What a `Retry-After` header asks for, in seconds from `now` (Unix time), within 0..60. None where there is none
    or it is neither seconds nor a date."""
    if header is None:
        return None
    header = header.strip()
    if _DECIMAL.fullmatch(header):
        return min(float(header), LONGEST_RETRY_AFTER_S)
    moment = _unix_time(header)
    return None if moment is None else min(max(moment - now, 0.0), LONGEST_RETRY_AFTER_S)


def _unix_time(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
        # An HTTP date is in GMT, also where it leaves that out.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
