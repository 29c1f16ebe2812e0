"""The output of `groupjudge judge`: one JSON line a judged group, appended as it is judged, so that a crash loses at
most the line that was being written."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec

from groupjudge.errors import ConfigurationError
from groupjudge.model import Judgement
from groupjudge.offline.groups import FileGroup
from groupjudge.offline.usage import Usage

_BLOCK = 1 << 16
_BEGINNING = b'{"line":'
# What file systems say that have no locks (some that are shared by many machines): there, people take care themselves.
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


class Done:
    """Which lines of the input begin a group that was judged, and a digest of what was judged: 8 bytes a line."""

    def __init__(self) -> None:
        self._digests = array("Q")

    def add(self, line: int, digest: str) -> None:
        """The group of this line is judged; `digest` is that of `digest_of`."""
        self._digests.extend([0] * (line + 1 - len(self._digests)))
        self._digests[line] = _short(digest)

    def __contains__(self, line: int) -> bool:
        return line < len(self._digests) and self._digests[line] != 0

    def is_the_same(self, line: int, digest: str) -> bool:
        """Whether what was judged at a done line is what stands there now."""
        return self._digests[line] == _short(digest)


def _short(digest: str) -> int:
    return int(digest[:16], 16) or 1


def digest_of(group: FileGroup, rules: str) -> str:
    """What a group's rewards hang on: question, principle, answers, and the `rules` they were judged by."""
    return hashlib.sha256(repr((rules, group.topic, group.texts, group.slots)).encode("utf-8", "replace")).hexdigest()[
        :32
    ]


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the system within the block name the file: a write that failed does not by itself."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


class Output:
    """The output file, which one run has to itself. Opening it drops a line that a crash left half written, and reads
    which groups are done."""

    def __init__(self, path: Path, rules: str = "") -> None:
        """`rules` names the configuration that rewards hang on. Raises ConfigurationError where `path` is of no use."""
        self.path = path
        self._rules = rules
        self.done = Done()
        try:
            self._file: BinaryIO = open(path, "a+b")  # noqa: SIM115 (closed by `close`)
        except OSError as error:
            raise ConfigurationError(f"cannot write {path}: {error.strerror}") from None
        try:
            self._lock()
            self._take_up()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def write(self, group: FileGroup, judgement: Judgement, usage: Usage) -> None:
        """Append one group, and hand it to the system before anything else happens."""
        row = row_of(group, judgement, usage, digest_of(group, self._rules))
        with naming(self.path):
            self._file.write(encoded(row) + b"\n")
            self._file.flush()
        self.done.add(group.line, row["input"])

    def holds(self, group: FileGroup) -> bool:
        """Whether the group was judged before. Raises ConfigurationError where another one was, or by other rules: its
        rewards would be mixed up with this one's."""
        if group.line not in self.done:
            return False
        if not self.done.is_the_same(group.line, digest_of(group, self._rules)):
            raise not_the_same(self.path, group.line)
        return True

    def sync(self) -> None:
        """Make what was written last."""
        with naming(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Make what was written last, and let another run have the file."""
        if self._file.closed:
            return
        try:
            self.sync()
        finally:
            with naming(self.path):
                self._file.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"another run writes to {self.path}: wait until it has ended, or choose another --out"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise ConfigurationError(f"cannot lock {self.path}: {error.strerror}") from None

    def _take_up(self) -> None:
        """Look before anything is dropped: a file of somebody else's stays as it is."""
        whole, end = self._whole_lines()
        for row in read_rows(self.path, whole):
            self.done.add(row["line"], row["input"])
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


def not_the_same(path: Path, line: int) -> ConfigurationError:
    """What is said where a row stands for something else than the input holds at its line."""
    return ConfigurationError(
        f"{path} has rewards for line {line} that were given to other texts, or by another "
        "configuration: choose another --out"
    )


def _check_half_line(beginning: bytes, path: Path) -> None:
    if not _BEGINNING.startswith(beginning):
        raise ConfigurationError(f"{path} ends with a line that `groupjudge judge` did not write: choose another --out")


def row_of(group: FileGroup, judgement: Judgement, usage: Usage, digest: str) -> dict[str, Any]:
    """What is written of a group: rewards in slot order, every verdict, the metrics, how sure the rewards are (F4),
    what it cost (`judge`); `input` is the digest of what was judged."""
    row: dict[str, Any] = {
        "line": group.line,
        "lines": list(group.lines),
        "input": digest,
        "id": group.id,
        "attempt": group.attempt,
        "slots": list(group.slots),
        "rewards": list(judgement.rewards),
        "verdicts": [verdict._asdict() for verdict in judgement.verdicts],
        "metrics": judgement.metrics._asdict() if judgement.metrics else None,
        "standard_errors": list(judgement.errors) or None,
        "measures": judgement.measures._asdict() if judgement.measures else None,
        "judge": usage.row(),
        "usage": [each._asdict() for each in judgement.usage],
    }
    if judgement.jurors:
        row["jurors"] = [juror._asdict() for juror in judgement.jurors]
        row["disagreement"] = judgement.disagreement
    if judgement.failure_kind is not None:
        row |= {"failure_kind": judgement.failure_kind, "failure_reason": judgement.failure_reason}
    return row


def encoded(value: object) -> bytes:
    """JSON that every reader takes: a lone surrogate, which UTF-8 cannot hold, becomes U+FFFD (as in J21), and a number
    that is not finite null."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_surrogates(value))


def _without_surrogates(value: object) -> object:
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(inner) for inner in value]
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def read_rows(path: Path, size: int | None = None) -> Iterator[dict[str, Any]]:
    """The rows of an output file, or of its first `size` bytes. Raises ConfigurationError where a line was not written
    by this program."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if size is not None and (size := size - len(line)) < 0:
                return
            try:
                row = msgspec.json.decode(line, type=dict[str, Any])
                if type(row["line"]) is not int or row["line"] < 1 or int(row["input"], 16) < 0:
                    raise ValueError
            except (msgspec.DecodeError, KeyError, TypeError, ValueError):
                raise ConfigurationError(
                    f"{path}, line {number} is no row of `groupjudge judge`: choose another --out"
                ) from None
            yield row
