"""The line language of the stories: README.md explains it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from groupjudge.core.book import Book, Limits
from groupjudge.core.effects import Effect, Settle, SettleAll, StartJudging, StopJudging
from groupjudge.core.views import GroupView
from groupjudge.errors import GroupJudgeError
from groupjudge.model import (
    Arrival,
    Fingerprint,
    GroupFailure,
    GroupId,
    GroupKey,
    JudgeFailure,
    Judgement,
    Outcome,
    Rewarded,
    Run,
    Ticket,
    UnnamedKey,
)

FOLDER = Path(__file__).parent
_LINE = re.compile(r"at (?P<time>[\d.]+)s +(?P<action>.*?)\s*(?:->(?P<expected>.*))?")
_KEY = r"(?P<key>(?:task |prompt )?\S+)/(?P<attempt>\d+)"
_SEAT = r'#(?P<slot>\S+) of (?P<size>\d+) "(?P<answer>[^"]*)"(?: asking "(?P<question>[^"]*)")?'
_ANSWERS = r'(?P<answers>(?:"[^"]*" )+)(?:asking "(?P<question>[^"]*)" )?'
_LIMITS = {
    "collect": "collection_timeout_s",
    "judge": "judging_timeout_s",
    "ttl": "ttl_s",
    "results": "max_results",
    "records": "max_attempt_records",
    "active": "max_active_groups",
    "enough": "min_members",
}
_USUAL = "collect=30s judge=60s ttl=1000s results=9 records=9 active=none enough=none"


def stories() -> list[Path]:
    return sorted(FOLDER.glob("*.txt"))


def play(text: str) -> Iterator[tuple[str, str, str]]:
    """Each line of a story: as it is written up to the arrow, what is expected, what came (both "" for comments)."""
    limits = next((line[len("limits ") :] for line in text.splitlines() if line.startswith("limits ")), "")
    stage = Stage(_limits(limits))
    for line in text.splitlines():
        if not line.strip() or line.startswith(("#", "limits ")):
            yield line, "", ""
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"not a line of a story: {line!r}")
        came = stage.act(float(match["time"]), match["action"])
        yield line.split("->")[0].rstrip(), (match["expected"] or "").strip(), "; ".join(came)


class Stage:
    """A book, and the names that the story gives to its tickets and runs."""

    def __init__(self, limits: Limits) -> None:
        self.book = Book(limits)
        self.now = 0.0
        self.callers: dict[Ticket, str] = {}
        self.runs: list[Run] = []

    def act(self, now: float, action: str) -> list[str]:
        self.now = now
        for pattern, method in _ACTIONS.items():
            match = re.fullmatch(pattern, action)
            if match is not None:
                return method(self, match)
        raise ValueError(f"nobody knows how to do this: {action!r}")

    def arrive(self, match: re.Match[str]) -> list[str]:
        return self._admit(match["name"], lambda: self.book.arrive(_arrival(match), self.now))

    def arrive_all(self, match: re.Match[str]) -> list[str]:
        arrivals = _whole(match)
        return self._admit(match["name"], lambda: self.book.arrive_all(arrivals, self.now))

    def watch(self, match: re.Match[str]) -> list[str]:
        key, attempt, slot = GroupId(match["key"]), int(match["attempt"]), int(match["slot"])
        return self._admit(match["name"], lambda: self.book.watch(key, attempt, slot, self.now).ticket)

    def _admit(self, name: str, input: Callable[[], Ticket]) -> list[str]:
        try:
            ticket = input()
        except GroupJudgeError as refusal:
            return [*self.told(), f"{name}: refused {refusal.code}"]
        self.callers[ticket] = name
        effects = self.book.drain()
        waits = not any(isinstance(effect, Settle | SettleAll) and effect.ticket == ticket for effect in effects)
        return [*([f"{name} waits"] if waits else []), *self.tell(effects)]

    def leave(self, match: re.Match[str]) -> list[str]:
        self.book.leave(next(ticket for ticket, name in self.callers.items() if name == match["name"]))
        return self.told()

    def judged(self, match: re.Match[str]) -> list[str]:
        rewards = tuple(float(reward) for reward in match["rewards"].split())
        self.book.judged(self.runs[int(match["n"]) - 1], Judgement(rewards, (), None), self.now)
        return self.told()

    def judging_failed(self, match: re.Match[str]) -> list[str]:
        why = JudgeFailure(match["why"]) if match["how"] == "fails" else GroupFailure("internal", match["why"])
        self.book.judging_failed(self.runs[int(match["n"]) - 1], why, self.now)
        return self.told()

    def simply(self, match: re.Match[str]) -> list[str]:
        if match[0] == "hold":
            self.book.hold()
        else:
            inputs = {"release": self.book.release, "shutdown": self.book.close, "time passes": self.book.advance}
            inputs[match[0]](self.now)
        return self.told()

    def show(self, _: re.Match[str]) -> list[str]:
        self.book.advance(self.now)
        told = self.told()
        groups, records = list(self.book.groups()), list(self.book.records())
        active = [_shown(g) for g in groups if g.finished is None]
        results = [_shown(g) for g in groups if g.finished is not None]
        idle = [f"{key}/{attempt}" for key, attempt, _, since in records if since is not None]
        lists = {"active": active, "results": results, "records": idle}
        return told + [f"{name} {', '.join(of) or 'none'}" for name, of in lists.items()]

    def told(self) -> list[str]:
        return list(self.tell(self.book.drain()))

    def tell(self, effects: list[Effect]) -> Iterator[str]:
        self.book.check()
        for effect in effects:
            if isinstance(effect, Settle):
                yield f"{self.callers[effect.ticket]}: {_said(effect.outcome)}"
            elif isinstance(effect, SettleAll):
                yield f"{self.callers[effect.ticket]}: {', '.join(map(_said, effect.outcomes))}"
            elif isinstance(effect, StartJudging):
                self.runs.append(effect.run)
                answers = " ".join(f'"{answer}"' for answer in effect.materials)
                yield f"judge {len(self.runs)} starts on {_name(effect.key)}/{effect.attempt}: {answers}"
            elif isinstance(effect, StopJudging):
                yield f"judge {self.runs.index(effect.run) + 1} is stopped"


_ACTIONS: dict[str, Callable[[Stage, re.Match[str]], list[str]]] = {
    rf"{_KEY} {_SEAT} arrives as (?P<name>\w+)": Stage.arrive,
    rf"{_KEY} whole {_ANSWERS}arrives as (?P<name>\w+)": Stage.arrive_all,
    rf"(?P<name>\w+) asks for {_KEY} #(?P<slot>\d+)": Stage.watch,
    r"(?P<name>\w+) leaves": Stage.leave,
    r"judge (?P<n>\d+) says (?P<rewards>.+)": Stage.judged,
    r'judge (?P<n>\d+) (?P<how>fails|breaks) "(?P<why>[^"]*)"': Stage.judging_failed,
    r"hold|release|shutdown|time passes": Stage.simply,
    r"show": Stage.show,
}


def _limits(text: str) -> Limits:
    pairs = (pair.split("=") for pair in f"{_USUAL} {text}".split())
    values = {_LIMITS[name]: None if value == "none" else _number(value) for name, value in pairs}
    return Limits(**values)  # type: ignore[arg-type]


def _number(value: str) -> float | int:
    return float(value[:-1]) if value.endswith("s") else int(value)


def _arrival(match: re.Match[str]) -> Arrival:
    slot, question = match["slot"], Fingerprint((match["question"] or "the usual question").encode())
    return Arrival(
        key=_key(match["key"], int(match["attempt"]), question),
        attempt=int(match["attempt"]),
        size=int(match["size"]),
        slot=int(slot) if slot.isdigit() else None,
        question=question,
        answer=Fingerprint(match["answer"].encode()),
        material=match["answer"],
        topic=question.decode(),
        member_id=None if slot.isdigit() else slot,
    )


def _whole(match: re.Match[str]) -> list[Arrival]:
    question = Fingerprint((match["question"] or "the usual question").encode())
    key, answers = GroupId(match["key"]), re.findall(r'"([^"]*)"', match["answers"])
    return [
        Arrival(key, int(match["attempt"]), len(answers), slot, question, Fingerprint(answer.encode()), answer, "")
        for slot, answer in enumerate(answers)
    ]


def _key(name: str, attempt: int, question: Fingerprint) -> GroupKey:
    kind, _, label = name.partition(" ")
    if kind == "nameless":
        return UnnamedKey("question", None, question, attempt)
    if label:
        return UnnamedKey(kind, int(label) if kind == "task" else label, question, attempt)
    return GroupId(name)


def _name(key: GroupKey) -> str:
    if not isinstance(key, UnnamedKey):
        return key
    return "nameless" if key.kind == "question" else f"{key.kind} {key.label}"


def _shown(view: GroupView) -> str:
    return f"{_name(view.key)}/{view.attempt} {view.phase} {len(view.present)} of {view.size}"


def _said(outcome: Outcome) -> str:
    if isinstance(outcome, Rewarded):
        return f"reward {outcome.reward:g}{_among(outcome)}"
    if isinstance(outcome, JudgeFailure):
        return f"judge failed, {outcome.reason}{_among(outcome)}"
    return f"group failed, {outcome.kind}: {outcome.reason}"


def _among(outcome: Rewarded | JudgeFailure) -> str:
    return "" if outcome.group_size_judged is None else f" among {outcome.group_size_judged}"
