"""Who sits where: slots by index, and slots by member id (A3)."""

import pytest

from groupjudge.core.seats import Seats
from groupjudge.errors import AnswerConflict, GroupClosed, SizeMismatch
from groupjudge.model import Arrival

from .play import arrival, frozen


def seated(*arrivals: Arrival, size: int = 3) -> Seats:
    seats = Seats(size, None if arrivals[0].member_id is None else {})
    for one in arrivals:
        seats.take(seats.find(one, is_open=True), one)
    return seats


def member(name: str, *, answer: str = "the same answer", size: int = 3) -> Arrival:
    return arrival(member=name, answer=answer, size=size)


def test_an_index_is_its_slot_in_any_order_of_arrival() -> None:
    """L2: the answers are in slot order, not in the order in which they came."""
    seats = seated(arrival(2, size=3), arrival(0, size=3))
    assert seats.present() == (0, 2)
    assert seats.answers == [b"answer of 0", None, b"answer of 2"]


def test_member_ids_get_the_slots_in_the_order_they_come() -> None:
    """A3: first come, first served."""
    seats = seated(member("zoe"), member("abe"))
    assert seats.find(member("new"), is_open=True) == 2
    assert seats.by_member == {"zoe": 0, "abe": 1}


def test_the_same_member_id_is_the_same_slot() -> None:
    """A3: an exact retry finds its slot, while the group is open and after."""
    seats = seated(member("zoe"), member("abe"))
    assert [seats.find(member("abe"), is_open=is_open) for is_open in (True, False)] == [1, 1]


def test_equal_answers_of_two_members_are_two_members() -> None:
    """A3: an answer's text is never an identity."""
    seats = seated(member("zoe", answer="same"), member("abe", answer="same"))
    assert seats.taken == 2
    assert seats.answers == [b"same", b"same", None]


@pytest.mark.parametrize("is_open", [True, False])
def test_the_same_member_id_with_another_answer_is_a_conflict(is_open: bool) -> None:
    """A3, L5: it would replace an accepted answer."""
    with pytest.raises(AnswerConflict):
        seated(member("zoe")).find(member("zoe", answer="another"), is_open=is_open)


def test_one_member_id_too_many_finds_the_group_closed() -> None:
    """A3: an N+1st id has no slot."""
    seats = seated(member("a"), member("b"), member("c"))
    with pytest.raises(GroupClosed):
        seats.find(member("d"), is_open=False)


def test_a_group_of_indexes_takes_no_member_id() -> None:
    """A3: never both."""
    with pytest.raises(GroupClosed, match="by index"):
        seated(arrival(0, size=3)).find(member("zoe"), is_open=True)


def test_a_member_id_counts_where_an_index_came_with_it() -> None:
    """A3: it stands in place of the index, so a group of indexes takes it as little as any other."""
    both = member("zoe", answer="answer of 0")._replace(slot=0)
    with pytest.raises(GroupClosed, match="by index"):
        seated(arrival(0, size=3)).find(both, is_open=True)
    assert seated(member("abe")).find(both, is_open=True) == 1


def test_a_group_of_member_ids_takes_no_index() -> None:
    """A3: never both, not even the very same answer's index."""
    with pytest.raises(GroupClosed, match="by member id"):
        seated(member("zoe")).find(arrival(0, answer="the same answer", size=3), is_open=True)


@pytest.mark.parametrize("slot", [0, 1, 2])
def test_a_restored_group_gives_no_free_slot_whichever_it_holds(slot: int) -> None:
    """A3: an unknown member id never gets a slot of a closed group, least of all another's with an equal answer."""
    restored = Seats(3, {})
    restored.take(slot, member("zoe"))
    with pytest.raises(GroupClosed):
        restored.find(member("stranger"), is_open=False)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_taken_slot_admits_its_own_answer_only(is_open: bool) -> None:
    """L1, L5: the first accepted answer stays."""
    seats = seated(arrival(0, size=3))
    assert seats.find(arrival(0, size=3), is_open=is_open) == 0
    with pytest.raises(AnswerConflict):
        seats.find(arrival(0, size=3, answer="another"), is_open=is_open)


def test_an_empty_slot_of_a_closed_group_is_closed() -> None:
    """L6: who was not judged gets no part in it."""
    with pytest.raises(GroupClosed, match="not part of it"):
        seated(arrival(0, size=3)).find(arrival(1, size=3), is_open=False)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_another_size_is_told_first(size: int) -> None:
    """L7: before the slot is looked at, which may not even exist."""
    with pytest.raises(SizeMismatch, match=f"3 members, the request says {size}"):
        seated(arrival(2, size=3)).find(arrival(size - 1, size=size, answer="another"), is_open=False)


def test_a_refusal_changes_nothing() -> None:
    """L7: nor does finding a free slot; only `take` does."""
    seats = seated(member("zoe"))
    before = frozen(seats)
    with pytest.raises(AnswerConflict):
        seats.find(member("zoe", answer="another"), is_open=True)
    seats.find(member("new"), is_open=True)
    assert frozen(seats) == before
