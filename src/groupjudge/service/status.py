"""What the server is doing now and did in the last hour, for `/v1/status` and the page that shows it.

It costs the same however many groups there are: numbers that are kept up anyway, and short lists of the oldest.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable
from typing import Any

from groupjudge import __version__
from groupjudge.core.phases import Phase
from groupjudge.core.views import GroupView
from groupjudge.model import GroupFailure, JudgeFailure, Rewarded, UnnamedKey
from groupjudge.service.gauges import Insides
from groupjudge.service.metrics import Metrics
from groupjudge.service.readiness import Readiness
from groupjudge.settings import Settings

SHOWN = 20
"""So many groups of a kind are shown."""
MISSING_SHOWN = 24
_REASON_SHOWN = 300


class Status:
    """Puts it together. `clock` is any monotonic one."""

    def __init__(
        self,
        settings: Settings,
        insides: Insides,
        metrics: Metrics,
        readiness: Readiness,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._insides = insides
        self._metrics = metrics
        self._readiness = readiness
        self._clock = clock
        self._began = clock()

    def now(self) -> dict[str, Any]:
        """All of it, as JSON has it: ages and durations in seconds, sizes in bytes."""
        return {
            "server": self._server(),
            "groups": self._groups(),
            "judge": self._judge(),
            "hour": self._hour(),
            "memory": self._memory(),
            "retention": self._retention(),
        }

    def _server(self) -> dict[str, Any]:
        reachable, reason = self._readiness.glance()
        return {
            "version": __version__,
            "uptime_s": round(self._clock() - self._began, 1),
            "stopping": self._insides.reader.closed,
            "show_texts": self._settings.server.show_texts,
            "login": self._settings.server.auth_token is not None,
            "judge_reachable": reachable,
            "judge_problem": None if reason is None else reason[:_REASON_SHOWN],
        }

    def _groups(self) -> dict[str, Any]:
        host = self._insides.host
        census, now = host.census, host.now()
        limits = {Phase.COLLECTING: self._settings.group.collection_timeout_s}
        limits[Phase.JUDGING] = self._settings.group.judging_timeout_s
        oldest = {
            phase.value: [_active_row(view, now, limit) for view in census.oldest(phase, SHOWN)]
            for phase, limit in limits.items()
        }
        return {
            "active": self._insides.phases(),
            "callers": host.callers,
            "at_once": self._insides.at_once.judging,
            "incoming_bodies": self._insides.reader.reading,
            "formed": census.formed,
            "ended": dict(census.ended),
            "members": census.members,
            "alone": census.alone,
            "retries": dict(census.retries),
            "oldest": oldest,
            "finished": [_finished_row(view, now) for view in host.groups(SHOWN)[1]],
        }

    def _judge(self) -> dict[str, Any]:
        judges, history = self._insides.judges, self._metrics.history
        places = {"in_flight": judges.in_flight, "waiting": judges.waiting, "places": judges.places}
        return {
            **places,
            **self._metrics.judge_totals(),
            "errors": history.errors(),
            "failures": history.failures(),
        }

    def _hour(self) -> dict[str, Any]:
        history = self._metrics.history
        history.looked(0.0, self._insides.host.census.ended)
        return {"minutes": history.hour(), "over_all": history.over_all()}

    def _memory(self) -> dict[str, Any]:
        spool = self._insides.spool
        resident = resident_bytes()
        return {
            "resident_bytes": resident,
            "peak_bytes": max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, resident or 0),
            "spool_memory_bytes": spool.bytes_in_memory,
            "spool_disk_bytes": spool.bytes_on_disk,
            "spool_files": spool.files,
            "spool_free_bytes": self._insides.disk_free(),
            "held_answers": self._insides.host.texts_held,
        }

    def _retention(self) -> dict[str, Any]:
        kept, limits = self._insides.host.kept(), self._settings.retention
        return {
            "results": kept.results,
            "max_results": limits.max_results,
            "attempt_records": kept.records,
            "max_attempt_records": limits.max_attempt_records,
            "spared": kept.spared,
            "ttl_s": limits.ttl_s,
        }


def _names(view: GroupView) -> dict[str, Any]:
    """Which group it is: an id, or what stands in for one."""
    key = view.key
    unnamed = isinstance(key, UnnamedKey)
    named: dict[str, Any] = {"id": None if unnamed else key}
    named["key"] = {"kind": key.kind, "label": key.label} if isinstance(key, UnnamedKey) else None
    return {"run": view.run, **named, "attempt": view.attempt, "phase": view.phase, "size": view.size}


def _active_row(view: GroupView, now: float, limit_s: float) -> dict[str, Any]:
    """`left_s` is what is left until the deadline of its phase."""
    missing = sorted(set(range(view.size)).difference(view.present))
    since = view.started if view.complete_since is None else view.complete_since
    return {
        **_names(view),
        "came": len(view.present),
        "missing": missing[:MISSING_SHOWN],
        "missing_count": len(missing),
        "callers": view.callers,
        "age_s": round(now - view.started, 1),
        "judging_s": None if view.complete_since is None else round(now - view.complete_since, 1),
        "left_s": round(max(0.0, since + limit_s - now), 1),
    }


def _finished_row(view: GroupView, now: float) -> dict[str, Any]:
    """What became of it. Of a judge failure not its reason, which may quote the judge (L26)."""
    assert view.finished is not None
    outcomes = [(view.outcomes or ())[slot] for slot in view.present]
    first = outcomes[0]
    row = {
        **_names(view),
        "came": len(view.present),
        "took_s": round(view.finished - view.started, 3),
        "finished_s_ago": round(now - view.finished, 1),
        "failure": None,
        "reason": None,
    }
    if isinstance(first, GroupFailure):
        row |= {"failure": first.kind, "reason": first.reason[:_REASON_SHOWN]}
    elif isinstance(first, JudgeFailure):
        row["failure"] = "judge_failed"
    return row | _rewards(outcome for outcome in outcomes if isinstance(outcome, Rewarded))


def _rewards(given: Iterable[Rewarded]) -> dict[str, Any]:
    outcomes = list(given)
    rewards = [outcome.reward for outcome in outcomes]
    return {
        "reward_mean": round(sum(rewards) / len(rewards), 4) if rewards else None,
        "reward_min": min(rewards, default=None),
        "reward_max": max(rewards, default=None),
        "default_scores": any(outcome.failure_kind for outcome in outcomes),
    }


def resident_bytes() -> int | None:
    """The memory that this process holds; None where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return None
