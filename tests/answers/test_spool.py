"""Bodies that wait."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupjudge.answers.outline import Span
from groupjudge.answers.slots import SLOTS, Slot
from groupjudge.answers.spool import CHUNK, SPARE_BYTES, SPARE_SLOTS, Kept, Spool, length_of, size_of
from groupjudge.errors import SpoolFull

BODY = os.urandom(1_000_000)


def _open_files(directory: Path) -> int:
    """How many files of that directory this process has open."""
    descriptors = Path("/proc/self/fd").iterdir()
    return sum(1 for each in descriptors if os.path.realpath(each).startswith(f"{directory}/"))


@pytest.fixture(params=[0, 10_000_000], ids=["disk", "memory"])
def spool(request: pytest.FixtureRequest, tmp_path: Path) -> Spool:
    """One that keeps everything on disk, one that keeps everything in memory."""
    return Spool(request.param, str(tmp_path))


@pytest.fixture
def kept(spool: Spool) -> Iterator[Kept]:
    kept = spool.keep(BODY)
    yield kept
    kept.close()


def test_a_body_comes_back_in_the_pieces_of_a_reply(kept: Kept) -> None:
    """H2: new bytes and spans of the body, in their order, in parts that are not too large."""
    pieces: list[bytes | Span] = [b"<", Span(5, 900_000), b"", Span(7, 7), Span(0, 3), b">", Span(999_999, 1_000_000)]
    chunks = list(kept.chunks(pieces))
    assert b"".join(chunks) == b"<" + BODY[5:900_000] + BODY[:3] + b">" + BODY[-1:]
    assert max(map(len, chunks)) <= CHUNK == 256 * 1024
    assert length_of(pieces) == sum(map(len, chunks))
    assert kept.size == len(BODY)
    assert b"".join(kept.chunks([Span(0, len(BODY))])) == kept.whole() == BODY


def test_a_body_longer_than_the_system_reads_at_once_comes_back_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2: of two gigabytes and more."""
    monkeypatch.setattr("groupjudge.answers.spool._ONE_READ", 100_000)
    kept = Spool(0, str(tmp_path)).keep(BODY)
    assert kept.whole() == BODY
    kept.close()


def test_what_is_held_is_counted(spool: Spool) -> None:
    """P6: and let go of once."""
    one, other = spool.keep(BODY), spool.keep(BODY[:100])
    assert spool.bytes_in_memory + spool.bytes_on_disk == len(BODY) + 100
    assert spool.on_disk == (2 if spool.bytes_on_disk else 0)
    for kept in (one, one, other):
        kept.close()
    assert (spool.bytes_in_memory, spool.bytes_on_disk, spool.on_disk) == (0, 0, 0)


def test_a_closed_body_is_gone(kept: Kept) -> None:
    """L17: asking for it is an error, not an empty reply."""
    kept.close()
    with pytest.raises(ValueError, match="closed"):
        kept.chunks([Span(0, 1)])
    with pytest.raises(ValueError, match="closed"):
        kept.whole()


def test_the_threshold_parts_memory_from_disk(tmp_path: Path) -> None:
    """A body of just the threshold stays in memory."""
    spool = Spool(10, str(tmp_path))
    kept = spool.keep(b"x" * 10), spool.keep(b"x" * 11)
    assert (spool.bytes_in_memory, spool.bytes_on_disk, spool.on_disk) == (10, 11, 1)
    for each in kept:
        each.close()


def test_files_have_no_name(tmp_path: Path) -> None:
    """So that nothing is left behind, however the process ends."""
    kept = Spool(0, str(tmp_path)).keep(BODY)
    assert list(tmp_path.iterdir()) == []
    kept.close()


def test_a_file_can_be_opened_by_others_while_it_is_kept(tmp_path: Path) -> None:
    """H11: by the process that reads heavy bodies; one in memory cannot."""
    spool = Spool(0, str(tmp_path))
    kept = spool.keep(BODY)
    other = spool.keep(BODY[::-1])
    for each, body in ((kept, BODY), (other, BODY[::-1])):
        assert each.place is not None
        with open(each.place.path, "rb") as again:
            again.seek(each.place.offset)
            assert again.read(each.size) == body
        each.close()
    assert Spool(len(BODY)).keep(BODY).place is None


def test_no_more_descriptors_is_a_clear_error(tmp_path: Path) -> None:
    """H5: overloaded, not internal; what was kept before stays."""
    spool = Spool(0, str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    kept, *others = [spool.keep(BODY) for _ in range(SLOTS)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(SpoolFull, match="open files") as raised:
            spool.keep(BODY)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert raised.value.code == "overloaded"
    assert spool.on_disk == SLOTS
    assert b"".join(kept.chunks([Span(0, 9)])) == BODY[:9]
    for each in (kept, *others):
        each.close()


def test_a_full_disk_is_a_clear_error(tmp_path: Path) -> None:
    """H5: a file of limited size fills up like a disk; its descriptor is let go of."""
    spool = Spool(0, str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(SpoolFull, match="cannot keep this body") as raised:
            spool.keep(BODY)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == errno.EFBIG
    assert _open_files(tmp_path) == 0
    assert (spool.bytes_on_disk, spool.on_disk, spool.files) == (0, 0, 0)


def test_a_missing_directory_is_a_clear_error(tmp_path: Path) -> None:
    """H5."""
    with pytest.raises(SpoolFull, match="No such file"):
        Spool(0, str(tmp_path / "none")).keep(BODY)


def test_a_spool_takes_its_share_of_descriptors_and_no_more(tmp_path: Path) -> None:
    """P8: refused before connections find none left; what stays in memory needs none; what is let go of makes room."""
    spool = Spool(1000, str(tmp_path), most_on_disk=2)
    one, other = spool.keep(BODY), spool.keep(BODY)
    for _ in range(2):
        with pytest.raises(SpoolFull, match="ulimit -n"):
            spool.keep(BODY)
    assert (spool.on_disk, spool.bytes_on_disk) == (2, 2 * len(BODY))
    spool.keep(BODY[:1000]).close()
    one.close()
    spool.keep(BODY).close()
    other.close()
    assert spool.on_disk == 0


def test_a_body_that_could_not_be_written_takes_no_share(tmp_path: Path) -> None:
    """A full disk is over some day; the descriptors are there again then."""
    spool = Spool(0, str(tmp_path / "missing"), most_on_disk=1)
    for _ in range(2):
        with pytest.raises(SpoolFull, match="No such file"):
            spool.keep(BODY)
    assert spool.on_disk == 0


def test_a_file_that_is_written_over_shows_nothing_of_the_body_before(tmp_path: Path) -> None:
    """H2: the new body is what comes back, and whoever closed the old one cannot read on in the new one's file."""
    spool = Spool(0, str(tmp_path))
    old = spool.keep(BODY)
    halfway = old.chunks([Span(0, len(BODY))])
    next(halfway)
    old.close()
    assert (spool.on_disk, spool.files) == (0, 1)
    new = spool.keep(BODY[::-1][:400_000])
    assert (spool.on_disk, spool.files) == (1, 1)
    assert b"".join(new.chunks([Span(0, new.size)])) == BODY[::-1][:400_000]
    with pytest.raises(ValueError, match="closed"):
        next(halfway)
    old.close()
    assert b"".join(new.chunks([Span(0, 10)])) == BODY[::-1][:10]
    new.close()


def test_few_and_small_bodies_leave_their_room_to_be_written_over(tmp_path: Path) -> None:
    """The disk is not the spool's alone: what goes beyond that is given back at once."""
    spool = Spool(0, str(tmp_path))
    kept = [spool.keep(BODY[:10]) for _ in range(SPARE_SLOTS + SLOTS)]
    assert spool.files == _open_files(tmp_path) == 2
    for each in kept:
        each.close()
    assert spool.files == _open_files(tmp_path) == 1
    assert spool.on_disk == 0
    large = Spool(0, str(tmp_path))
    large.keep(bytes(SPARE_BYTES + 1)).close()
    assert large.files == 0


def test_room_that_once_held_a_large_body_is_given_back_whole(tmp_path: Path) -> None:
    """P8: also the part of it that smaller bodies, which came later, did not fill."""
    spool = Spool(0, str(tmp_path))
    large = spool.keep(BODY)
    neighbour, *small = [spool.keep(BODY[:10]) for _ in range(1 + SPARE_SLOTS)]
    large.close()
    again = spool.keep(BODY[:10])
    assert neighbour.place is not None
    file = os.open(neighbour.place.path, os.O_RDONLY)
    for each in small:
        each.close()
    assert os.fstat(file).st_blocks * 512 >= len(BODY)
    again.close()
    assert os.fstat(file).st_blocks * 512 < len(BODY)
    os.close(file)
    neighbour.close()


def test_files_that_wait_to_be_written_over_make_room_on_a_full_disk(tmp_path: Path) -> None:
    """The body that did not fit is refused; the next one gets a new file."""
    spool = Spool(0, str(tmp_path))
    for each in [spool.keep(BODY[:10]) for _ in range(3)]:
        each.close()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(SpoolFull):
            spool.keep(BODY)
        assert spool.files == 0
        kept = spool.keep(BODY[:50_000])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert b"".join(kept.chunks([Span(0, 50_000)])) == BODY[:50_000]
    kept.close()


# --- bodies on their way in -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 10, 1000])
@pytest.mark.parametrize("is_large", [False, True])
def test_a_body_that_comes_in_pieces_is_in_memory_up_to_the_threshold(
    tmp_path: Path, size: int, is_large: bool
) -> None:
    """P6, P8: beyond it all of it is on disk, and one that is known to be large is from its first byte on."""
    spool = Spool(100, str(tmp_path))
    draft = spool.begin(is_large=is_large)
    for start in range(0, 1000, size):
        piece = BODY[start : start + size]
        is_small = not is_large and start + size <= 100
        assert draft.goes_to_disk(piece) == (not is_small)
        draft.write(piece)
        assert draft.size == start + size
        assert spool.bytes_on_disk == (0 if is_small else draft.size)
    body = draft.finish()
    draft.close()
    assert not isinstance(body, bytes)
    assert body.whole() == BODY[:1000]
    assert size_of(body) == 1000
    assert (spool.bytes_on_disk, spool.on_disk) == (1000, 1)
    body.close()
    assert (spool.bytes_on_disk, spool.on_disk) == (0, 0)


def test_a_small_body_that_comes_in_pieces_never_touches_the_disk(tmp_path: Path) -> None:
    """P1."""
    spool = Spool(100, str(tmp_path / "missing"))
    for pieces in ((), (b"",), (b"ab",), (b"a", b"", b"b")):
        draft = spool.begin()
        for piece in pieces:
            draft.write(piece)
        assert draft.finish() == b"".join(pieces)
        draft.close()
    empty = spool.begin(is_large=True)
    assert size_of(empty.finish()) == 0


def test_a_body_that_is_given_up_takes_no_disk(tmp_path: Path) -> None:
    """L8: and nothing can be added to it any more."""
    spool = Spool(100, str(tmp_path))
    draft = spool.begin()
    draft.write(BODY)
    draft.close()
    draft.close()
    assert (spool.bytes_on_disk, spool.on_disk) == (0, 0)
    with pytest.raises(ValueError, match="given up"):
        draft.write(BODY)
    assert spool.on_disk == 0


def test_only_a_body_that_will_wait_takes_a_share(tmp_path: Path) -> None:
    """P8: those without an echo come though all shares are taken, or a group might wait for its last member."""
    spool = Spool(100, str(tmp_path), most_on_disk=1)
    bodies = []
    for _ in range(3):
        draft = spool.begin()
        draft.write(BODY)
        bodies.append(draft.finish())
        draft.close()
    first = spool.keep(bodies[0])
    for body in (bodies[1], BODY):
        with pytest.raises(SpoolFull, match="ulimit -n"):
            spool.keep(body)
    assert spool.on_disk == 2
    first.close()
    first.close()
    again = spool.keep(bodies[2])
    assert again.whole() == BODY
    again.close()
    assert spool.on_disk == 0
    spool.keep(BODY).close()


def test_pieces_that_are_written_over_an_older_body_show_nothing_of_it(tmp_path: Path) -> None:
    """H2: and where that was longer its room is given back whole."""
    spool = Spool(0, str(tmp_path))
    spool.keep(BODY).close()
    draft = spool.begin()
    for start in range(0, 90_000, 7_000):
        draft.write(BODY[::-1][start : start + 7_000])
    body = draft.finish()
    assert not isinstance(body, bytes)
    assert body.whole() == BODY[::-1][:91_000]
    body.close()


def test_a_disk_that_fills_up_midway_drops_spare_room_before_it_refuses(tmp_path: Path) -> None:
    """H5: what came before is not lost where that helps; else all of it goes, and so does its room."""
    spool = Spool(0, str(tmp_path))
    for each in [spool.keep(BODY[:10]) for _ in range(3)]:
        each.close()
    draft, full = spool.begin(), [True]
    draft.write(BODY[:50_000])
    original = Slot.write

    def write(self: Slot, body: bytes, at: int = 0) -> None:
        if full:
            full.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        original(self, body, at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Slot, "write", write)
        draft.write(BODY[50_000:])
        full += [True, True]
        other = spool.begin()
        with pytest.raises(SpoolFull, match="No space left"):
            other.write(BODY)
    assert spool.on_disk == 1
    other.close()
    body = draft.finish()
    assert not isinstance(body, bytes)
    assert body.whole() == BODY
    body.close()
    assert (spool.bytes_on_disk, spool.on_disk) == (0, 0)


def test_a_body_given_up_while_a_thread_writes_it_is_let_go_of_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2: its slot must be nobody else's before."""
    spool, draft = Spool(0, str(tmp_path)), None
    original = Slot.write

    def write(self: Slot, body: bytes, at: int = 0) -> None:
        draft.close()
        assert spool.on_disk == 1
        original(self, body, at)

    monkeypatch.setattr(Slot, "write", write)
    draft = spool.begin()
    draft.write(BODY)
    assert (spool.bytes_on_disk, spool.on_disk) == (0, 0)
    with pytest.raises(ValueError, match="given up"):
        draft.write(BODY)
