"""Bodies that wait for their group (P6, P8): small ones in memory, the others in files without a name."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import IO, Protocol

from groupjudge.answers.echo import Piece
from groupjudge.errors import SpoolFull

CHUNK = 1 << 18
"""Replies are read and sent in parts of at most so many bytes."""
SPARE_FILES = 16
SPARE_BYTES = 4 << 20
"""So many files, each of at most so many bytes, are kept to be written over: that takes a fifth of the time of a new
one, whose pages the system must find, clear and take back."""


class Kept(Protocol):
    """A body that is kept until it is closed."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    @property
    def path(self) -> str | None:
        """A name by which other processes of this user can open it while it is kept; None where there is none. The
        first `size` bytes of that file are the body."""

    def chunks(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        """The bytes of the pieces of a reply to it, a part at a time."""

    def close(self) -> None:
        """Let go of it. May be called again."""


class Spool:
    """Keeps bodies. Those of more than `threshold_bytes` go to unlinked files in `directory` (None: the system's for
    temporary files), one descriptor each and `most_files` at a time (None: as many as may be open); they take no memory
    and are gone with the process, however it ends. Safe to use from several threads."""

    def __init__(self, threshold_bytes: int, directory: str | None = None, most_files: int | None = None) -> None:
        self._threshold = threshold_bytes
        self._directory = directory
        self._most_files = most_files
        self._lock = Lock()
        self._spare: list[IO[bytes]] = []
        weakref.finalize(self, _close_all, self._spare)
        self.bytes_in_memory = 0
        self.bytes_on_disk = 0
        self.descriptors = 0

    @property
    def directory(self) -> str:
        """Where the files are."""
        return self._directory or tempfile.gettempdir()

    @property
    def has_spare(self) -> bool:
        """Whether the next body will hardly make its writer wait."""
        return bool(self._spare)

    def keep(self, body: bytes) -> Kept:
        """Keep a body. Raises SpoolFull where the disk is full or no more files may be open."""
        if len(body) <= self._threshold:
            self._count(memory=len(body))
            return _InMemory(self, body)
        self._take_descriptor()
        try:
            file = self._written(body)
        except BaseException:
            self._count(descriptors=-1)
            raise
        self._count(disk=len(body))
        return _OnDisk(self, file, len(body))

    def _take_descriptor(self) -> None:
        with self._lock:
            if self._most_files is not None and self.descriptors >= self._most_files:
                raise SpoolFull(
                    f"the server cannot keep this body while its group is judged: {self.descriptors} wait already, as "
                    "many as the limit of open files (ulimit -n) leaves room for"
                )
            self.descriptors += 1

    def _written(self, body: bytes) -> IO[bytes]:
        with self._lock:
            spare = self._spare.pop() if self._spare else None
        if spare is not None:
            try:
                return _filled(spare, body)
            except OSError:
                self._drop_spares()
        try:
            return _filled(tempfile.TemporaryFile(buffering=0, dir=self._directory), body)
        except OSError as error:
            raise _full(error) from error

    def _drop_spares(self) -> None:
        """The disk is full: make room."""
        with self._lock:
            _close_all(self._spare)

    def _let_go(self, file: IO[bytes], size: int) -> None:
        with self._lock:
            is_spare = size <= SPARE_BYTES and len(self._spare) < SPARE_FILES
            if is_spare:
                self._spare.append(file)
        if not is_spare:
            file.close()
        self._count(disk=-size, descriptors=-1)

    def _count(self, memory: int = 0, disk: int = 0, descriptors: int = 0) -> None:
        with self._lock:
            self.bytes_in_memory += memory
            self.bytes_on_disk += disk
            self.descriptors += descriptors


def _close_all(files: list[IO[bytes]]) -> None:
    while files:
        files.pop().close()


def _filled(file: IO[bytes], body: bytes) -> IO[bytes]:
    """The file, with `body` at its start; closed where that fails."""
    try:
        left, position = memoryview(body), 0
        while left:
            written = os.pwrite(file.fileno(), left, position)
            left, position = left[written:], position + written
    except OSError:
        file.close()
        raise
    return file


def _full(error: OSError) -> SpoolFull:
    return SpoolFull(f"the server cannot keep this body while its group is judged: {error.strerror}")


class _InMemory:
    __slots__ = ("_body", "_spool", "size")

    def __init__(self, spool: Spool, body: bytes) -> None:
        self._spool = spool
        self._body: bytes | None = body
        self.size = len(body)

    @property
    def path(self) -> str | None:
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
    __slots__ = ("_file", "_spool", "size")

    def __init__(self, spool: Spool, file: IO[bytes], size: int) -> None:
        self._spool = spool
        self._file: IO[bytes] | None = file
        self.size = size

    @property
    def path(self) -> str | None:
        path = f"/proc/{os.getpid()}/fd/{self._open().fileno()}"
        return path if os.path.exists(path) else None

    def chunks(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        self._open()
        return _parts(pieces, self._read)

    def _open(self) -> IO[bytes]:
        if self._file is None:
            raise ValueError("this body was closed")
        return self._file

    def _read(self, part: slice) -> bytes:
        return os.pread(self._open().fileno(), part.stop - part.start, part.start)

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            self._spool._let_go(file, self.size)


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
