"""What is looked up in a running server at each scrape of its metrics; none of it takes longer with more groups."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from groupjudge.answers.spool import Spool
from groupjudge.core.census import ACTIVE, Census
from groupjudge.judging.desk import Desk
from groupjudge.judging.usage import Meter
from groupjudge.service.at_once import AtOnce
from groupjudge.service.bodies import BodyReader
from groupjudge.service.host import Host
from groupjudge.service.judges import Judges
from groupjudge.service.metrics import Watched
from groupjudge.settings import RetentionSettings


@dataclass(frozen=True, slots=True)
class Insides:
    """The parts of a server that have numbers to show."""

    host: Host
    reader: BodyReader
    spool: Spool
    judges: Judges
    at_once: AtOnce
    retention: RetentionSettings

    def phases(self) -> dict[str, float]:
        """How many active groups there are in each phase."""
        return {phase.value: self.host.census.count(phase) for phase in ACTIVE}

    def spooled(self) -> dict[str, float]:
        """Bytes of the bodies that come or wait."""
        return {"memory": self.spool.bytes_in_memory, "disk": self.spool.bytes_on_disk}

    def disk_free(self) -> int:
        """Bytes that are free where bodies are spooled; -1 where that cannot be told."""
        try:
            return shutil.disk_usage(self.spool.directory).free
        except OSError:
            return -1


def watched(of: Insides) -> Iterator[Watched]:
    """Every gauge and every counter that is kept elsewhere."""
    yield from _groups(of.host.census, of)
    yield from _requests(of)
    yield from _judges(of.judges)
    yield from _retention(of)


def _groups(census: Census, of: Insides) -> Iterator[Watched]:
    yield Watched("groupjudge_active_groups", "Groups that have no outcome yet, by phase.", of.phases, "phase")
    yield Watched("groupjudge_groups_formed_total", "Attempts of groups that began.", lambda: census.formed)
    partial = "Attempts of groups whose members that came by the collection deadline were judged without the others."
    yield Watched("groupjudge_partial_groups_total", partial, lambda: census.partial)
    ended = "Attempts of groups that ended, by what became of them."
    yield Watched("groupjudge_groups_ended_total", ended, lambda: census.ended, "outcome")
    yield Watched("groupjudge_members_total", "Answers accepted as members of groups.", lambda: census.members)
    alone = "Answers that are a group of one, which needs no judge."
    yield Watched("groupjudge_lone_members_total", alone, lambda: census.alone)
    retries = "Exact retries, by what they got: a place to wait, the saved reward, or the judge failure."
    yield Watched("groupjudge_retries_total", retries, lambda: census.retries, "reply")
    yield _gauge("groupjudge_judging_groups", "Groups whose judging runs.", lambda: of.host.judging)
    at_once = "Groups being judged for one caller that holds all answers, without being remembered."
    yield _gauge("groupjudge_groups_judged_at_once", at_once, lambda: of.at_once.judging)


def _requests(of: Insides) -> Iterator[Watched]:
    yield _gauge("groupjudge_waiting_callers", "Callers that wait for an outcome.", lambda: of.host.callers)
    yield _gauge("groupjudge_held_answers", "Answers whose texts are held for judging.", lambda: of.host.texts_held)
    yield _gauge("groupjudge_incoming_bodies", "Bodies on their way in.", lambda: of.reader.reading)
    yield Watched("groupjudge_spool_bytes", "Bytes of bodies that come or wait for their reply.", of.spooled, "place")
    yield _gauge("groupjudge_spool_files", "Files that hold bodies.", lambda: of.spool.files)
    yield _gauge("groupjudge_spool_free_bytes", "Bytes free where bodies are spooled; -1: unknown.", of.disk_free)
    yield _gauge("groupjudge_judge_calls_in_flight", "Places at the judge that are taken.", lambda: of.judges.in_flight)
    yield _gauge("groupjudge_judge_calls_waiting", "Calls that wait for a place.", lambda: of.judges.waiting)
    yield _gauge("groupjudge_judge_places", "Calls that the judge may get at once.", lambda: of.judges.places)


def _judges(of: Judges) -> Iterator[Watched]:
    """By judge: each address has its own series (F10-F12)."""

    def each(name: str, help_: str, read: Callable[[Meter, Desk], float]) -> Watched:
        return Watched(name, help_, lambda: {meter.name: read(meter, desk) for meter, desk in of.addresses()}, "judge")

    yield each("groupjudge_judge_requests_total", "Requests sent to a judge.", lambda meter, _: meter.total.calls)
    tokens = "Tokens of requests and of replies that a judge counted."
    yield each("groupjudge_judge_prompt_tokens_total", tokens, lambda meter, _: meter.total.prompt_tokens)
    yield each("groupjudge_judge_completion_tokens_total", tokens, lambda meter, _: meter.total.completion_tokens)
    money = "What a judge's tokens cost by its price."
    yield each("groupjudge_judge_money_total", money, lambda meter, _: meter.usage(meter.total).money or 0.0)
    in_flight = "Requests that are under way at a judge."
    yield each("groupjudge_judge_requests_in_flight", in_flight, lambda _, desk: desk.in_flight)
    most = "How many there may be at once; it moves where min_concurrency is set."
    yield each("groupjudge_judge_requests_limit", most, lambda _, desk: desk.concurrency.limit)
    dropped = "How often a juror had no say: in a group where all judge, in a call where they take turns."
    yield Watched("groupjudge_juror_left_out_total", dropped, lambda: of.tally.left_out, "juror")
    met = "Verdicts of different jurors on the same pair, two by two."
    yield Watched("groupjudge_juror_verdict_pairs_total", met, lambda: of.tally.pairs)
    differing = "Of these, how many do not prefer the same answer."
    yield Watched("groupjudge_juror_disagreements_total", differing, lambda: of.tally.differing)
    left_out = "1 after a fault of a judge's own, for which a replica is left out, and once its budget is used up."
    yield each("groupjudge_judge_left_out", left_out, lambda _, desk: float(desk.is_left_out))


def _retention(of: Insides) -> Iterator[Watched]:
    kept, limits = of.host.kept, of.retention
    yield _gauge("groupjudge_retained_results", "Finished groups that are retained.", lambda: kept().results)
    most = "How many are retained at most, those of open sessions aside."
    yield _gauge("groupjudge_retained_results_limit", most, lambda: limits.max_results)
    yield _gauge("groupjudge_retained_attempt_records", "Attempt records of idle ids.", lambda: kept().records)
    yield _gauge("groupjudge_retained_attempt_records_limit", most, lambda: limits.max_attempt_records)
    spared = "Results retained beyond that, because an open session needs them."
    yield _gauge("groupjudge_spared_results", spared, lambda: kept().spared)


def _gauge(name: str, help_: str, read: Callable[[], float]) -> Watched:
    return Watched(name, help_, read)
