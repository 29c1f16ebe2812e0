"""The output of `groupjudge judge`: one JSON line a judged group, appended as it is judged, so that a crash loses at
most the line that was being written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec

from groupjudge.errors import ConfigurationError
from groupjudge.model import Judgement
from groupjudge.offline.groups import FileGroup

_BLOCK = 1 << 16
_BEGINNING = b'{"line":'


class Done:
    """Which lines of the input begin a group that was judged: a bit a line, so that a million lines take 125 KB."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self.count = 0

    def add(self, line: int) -> None:
        """The group of this line is judged."""
        byte, bit = divmod(line, 8)
        if byte >= len(self._bits):
            self._bits.extend(bytes(byte + 1 - len(self._bits)))
        self.count += line not in self
        self._bits[byte] |= 1 << bit

    def __contains__(self, line: int) -> bool:
        byte, bit = divmod(line, 8)
        return byte < len(self._bits) and bool(self._bits[byte] >> bit & 1)


class Output:
    """The output file. Opening it drops a line that a crash left half written, and reads which groups are done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done = Done()
        try:
            self._file: BinaryIO = open(path, "a+b")  # noqa: SIM115 (closed by `close`)
        except OSError as error:
            raise ConfigurationError(f"cannot write {path}: {error.strerror}") from None
        try:
            self._take_up()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def write(self, group: FileGroup, judgement: Judgement) -> None:
        """Append one group, and hand it to the system before anything else happens."""
        self._file.write(msgspec.json.encode(row_of(group, judgement)) + b"\n")
        self._file.flush()
        self.done.add(group.line)

    def close(self) -> None:
        """Make what was written last."""
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def _take_up(self) -> None:
        """Look before anything is dropped: a file of somebody else's stays as it is."""
        whole, end = self._whole_lines()
        for row in read_rows(self.path, whole):
            self.done.add(row["line"])
        if whole != end:
            self._file.seek(whole)
            _check_half_line(self._file.read(len(_BEGINNING)), self.path)
            self._file.truncate(whole)

    def _whole_lines(self) -> tuple[int, int]:
        """Where the last whole line ends, and where the file does."""
        end = self._file.seek(0, os.SEEK_END)
        whole = end
        while whole > 0:
            start = max(0, whole - _BLOCK)
            self._file.seek(start)
            found = self._file.read(whole - start).rfind(b"\n")
            if found >= 0:
                whole = start + found + 1
                break
            whole = start
        return whole, end


def _check_half_line(beginning: bytes, path: Path) -> None:
    if not _BEGINNING.startswith(beginning):
        raise ConfigurationError(f"{path} ends with a line that `groupjudge judge` did not write: choose another --out")


def row_of(group: FileGroup, judgement: Judgement) -> dict[str, Any]:
    """What is written of a group: rewards in slot order, every verdict, the metrics."""
    row: dict[str, Any] = {
        "line": group.line,
        "lines": list(group.lines),
        "id": group.id,
        "slots": list(group.slots),
        "rewards": list(judgement.rewards),
        "verdicts": [verdict._asdict() for verdict in judgement.verdicts],
        "metrics": judgement.metrics._asdict() if judgement.metrics else None,
    }
    if judgement.failure_kind is not None:
        row |= {"failure_kind": judgement.failure_kind, "failure_reason": judgement.failure_reason}
    return row


def read_rows(path: Path, size: int | None = None) -> Iterator[dict[str, Any]]:
    """The rows of an output file, or of its first `size` bytes. Raises ConfigurationError where a line was not written
    by this program."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if size is not None and (size := size - len(line)) < 0:
                return
            try:
                row = msgspec.json.decode(line, type=dict[str, Any])
                if type(row["line"]) is not int or row["line"] < 1:
                    raise KeyError("line")
            except (msgspec.DecodeError, KeyError):
                raise ConfigurationError(
                    f"{path}, line {number} is no row of `groupjudge judge`: choose another --out"
                ) from None
            yield row
