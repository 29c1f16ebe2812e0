"""Room on disk for bodies: slots in files without a name, several to a file, since open files are few (P8)."""

from __future__ import annotations

import ctypes
import os
import tempfile
import weakref
from collections.abc import Callable
from threading import Lock
from typing import IO

SLOTS = 16
"""So many slots share a file, where the system can free a part of one."""
STRIDE = 1 << 36
"""Bytes from one slot to the next. What lies between is a hole and takes no room; no body is as long."""
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # of linux/falloc.h
_PROBE = b"\0"


class _File:
    """An open file and where its free slots begin."""

    __slots__ = ("free", "io", "slots")

    def __init__(self, io: IO[bytes], slots: int) -> None:
        self.io = io
        self.slots = slots
        self.free = [number * STRIDE for number in reversed(range(slots))]


class Slot:
    """Room for one body: in the file of the descriptor `fd`, from byte `offset` on. `size` is how many bytes of it were
    ever written."""

    __slots__ = ("fd", "file", "offset", "size")

    def __init__(self, file: _File, offset: int) -> None:
        self.file = file
        self.fd = file.io.fileno()
        self.offset = offset
        self.size = 0

    def write(self, body: bytes, at: int = 0) -> None:
        """Put `body` into the slot, from its byte `at` on. Raises OSError, and may have written a part of it then."""
        self.size = max(self.size, at + len(body))
        left, position = memoryview(body), self.offset + at
        while left:
            written = os.pwrite(self.fd, left, position)
            left, position = left[written:], position + written

    def read(self, part: slice) -> bytes:
        """A part of what was written."""
        return os.pread(self.fd, part.stop - part.start, self.offset + part.start)


class Slots:
    """Gives out slots in `directory` (None: the system's for temporary files). Where the system cannot free a part of a
    file, each slot has a file of its own. Safe to use from several threads; waits for the disk outside its lock."""

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory
        self._lock = Lock()
        self._open: set[_File] = set()
        self._with_room: dict[_File, None] = {}
        weakref.finalize(self, _close_all, self._open)

    @property
    def files(self) -> int:
        """How many files are open."""
        return len(self._open)

    def take(self) -> Slot:
        """A slot with nothing in it. Raises OSError where no file can be had."""
        if (slot := self._from_open_file()) is not None:
            return slot
        file = _open(self._directory)
        with self._lock:
            self._open.add(file)
            return self._taken(file)

    def free(self, slot: Slot) -> None:
        """Let go of a slot: its bytes are given back to the disk."""
        _punch(slot.fd, slot.offset, slot.size)
        file = slot.file
        with self._lock:
            file.free.append(slot.offset)
            is_empty = len(file.free) == file.slots
            if is_empty:
                self._open.discard(file)
                self._with_room.pop(file, None)
            else:
                self._with_room[file] = None
        if is_empty:
            file.io.close()

    def _from_open_file(self) -> Slot | None:
        with self._lock:
            file = next(iter(self._with_room), None)
            return None if file is None else self._taken(file)

    def _taken(self, file: _File) -> Slot:
        offset = file.free.pop()
        if file.free:
            self._with_room[file] = None
        else:
            self._with_room.pop(file, None)
        return Slot(file, offset)


def slots_per_file(directory: str | None = None) -> int:
    """How many slots will share a file in that directory; 1 where no file can be had there now."""
    try:
        file = _open(directory)
    except OSError:
        return 1
    file.io.close()
    return file.slots


def _open(directory: str | None) -> _File:
    io: IO[bytes] = tempfile.TemporaryFile(buffering=0, dir=directory)  # noqa: SIM115 -- `Slots` closes it
    return _File(io, SLOTS if _can_share(io.fileno()) else 1)


def _close_all(files: set[_File]) -> None:
    for file in files:
        file.io.close()


def _find_fallocate() -> Callable[[int, int, int, int], int] | None:
    try:
        found = ctypes.CDLL(None).fallocate64
    except (OSError, AttributeError):
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return found


_fallocate = _find_fallocate()


def _punch(fd: int, offset: int, size: int) -> bool:
    """Give `size` bytes back to the disk; False where this system or file system cannot."""
    return _fallocate is not None and _fallocate(fd, _KEEP_SIZE | _PUNCH_HOLE, offset, size) == 0


def _can_share(fd: int) -> bool:
    """Whether the last slot of this empty file can be written and freed."""
    try:
        os.pwrite(fd, _PROBE, (SLOTS - 1) * STRIDE)
    except OSError:
        os.ftruncate(fd, 0)
        return False
    return _punch(fd, (SLOTS - 1) * STRIDE, len(_PROBE))
