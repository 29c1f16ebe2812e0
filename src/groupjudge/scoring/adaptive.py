"""`adaptive`: rounds of pairs within a budget of calls, each made of what the verdicts so far leave most open (F1).

The first round is `circular`: everybody sits once in either seat. After each round the model of `least_squares` gives
qualities and how uncertain they are; a pair is worth asking for as much as its order is open (the chance that the model
has it the wrong way round) and as much as its members are uncertain, and less if it was asked before. The chance is
that of a normal variable: Phi(-|q_i - q_j| / s), with s^2 the sum of both members' variances. So calls go where answers
are close to each other, which is where a clear verdict is news, and not to pairs whose order everybody knows.

Pure and repeatable: the same verdicts and seed give the same pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from groupjudge.model import Pair, Slot, Verdict
from groupjudge.scoring.least_squares import fit
from groupjudge.scoring.limits import check_numbers
from groupjudge.scoring.pairs import PairRules, Seats, for_each_judge, planned_calls

ROUNDS = 4
"""Rounds after the first: each waits for its slowest call, so that there must not be many."""
NEIGHBOURS = 32
"""How many places apart, in the order by quality, two answers may be to be asked for: what a large group's planning
costs is bounded by it."""


class _Candidate(NamedTuple):
    gain: float
    draw: bytes
    seats: Seats


def next_pairs(size: int, rules: PairRules, verdicts: Sequence[Verdict]) -> list[Pair]:
    """The next round of a group of which all pairs asked so far have these verdicts; empty where it is done. Raises
    NotFinite where a number of a verdict is not finite or too large."""
    if rules.strategy != "adaptive" or size < 2:
        return []
    left = (planned_calls(size, rules) - len(verdicts)) // rules.calls_a_pair
    if left < 1:
        return []
    check_numbers(verdicts)
    first = size * rules.calls_a_pair
    whole = (planned_calls(size, rules) - first) // rules.calls_a_pair
    wanted = min(left, max(math.ceil(whole / ROUNDS), 1))
    return for_each_judge(_chosen(size, rules, verdicts, wanted), rules)


def _chosen(size: int, rules: PairRules, verdicts: Sequence[Verdict], wanted: int) -> list[Seats]:
    """The best candidates: first those that leave each answer its share of the round, then others, so that the round is
    full. Listed in the order of the seed."""
    share = math.ceil(2 * wanted / size)
    taken: Counter[Slot] = Counter()
    chosen: list[_Candidate] = []
    others: list[_Candidate] = []
    for candidate in sorted(_candidates(size, rules, verdicts), key=lambda c: (-c.gain, c.draw)):
        if all(taken[slot] < share for slot in candidate.seats):
            chosen.append(candidate)
            taken.update(candidate.seats)
        else:
            others.append(candidate)
    best = [*chosen, *others][:wanted]
    return [candidate.seats for candidate in sorted(best, key=lambda c: c.draw)]


def _candidates(size: int, rules: PairRules, verdicts: Sequence[Verdict]) -> Iterator[_Candidate]:
    asked = Counter((verdict.i, verdict.j) for verdict in verdicts)
    firsts = Counter(verdict.i for verdict in verdicts)
    seconds = Counter(verdict.j for verdict in verdicts)
    model = fit(size, verdicts)
    variances = [model.variance / value for value in model.form.diagonal()[:size]]
    order = sorted(range(size), key=lambda slot: (model.qualities[slot], slot))
    for place, low in enumerate(order):
        for high in order[place + 1 : place + 1 + NEIGHBOURS]:
            draw = _draw(rules.seed, len(verdicts), low, high)
            late = (firsts[low] - seconds[low]) - (firsts[high] - seconds[high])
            # Who sat more in the first seat sits in the second now.
            seats = (high, low) if late > 0 or (late == 0 and draw[0] & 1) else (low, high)
            open_seats = [each for each in (seats, seats[::-1]) if not asked[each]]
            if open_seats and not (rules.both_orders and len(open_seats) < 2):
                before = asked[low, high] + asked[high, low]
                gap = model.qualities[high] - model.qualities[low]
                gain = _open(gap, variances[low] + variances[high]) / (1 + before)
                yield _Candidate(gain, draw, open_seats[0])


def _open(gap: float, variance: float) -> float:
    """What a verdict on two answers can tell, whose qualities differ by `gap`, known with this variance."""
    if variance <= 0:
        return 0.0
    return variance * math.erfc(gap / math.sqrt(2 * variance)) / 2


def _draw(seed: int, round_: int, low: Slot, high: Slot) -> bytes:
    """A random-looking key of a pair, the same whichever of the two is better."""
    pair = f"{round_}:{min(low, high)}:{max(low, high)}"
    return blake2b(pair.encode(), digest_size=8, key=seed.to_bytes(8, "big")).digest()
