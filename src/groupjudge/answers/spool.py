"""Bodies that wait for their group (P6, P8): small ones in memory, the others in files without a name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import IO, Protocol

from groupjudge.answers.echo import Piece
from groupjudge.errors import SpoolFull

CHUNK = 1 << 18
"""Replies are read and sent in parts of at most so many bytes."""


class Kept(Protocol):
    """A body that is kept until it is closed."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    @property
    def path(self) -> str | None:
        """A name by which other processes of this user can open it while it is kept; None where there is none."""

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
        self.bytes_in_memory = 0
        self.bytes_on_disk = 0
        self.descriptors = 0

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
        try:
            file = tempfile.TemporaryFile(buffering=0, dir=self._directory)  # noqa: SIM115 (closed by `Kept.close`)
        except OSError as error:
            raise _full(error) from error
        try:
            left = memoryview(body)
            while left:
                left = left[file.write(left) :]
        except OSError as error:
            file.close()
            raise _full(error) from error
        return file

    def _count(self, memory: int = 0, disk: int = 0, descriptors: int = 0) -> None:
        with self._lock:
            self.bytes_in_memory += memory
            self.bytes_on_disk += disk
            self.descriptors += descriptors


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
        self._file = file
        self.size = size

    @property
    def path(self) -> str | None:
        path = f"/proc/{os.getpid()}/fd/{self._file.fileno()}"
        return path if os.path.exists(path) else None

    def chunks(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        if self._file.closed:
            raise ValueError("this body was closed")
        return _parts(pieces, self._read)

    def _read(self, part: slice) -> bytes:
        return os.pread(self._file.fileno(), part.stop - part.start, part.start)

    def close(self) -> None:
        if not self._file.closed:
            self._file.close()
            self._spool._count(disk=-self.size, descriptors=-1)


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
