"""Bodies that wait for their group (P6, P8): small ones in memory, the others in files without a name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import NamedTuple, Protocol

from groupjudge.answers.echo import Piece
from groupjudge.answers.slots import Slot, Slots
from groupjudge.errors import SpoolFull

CHUNK = 1 << 18
"""Replies are read and sent in parts of at most so many bytes."""
SPARE_SLOTS = 16
SPARE_BYTES = 4 << 20
"""So many slots, each of at most so many bytes, are kept to be written over: that takes a fifth of the time of a new
one, whose pages the system must find, clear and take back."""


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

    def close(self) -> None:
        """Let go of it. May be called again."""


class Spool:
    """Keeps bodies. Those of more than `threshold_bytes` go to unlinked files in `directory` (None: the system's for
    temporary files), `most_on_disk` at a time (None: any number); they take no memory and are gone with the process,
    however it ends. Safe to use from several threads."""

    def __init__(self, threshold_bytes: int, directory: str | None = None, most_on_disk: int | None = None) -> None:
        self._threshold = threshold_bytes
        self._directory = directory
        self._most_on_disk = most_on_disk
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

    @property
    def has_spare(self) -> bool:
        """Whether the next body will hardly make its writer wait."""
        return bool(self._spare)

    def keep(self, body: bytes) -> Kept:
        """Keep a body. Raises SpoolFull where the disk is full or too many bodies are on it."""
        if len(body) <= self._threshold:
            self._count(memory=len(body))
            return _InMemory(self, body)
        self._take_share()
        try:
            slot = self._written(body)
        except BaseException:
            self._count(on_disk=-1)
            raise
        self._count(disk=len(body))
        return _OnDisk(self, slot, len(body))

    def _take_share(self) -> None:
        with self._lock:
            if self._most_on_disk is not None and self.on_disk >= self._most_on_disk:
                raise SpoolFull(
                    f"the server cannot keep this body while its group is judged: {self.on_disk} wait already, as "
                    "many as the limit of open files (ulimit -n) leaves room for"
                )
            self.on_disk += 1

    def _written(self, body: bytes) -> Slot:
        with self._lock:
            spare = self._spare.pop() if self._spare else None
        if spare is not None:
            try:
                return self._filled(spare, body)
            except OSError:
                self._drop_spares()
        try:
            return self._filled(self._slots.take(), body)
        except OSError as error:
            raise _full(error) from error

    def _filled(self, slot: Slot, body: bytes) -> Slot:
        """The slot, with `body` in it; let go of where that fails."""
        try:
            slot.write(body)
        except BaseException:
            self._slots.free(slot)
            raise
        return slot

    def _drop_spares(self) -> None:
        """The disk is full: make room."""
        with self._lock:
            spare, self._spare = self._spare, []
        for slot in spare:
            self._slots.free(slot)

    def _let_go(self, slot: Slot, size: int) -> None:
        with self._lock:
            is_spare = slot.size <= SPARE_BYTES and len(self._spare) < SPARE_SLOTS
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
    return SpoolFull(f"the server cannot keep this body while its group is judged: {error.strerror}")


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
        if self._body is None:
            raise ValueError("this body was closed")
        return _parts(pieces, memoryview(self._body).__getitem__)

    def close(self) -> None:
        if self._body is not None:
            self._body = None
            self._spool._count(memory=-self.size)


class _OnDisk:
    __slots__ = ("_slot", "_spool", "size")

    def __init__(self, spool: Spool, slot: Slot, size: int) -> None:
        self._spool = spool
        self._slot: Slot | None = slot
        self.size = size

    @property
    def place(self) -> Place | None:
        slot = self._open()
        path = f"/proc/{os.getpid()}/fd/{slot.fd}"
        return Place(path, slot.offset) if os.path.exists(path) else None

    def chunks(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        self._open()
        return _parts(pieces, self._read)

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


def _parts(pieces: Iterable[Piece], read: Callable[[slice], bytes | memoryview]) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, bytes):
            yield piece
            continue
        for start in range(piece.start, piece.stop, CHUNK):
            yield bytes(read(slice(start, min(start + CHUNK, piece.stop))))


def length_of(pieces: Iterable[Piece]) -> int:
    """How many bytes the pieces of a reply come to."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.stop - piece.start for piece in pieces)
