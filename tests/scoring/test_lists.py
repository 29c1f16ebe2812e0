"""Lists of a group: every answer in one, one chain through all, orders that hang on the key alone (F9)."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.model import Listing
from groupjudge.scoring import ListRules, pairs_of, planned_list_calls, planned_lists


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[int], ListRules]:
    slots = draw(st.lists(st.integers(0, 1023), min_size=2, max_size=80, unique=True))
    size = draw(st.integers(2, 20))
    return slots, ListRules(size, draw(st.integers(1, size - 1)), draw(st.integers(1, 3)))


def in_one_piece(lists: list[Listing], slots: list[int]) -> bool:
    """Whether lists that share answers join all slots."""
    reached, left = set(lists[0].slots), list(lists[1:])
    while touching := [each for each in left if reached & set(each.slots)]:
        reached.update(*(each.slots for each in touching))
        left = [each for each in left if each not in touching]
    return reached == set(slots)


@given(groups())
def test_every_answer_is_in_a_list_and_the_lists_hang_together(group: tuple[list[int], ListRules]) -> None:
    """F9: no list is too long, none shows an answer twice, and each repetition is whole on its own."""
    slots, rules = group
    lists = planned_lists(slots, rules, b"key")
    assert len(lists) == planned_list_calls(len(slots), rules)
    assert [each.judge for each in lists] == list(range(len(lists)))
    assert all(2 <= len(set(each.slots)) == len(each.slots) <= rules.size for each in lists)
    parts = len(lists) // rules.repetitions
    for start in range(0, len(lists), parts):
        assert in_one_piece(lists[start : start + parts], slots)


@given(groups())
def test_each_list_shares_the_overlap_with_the_next(group: tuple[list[int], ListRules]) -> None:
    """F9: also the last one with the first; and lists differ by one answer in length at most."""
    slots, rules = group
    lists = planned_lists(slots, ListRules(rules.size, rules.overlap), b"key")
    if len(slots) <= rules.size:
        assert [sorted(each.slots) for each in lists] == [sorted(slots)]
        return
    for one, following in zip(lists, lists[1:] + lists[:1], strict=True):
        assert one.slots[-rules.overlap :] == following.slots[: rules.overlap]
    lengths = {len(each.slots) for each in lists}
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize(("size", "calls"), [(0, 0), (1, 0), (2, 1), (8, 1), (9, 2), (12, 2), (13, 3), (16, 3)])
def test_no_more_lists_than_it_takes(size: int, calls: int) -> None:
    """F9: lists of 8 that share 2."""
    assert len(planned_lists(range(size), ListRules(8, 2), b"")) == planned_list_calls(size, ListRules(8, 2)) == calls


def test_orders_hang_on_the_key_and_the_repetition() -> None:
    """F9, J22: the same key gives the same lists; another key or repetition another order and other cuts."""
    rules = ListRules(8, 2, 3)
    lists = planned_lists(range(16), rules, b"one")
    assert lists == planned_lists(range(16), rules, b"one")
    assert lists != planned_lists(range(16), rules, b"other")
    assert len({each.slots for each in lists}) == len(lists)
    assert len({frozenset(each.slots) for each in lists}) == len(lists)
    firsts = {planned_lists(range(8), rules, str(n).encode())[0].slots[0] for n in range(100)}
    assert firsts == set(range(8))


def test_a_list_stands_for_each_two_of_its_answers() -> None:
    """F9: whoever is shown earlier has the first seat."""
    pairs = list(pairs_of(Listing((5, 2, 9), 3)))
    assert pairs == [(5, 2, 3), (5, 9, 3), (2, 9, 3)]
    assert len(list(pairs_of(Listing(tuple(range(8)), 0)))) == len(list(combinations(range(8), 2)))
