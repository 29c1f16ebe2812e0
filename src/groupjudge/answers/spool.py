"""Bodies on their way in and those that wait for their group (P6, P8): small ones in memory, the others in files
without a name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import NamedTuple, Protocol

from groupjudge.answers.echo import Piece
from groupjudge.answers.outline import Span
from groupjudge.answers.slots import Slot, Slots
from groupjudge.errors import SpoolFull

CHUNK = 1 << 18
"""Replies are read and sent in parts of at most so many bytes."""
SPARE_SLOTS = 16
SPARE_BYTES = 4 << 20
"""So many slots, each of at most so many bytes, are kept to be written over: that takes a fifth of the time of a new
one, whose pages the system must find, clear and take back."""


_ONE_READ = 1 << 30
"""The system reads no more than twice as much at a time."""


class Place(NamedTuple):
    """Where other processes of this user find a body while it is kept: in the file `path`, from byte `offset` on."""

    path: str
    offset: int


class Kept(Protocol):
    """A body that is kept until it is closed."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    @property
    def place(self) -> Place | None:
        """Where other processes find it; None where they cannot."""

    def chunks(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        """The bytes of the pieces of a reply to it, a part at a time."""

    def whole(self) -> bytes:
        """All of it."""

    def close(self) -> None:
        """Let go of it. May be called again."""


Received = bytes | Kept
"""A body that came: small ones are in memory, and nothing has to be closed."""


class Spool:
    """Keeps bodies. Those of more than `threshold_bytes` go to unlinked files in `directory` (None: the system's for
    temporary files), where they take no memory and are gone with the process, however it ends; `most_on_disk` of them
    (None: any number) may wait there for their group. Safe to use from several threads."""

    def __init__(self, threshold_bytes: int, directory: str | None = None, most_on_disk: int | None = None) -> None:
        self.threshold = threshold_bytes
        self._directory = directory
        self._most_waiting = most_on_disk
        self._waiting = 0
        self._lock = Lock()
        self._slots = Slots(directory)
        self._spare: list[Slot] = []
        self.bytes_in_memory = 0
        self.bytes_on_disk = 0
        self.on_disk = 0
        """How many bodies are on disk."""

    @property
    def directory(self) -> str:
        """Where the files are."""
        return self._directory or tempfile.gettempdir()

    @property
    def files(self) -> int:
        """How many files are open: a descriptor each."""
        return self._slots.files

    def keep(self, body: Received) -> Kept:
        """Keep a body while it waits for its group. Raises SpoolFull where the disk is full or too many wait there; the
        body is let go of then."""
        if isinstance(body, bytes):
            if len(body) <= self.threshold:
                self._count(memory=len(body))
                return _InMemory(self, body)
            body = self._written(body)
        try:
            if isinstance(body, _OnDisk):
                body.take_share()
        except SpoolFull:
            body.close()
            raise
        return body

    def _written(self, body: bytes) -> Kept:
        draft = Draft(self, in_memory=0)
        try:
            draft.write(body)
            return draft.kept()
        finally:
            draft.close()

    def begin(self, *, is_large: bool = False) -> Draft:
        """For a body that is still to come; one that `is_large` goes to disk from its first byte on."""
        return Draft(self, in_memory=0 if is_large else self.threshold)

    def _take_share(self) -> None:
        with self._lock:
            if self._most_waiting is not None and self._waiting >= self._most_waiting:
                raise SpoolFull(
                    f"the server cannot keep this body while its group is judged: {self._waiting} wait already, as "
                    "many as the limit of open files (ulimit -n) leaves room for"
                )
            self._waiting += 1

    def _give_share_back(self) -> None:
        with self._lock:
            self._waiting -= 1

    def _take_slot(self) -> Slot:
        with self._lock:
            self.on_disk += 1
            if self._spare:
                return self._spare.pop()
        try:
            return self._slots.take()
        except OSError as error:
            self._count(on_disk=-1)
            raise _full(error) from error

    def _write(self, slot: Slot, piece: bytes, at: int) -> None:
        try:
            slot.write(piece, at)
        except OSError:
            self._drop_spares()
            try:
                slot.write(piece, at)
            except OSError as error:
                raise _full(error) from error
        self._count(disk=len(piece))

    def _drop_spares(self) -> None:
        """The disk is full: make room."""
        with self._lock:
            spare, self._spare = self._spare, []
        for slot in spare:
            self._slots.free(slot)

    def _let_go(self, slot: Slot, size: int, *, again: bool = True) -> None:
        """`again`: whether it may be written over by the next one."""
        with self._lock:
            is_spare = again and slot.size <= SPARE_BYTES and len(self._spare) < SPARE_SLOTS
            if is_spare:
                self._spare.append(slot)
        if not is_spare:
            self._slots.free(slot)
        self._count(disk=-size, on_disk=-1)

    def _count(self, memory: int = 0, disk: int = 0, on_disk: int = 0) -> None:
        with self._lock:
            self.bytes_in_memory += memory
            self.bytes_on_disk += disk
            self.on_disk += on_disk


def _full(error: OSError) -> SpoolFull:
    return SpoolFull(f"the server cannot keep this body: {error.strerror}")


class Draft:
    """A body on its way in: its pieces stay in memory up to `in_memory` bytes, beyond that all of it is in a slot.
    `write` runs in one thread at a time. `close` must follow, and may be called while another thread writes: the slot
    is let go of when that is done."""

    __slots__ = ("_in_memory", "_is_closed", "_is_writing", "_parts", "_slot", "_spool", "_written", "size")

    def __init__(self, spool: Spool, in_memory: int) -> None:
        self._spool = spool
        self._in_memory = in_memory
        self._parts: list[bytes] = []
        self._slot: Slot | None = None
        self._written = 0
        self._is_writing = self._is_closed = False
        self.size = 0
        """How many bytes came so far."""

    def goes_to_disk(self, piece: bytes) -> bool:
        """Whether writing it means to wait for the disk."""
        return self.size + len(piece) > self._in_memory

    def write(self, piece: bytes) -> None:
        """Append to it. Raises SpoolFull, and ValueError where it was closed meanwhile."""
        if self.goes_to_disk(piece):
            self._set_writing()
            try:
                self._spill(b"".join((*self._parts, piece)) if self._parts else piece)
            finally:
                self._written_or_not()
        else:
            self._parts.append(piece)
        self.size += len(piece)

    def finish(self) -> Received:
        """The body, now that it is whole."""
        if self._slot is not None:
            return self.kept()
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def kept(self) -> Kept:
        """The body, now that it is whole, which went to disk."""
        slot, self._slot = self._slot, None
        assert slot is not None
        return _OnDisk(self._spool, slot, self._written)

    def close(self) -> None:
        """Let go of what came, unless it became a body. May be called again."""
        with self._spool._lock:
            self._is_closed = True
            if self._is_writing:
                return
        self._let_go()

    def _spill(self, piece: bytes) -> None:
        self._parts.clear()
        if self._slot is None:
            self._slot = self._spool._take_slot()
        try:
            self._spool._write(self._slot, piece, self._written)
        except BaseException:
            self._let_go(again=False)
            raise
        self._written += len(piece)

    def _set_writing(self) -> None:
        with self._spool._lock:
            if self._is_closed:
                raise ValueError("this body was given up")
            self._is_writing = True

    def _written_or_not(self) -> None:
        with self._spool._lock:
            self._is_writing = False
            is_closed = self._is_closed
        if is_closed:
            self._let_go()

    def _let_go(self, *, again: bool = True) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            self._spool._let_go(slot, self._written, again=again)


class _InMemory:
    __slots__ = ("_body", "_spool", "size")

    def __init__(self, spool: Spool, body: bytes) -> None:
        self._spool = spool
        self._body: bytes | None = body
        self.size = len(body)

    @property
    def place(self) -> Place | None:
        return None

    def chunks(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        return _parts(pieces, memoryview(self.whole()).__getitem__)

    def whole(self) -> bytes:
        if self._body is None:
            raise ValueError("this body was closed")
        return self._body

    def close(self) -> None:
        if self._body is not None:
            self._body = None
            self._spool._count(memory=-self.size)


class _OnDisk:
    __slots__ = ("_has_share", "_slot", "_spool", "size")

    def __init__(self, spool: Spool, slot: Slot, size: int) -> None:
        self._spool = spool
        self._slot: Slot | None = slot
        self._has_share = False
        self.size = size

    @property
    def place(self) -> Place | None:
        slot = self._open()
        path = f"/proc/{os.getpid()}/fd/{slot.fd}"
        return Place(path, slot.offset) if os.path.exists(path) else None

    def chunks(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        self._open()
        return _parts(pieces, self._read)

    def whole(self) -> bytes:
        if self.size <= _ONE_READ:
            return self._read(slice(0, self.size))
        return b"".join(self.chunks([Span(0, self.size)]))

    def take_share(self) -> None:
        """It will wait. Raises SpoolFull."""
        self._spool._take_share()
        self._has_share = True

    def _open(self) -> Slot:
        if self._slot is None:
            raise ValueError("this body was closed")
        return self._slot

    def _read(self, part: slice) -> bytes:
        return self._open().read(part)

    def close(self) -> None:
        if self._slot is not None:
            slot, self._slot = self._slot, None
            self._spool._let_go(slot, self.size)
            if self._has_share:
                self._spool._give_share_back()


def _parts(pieces: Iterable[Piece], read: Callable[[slice], bytes | memoryview]) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, bytes):
            yield piece
            continue
        for start in range(piece.start, piece.stop, CHUNK):
            yield bytes(read(slice(start, min(start + CHUNK, piece.stop))))


def size_of(body: Received) -> int:
    """How many bytes a body has."""
    return len(body) if isinstance(body, bytes) else body.size


def length_of(pieces: Iterable[Piece]) -> int:
    """How many bytes the pieces of a reply come to."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.stop - piece.start for piece in pieces)
