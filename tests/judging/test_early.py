"""Groups that are judged as their members come (F7): the same verdicts as of groups that were waited for."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from groupjudge.errors import JudgeFailed
from groupjudge.judging.early import EarlyGroup, EarlyJuror, EarlyRules
from groupjudge.judging.gate import Gate, Line
from groupjudge.judging.judge import JudgeCall, NoEvents
from groupjudge.judging.jury import AllJury, TurnsJury
from groupjudge.judging.panel import Panel, PanelRules
from groupjudge.judging.turns import turns
from groupjudge.judging.usage import Meter
from groupjudge.model import AnswerTexts, Judgement, Pair, Reading, Topic

from ..support.http_judges import TOPIC, answers

SIX = answers(*"abcdef")
NAMES = ("x", "y", "z")
RULES = PanelRules("Be right.")


class Reader:
    """A judge in this process whose reply depends on the two texts and nothing else. It waits for `free`."""

    def __init__(self, name: str = "", places: int = 512, spoilt: str = "") -> None:
        self.name, self.spoilt = name, spoilt
        self.gate = Gate(places)
        self.meters = [Meter(name)]
        self.asked: Counter[tuple[str, str, int]] = Counter()
        self.ended = self.cancelled = 0
        self.free = asyncio.Event()
        self.free.set()

    def prepare(self, topic: Topic, texts: Sequence[AnswerTexts], line: Line | None = None) -> Any:
        return topic, texts, line or self.gate.line()

    async def compare(self, prepared: Any, pair: Pair) -> JudgeCall:
        topic, texts, line = prepared
        place = await self.gate.enter(line)
        try:
            first, second = texts[pair.i].answer, texts[pair.j].answer
            self.asked[first, second, pair.judge] += 1
            self.meters[0].sent()
            await self.free.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.gate.leave(place)
        self.ended += 1
        if self.spoilt and self.spoilt in first + second:
            raise JudgeFailed("it said no", "rejected")
        said = hashlib.sha256(f"{self.name}{topic}{first}{second}{pair.judge}".encode()).digest()
        return JudgeCall(Reading(1 + said[0] % 5, 1 + said[1] % 5, 1 + said[2] % 6))

    async def reachable(self) -> str | None:
        return None

    async def close(self) -> None: ...


def panel_of(kind: str, jurors: Sequence[Any], rules: PanelRules) -> Panel[Any] | AllJury | TurnsJury:
    if kind == "one":
        return Panel(jurors[0], rules)
    if kind == "all":
        return AllJury(NAMES, jurors, [rules] * len(jurors), NoEvents())
    return TurnsJury(NAMES, jurors, rules, NoEvents())


def some(kind: str) -> list[Reader]:
    """As many judges as such a panel has."""
    return [Reader(name) for name in (NAMES[:1] if kind == "one" else NAMES)]


def opened(readers: Sequence[Reader], kind: str = "one", rules: PanelRules = RULES, size: int = 6) -> EarlyGroup:
    jurors = [EarlyJuror(reader) for reader in readers]
    first = {"turns": lambda pair: turns(pair, len(jurors))[:1]}.get(kind, lambda _: range(len(jurors)))
    return EarlyGroup(EarlyRules(jurors, rules, first, panel_of(kind, jurors, rules).judge), TOPIC, size)


async def settle() -> None:
    """Let everything happen that does not wait for a test."""
    for _ in range(50):
        await asyncio.sleep(0)


def bare(judgement: Judgement) -> Judgement:
    """Without what it cost, which only a server counts."""
    return replace(judgement, usage=())


@pytest.mark.parametrize("kind", ["one", "all", "turns"])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"strategy": "all_pairs", "judges_per_pair": 2},
        {"strategy": "circulant", "calls_per_answer": 3, "both_orders": True, "use_principle": True},
        {"strategy": "adaptive", "budget_calls": 12, "seed": 5},
    ],
    ids=["circular", "all pairs twice", "circulant both orders", "adaptive"],
)
async def test_the_same_pairs_are_asked_and_the_same_rewards_come_out(kind: str, how: dict[str, Any]) -> None:
    """F7, L24, J2: in whatever order the members come, each planned pair is asked exactly once, and all is the same."""
    rules = PanelRules("Be right.", **how)
    waited = some(kind)
    expected = await panel_of(kind, waited, rules).judge(TOPIC, SIX)
    rng = random.Random(7)
    for _ in range(10):
        readers = some(kind)
        group = opened(readers, kind, rules)
        for slot in rng.sample(range(6), 6):
            group.add(slot, SIX[slot])
            await settle()
        judgement = await group.judge(SIX)
        assert bare(judgement) == expected
        assert [reader.asked for reader in readers] == [reader.asked for reader in waited]
        assert sum(use.calls for use in judgement.usage) == sum(reader.asked.total() for reader in readers)
        assert group.cancel() == 0


async def test_a_pair_is_asked_as_soon_as_both_members_are_there() -> None:
    """F7: and no pair before that."""
    reader = Reader()
    group = opened([reader])
    begun = []
    for slot in (3, 0, 4, 5, 2):
        group.add(slot, SIX[slot])
        await settle()
        begun.append(set(reader.asked) - {pair for pairs in begun for pair in pairs})
    ring = [{("d", "e", 0)}, {("e", "f", 0), ("f", "a", 0)}, {("c", "d", 0)}]
    assert begun == [set(), set(), *ring]


async def test_a_pair_that_failed_early_is_told_when_the_group_is_complete() -> None:
    """F7, L2, J13: until then nothing is said; then it is what it would have been, and no call is left."""
    reader = Reader(spoilt="b")
    group = opened([reader])
    for slot in range(5):
        group.add(slot, SIX[slot])
    await settle()
    assert reader.ended == 4
    group.add(5, SIX[5])
    with pytest.raises(JudgeFailed, match="it said no"):
        await group.judge(SIX)
    assert reader.gate.in_flight == reader.gate.waiting == 0
    assert max(reader.asked.values()) == 1


async def test_a_group_that_never_becomes_complete_cancels_its_calls_and_counts_them() -> None:
    """F7: what had been asked by then was in vain."""
    reader = Reader(places=2)
    group = opened([reader])
    for slot in range(2):
        group.add(slot, SIX[slot])
    await settle()
    reader.free.clear()
    for slot in range(2, 5):
        group.add(slot, SIX[slot])
    await settle()
    assert (reader.ended, reader.gate.in_flight, reader.gate.waiting) == (1, 2, 1)
    assert group.cancel() == 3
    await group.ended()
    assert reader.cancelled == 2
    assert reader.gate.in_flight == reader.gate.waiting == 0
    assert group.cancel() == 0


@pytest.mark.parametrize("kind", ["one", "all", "turns"])
async def test_of_those_that_came_nothing_is_asked_twice(kind: str) -> None:
    """F7, F8: what is planned for those that came is taken from what was begun, what they do not need is counted."""
    slots, came = (0, 2, 3, 4), [SIX[slot] for slot in (0, 2, 3, 4)]
    rules = PanelRules("Be right.", strategy="circulant", calls_per_answer=2)
    waited = some(kind)
    expected = await panel_of(kind, waited, rules).judge(TOPIC, came, slots)
    readers = some(kind)
    group = opened(readers, kind, rules)
    for slot in slots:
        group.add(slot, SIX[slot])
    await settle()
    early = Counter[Any]()
    for n, reader in enumerate(readers):
        early.update((n, *pair) for pair in reader.asked)
    assert bare(await group.judge(came, slots)) == expected
    asked = Counter((n, *pair) for n, reader in enumerate(readers) for pair in reader.asked.elements())
    needed = Counter((n, *pair) for n, reader in enumerate(waited) for pair in reader.asked.elements())
    assert set(asked.values()) == {1}
    assert set(asked) == set(needed) | set(early)
    assert group.cancel() == len(set(early) - set(needed))


@pytest.mark.parametrize("moments", [0, 1, 2, 20])
async def test_judging_that_is_stopped_leaves_no_call_behind(moments: int) -> None:
    """L11, L16: at whatever moment it comes."""
    reader = Reader(places=2)
    reader.free.clear()
    group = opened([reader])
    for slot in range(6):
        group.add(slot, SIX[slot])
    judging = asyncio.create_task(group.judge(SIX))
    for _ in range(moments):
        await asyncio.sleep(0)
    judging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await judging
    if moments:  # a task that was cancelled before it began does nothing at all
        assert reader.gate.in_flight == reader.gate.waiting == 0
    group.cancel()
    await group.ended()
    assert reader.gate.in_flight == reader.gate.waiting == 0


async def test_early_calls_wait_behind_those_of_complete_groups_until_their_own_is() -> None:
    """F7, F13: a group that became complete is served before those that are not; once complete, in its turn."""
    reader = Reader(places=1)
    reader.free.clear()
    held = await reader.gate.enter(reader.gate.line())
    second, first = opened([reader]), opened([reader])
    texts = answers(*"uvwxyz")
    for slot in range(6):
        if slot < 5:
            second.add(slot, texts[slot])
        first.add(slot, SIX[slot])
    await settle()
    whole = asyncio.create_task(Panel(reader, RULES).judge(TOPIC, answers("1", "2")))
    await settle()
    judging = asyncio.create_task(first.judge(SIX))
    await settle()
    reader.free.set()
    reader.gate.leave(held)
    await asyncio.gather(whole, judging)
    await settle()
    order = ["".join(pair[:2]) for pair in reader.asked]
    assert order[:2] == ["12", "21"]
    assert sorted(order[2:8]) == sorted(["ab", "bc", "cd", "de", "ef", "fa"])
    assert sorted(order[8:]) == sorted(["uv", "vw", "wx", "xy"])
    second.cancel()
    await second.ended()


async def test_a_group_of_too_many_pairs_is_judged_when_it_is_complete() -> None:
    """F7, H11: listing half a million pairs for the first member would hold up everybody."""
    reader = Reader()
    rules = PanelRules("p", strategy="all_pairs")
    group = opened([reader], rules=rules, size=1024)
    for slot in range(6):
        group.add(slot, SIX[slot])
    await settle()
    assert not reader.asked
    group.cancel()


def test_calls_that_failed_early_warn_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """F7: the failure of a call that nobody comes to hear of is no news."""

    async def fails() -> None:
        group = opened([Reader(spoilt="a")])
        group.add(0, SIX[0])
        group.add(1, SIX[1])
        await settle()
        group.cancel()
        await group.ended()

    asyncio.run(fails())
    assert not caplog.records
