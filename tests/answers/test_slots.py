"""Room on disk for bodies."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from groupjudge.answers import slots as module
from groupjudge.answers.slots import SLOTS, Slot, Slots, slots_per_file

BODY = os.urandom(300_000)


def _open_files(directory: Path) -> int:
    """How many files of that directory this process has open."""
    descriptors = Path("/proc/self/fd").iterdir()
    return sum(1 for each in descriptors if os.path.realpath(each).startswith(f"{directory}/"))


def _on_disk(slot: Slot) -> int:
    """The bytes that the slot's file takes."""
    return os.fstat(slot.fd).st_blocks * 512


def _written(slots: Slots, body: bytes) -> Slot:
    slot = slots.take()
    slot.write(body)
    return slot


def test_slots_share_files(tmp_path: Path) -> None:
    """P8: a descriptor is for sixteen bodies, and each of them comes back as it was."""
    slots = Slots(str(tmp_path))
    bodies = [BODY[number * 1000 :] for number in range(2 * SLOTS + 1)]
    taken = [_written(slots, body) for body in bodies]
    assert slots.files == _open_files(tmp_path) == 3
    assert slots_per_file(str(tmp_path)) == SLOTS == 16
    for slot, body in zip(taken, bodies, strict=True):
        assert slot.read(slice(0, len(body))) == body
        slots.free(slot)


def test_a_slot_that_is_free_takes_no_disk(tmp_path: Path) -> None:
    """P8: while the others of its file stay as they are."""
    slots = Slots(str(tmp_path))
    one, other = _written(slots, BODY), _written(slots, BODY[::-1])
    both = _on_disk(other)
    assert both >= 2 * len(BODY)
    slots.free(one)
    assert len(BODY) <= _on_disk(other) <= both - len(BODY) + 8192
    assert other.read(slice(0, len(BODY))) == BODY[::-1]
    slots.free(other)


def test_a_slot_written_over_by_less_is_freed_whole(tmp_path: Path) -> None:
    """P8: what a larger body left behind goes too."""
    slots = Slots(str(tmp_path))
    one, other = _written(slots, BODY), _written(slots, b"x")
    one.write(b"y")
    assert one.read(slice(0, 1)) == b"y"
    slots.free(one)
    assert _on_disk(other) < len(BODY)
    slots.free(other)


def test_a_slot_is_written_piece_by_piece(tmp_path: Path) -> None:
    """P8: and freed whole."""
    slots = Slots(str(tmp_path))
    one, other = slots.take(), _written(slots, b"x")
    for start in range(0, len(BODY), 70_000):
        one.write(BODY[start : start + 70_000], start)
    assert one.size == len(BODY)
    assert one.read(slice(0, len(BODY))) == BODY
    assert one.read(slice(69_999, 70_001)) == BODY[69_999:70_001]
    slots.free(one)
    assert _on_disk(other) < len(BODY)
    slots.free(other)


def test_a_free_slot_is_taken_before_a_file_is_opened(tmp_path: Path) -> None:
    """P8: so there are never more files than the most bodies at a time needed."""
    slots = Slots(str(tmp_path))
    taken = [slots.take() for _ in range(2 * SLOTS)]
    slots.free(taken[3])
    slots.free(taken[SLOTS + 3])
    again = {(slot.fd, slot.offset) for slot in (slots.take(), slots.take())}
    assert again == {(taken[3].fd, taken[3].offset), (taken[SLOTS + 3].fd, taken[SLOTS + 3].offset)}
    assert slots.files == 2


def test_a_file_closes_with_its_last_slot(tmp_path: Path) -> None:
    """P8: no descriptor stays behind, and a file that is gone gives out no slots."""
    slots = Slots(str(tmp_path))
    taken = [_written(slots, b"x") for _ in range(SLOTS + 2)]
    for slot in taken[:SLOTS]:
        slots.free(slot)
    assert slots.files == _open_files(tmp_path) == 1
    fresh = slots.take()
    assert fresh.fd == taken[-1].fd
    for slot in (fresh, *taken[SLOTS:]):
        slots.free(slot)
    assert slots.files == _open_files(tmp_path) == 0
    slots.free(_written(slots, b"x"))


def test_where_files_may_not_be_long_each_body_has_its_own(tmp_path: Path) -> None:
    """P8: a limit on the size of files (ulimit -f) lets nothing be written far out in one."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        _each_has_its_own(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("fallocate", [None, lambda *_: -1], ids=["no such call", "refused"])
def test_where_no_part_of_a_file_can_be_freed_each_body_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fallocate: object
) -> None:
    """P8: else a body that is gone would take disk until the last of its file went."""
    monkeypatch.setattr(module, "_fallocate", fallocate)
    _each_has_its_own(tmp_path)


def _each_has_its_own(directory: Path) -> None:
    slots = Slots(str(directory))
    assert slots_per_file(str(directory)) == 1
    taken = [_written(slots, BODY[number:]) for number in range(3)]
    assert slots.files == 3
    for number, slot in enumerate(taken):
        assert slot.offset == 0
        assert slot.read(slice(0, 10)) == BODY[number : number + 10]
        assert _on_disk(slot) < 2 * len(BODY)
        slots.free(slot)
    assert slots.files == 0


def test_a_directory_that_is_missing_is_an_error_of_the_system(tmp_path: Path) -> None:
    """H5: the caller of `take` says what it means; who only asks how many share a file is told the least."""
    with pytest.raises(FileNotFoundError):
        Slots(str(tmp_path / "none")).take()
    assert slots_per_file(str(tmp_path / "none")) == 1


def come_and_go(slots: Slots, rng: random.Random, steps: int) -> Iterator[int]:
    """Write and let go of bodies in any order, each read before it goes; after each step, how many are held."""
    held: list[tuple[Slot, bytes]] = []

    def let_go(which: int) -> None:
        slot, body = held.pop(which)
        assert slot.read(slice(0, len(body))) == body
        slots.free(slot)

    for _ in range(steps):
        if held and rng.random() < 0.48:
            let_go(rng.randrange(len(held)))
        else:
            body = rng.randbytes(rng.choice((1, 100, 10_000)))
            held.append((_written(slots, body), body))
        yield len(held)
    while held:
        let_go(-1)


@pytest.mark.parametrize("seed", range(5))
def test_bodies_that_come_and_go_in_any_order_keep_apart(tmp_path: Path, seed: int) -> None:
    """H2, P8: each reads as it was written, and the files are as many as the most bodies at a time needed, or fewer."""
    slots = Slots(str(tmp_path))
    most = 0
    for held in come_and_go(slots, random.Random(seed), 600):
        most = max(most, held)
        assert held / SLOTS <= slots.files <= -(-most // SLOTS)
    assert slots.files == 0


def test_several_threads_take_and_free_slots_at_once(tmp_path: Path) -> None:
    """P8: no slot is given to two, none is lost."""
    slots = Slots(str(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: list(come_and_go(slots, random.Random(seed), 300)), range(8)))
    assert slots.files == 0
