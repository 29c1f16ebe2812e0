"""The files of one checkpoint, written so that a crash at any moment leaves no manifest or a complete checkpoint (C12).

    <checkpoint_dir>/gym/resources/<instance>/records-<sha256>.jsonl
    <checkpoint_dir>/gym/resources/<instance>/manifest.json

The records are written under a temporary name, flushed, and renamed to the name that holds their digest; the manifest
is written under a temporary name as well, flushed, and linked to its own, which fails where one stands already. After
each of the two the directory is flushed. From the link on the checkpoint stands.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import msgspec

from groupjudge.checkpoints.records import SessionRecord, from_line
from groupjudge.errors import GroupJudgeError, InvalidCheckpoint

SCHEMA_VERSION = 1
KIND = "resources"
MANIFEST = "manifest.json"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHECKPOINT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MAX_MANIFEST_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 20


class CheckpointConflict(GroupJudgeError):
    """Another checkpoint stands in this directory already."""

    code = "checkpoint_conflict"


class WriteFailed(GroupJudgeError):
    """The files could not be written; the same commit may be sent again."""

    code = "write_failed"


class WriteStopped(GroupJudgeError):
    """The write was given up because its checkpoint was resumed."""

    code = "stale_checkpoint"


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `manifest.json` says."""

    schema_version: int
    kind: str
    instance: str
    checkpoint_id: str
    records_file: str
    records_sha256: str
    record_count: int

    def as_dict(self) -> dict[str, Any]:
        """The manifest as the JSON object that it is."""
        return msgspec.structs.asdict(self)


class Publication:
    """The one moment at which a checkpoint begins to stand, and whoever wants it not to come (C12)."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stopped = False

    def stop(self) -> bool:
        """Let nothing be published any more; says whether that is certain already. Where it is not, the link is being
        made at this moment: ask again. Never waits."""
        self._stopped = True
        if not self._lock.acquire(blocking=False):
            return False
        self._lock.release()
        return True

    def refuse_if_stopped(self) -> None:
        """Raises WriteStopped."""
        if self._stopped:
            raise WriteStopped("the checkpoint was resumed while it was written")

    def publish(self, link: Callable[[], None]) -> None:
        """Call `link` unless it was stopped before (then WriteStopped)."""
        with self._lock:
            self.refuse_if_stopped()
            link()


def directory_of(checkpoint_dir: Path, instance: str) -> Path:
    """Where an instance's files of a checkpoint lie."""
    return checkpoint_dir / "gym" / KIND / instance


def inside(checkpoint_dir: str, root: str | None, instance: str) -> Path:
    """The directory with its links resolved. Raises InvalidCheckpoint where it is relative, or where it or the place of
    the instance's files in it leaves `root` (C13)."""
    path = Path(checkpoint_dir)
    if "\0" in checkpoint_dir or not path.is_absolute():
        raise InvalidCheckpoint("checkpoint_dir must be an absolute path")
    try:
        resolved = path.resolve()
        if root is not None:
            top = Path(root).resolve()
            for place in (resolved, directory_of(resolved, instance).resolve()):
                if not place.is_relative_to(top):
                    raise InvalidCheckpoint("checkpoint_dir does not lie inside checkpoint.root_dir")
    except (OSError, RuntimeError) as error:
        raise InvalidCheckpoint(f"checkpoint_dir cannot be resolved: {_why(error)}") from None
    return resolved


def write(
    checkpoint_dir: Path, instance: str, checkpoint_id: str, pieces: Iterable[bytes], publication: Publication
) -> Manifest:
    """Write a checkpoint of `pieces` (whole lines, one a record; large ones hold other threads up least) and return its
    manifest; the same checkpoint again returns the one that stands. Whoever gets an error may write again: where
    anything fails, nothing of this write stands.

    Once `publication` is stopped nothing is published any more. Raises CheckpointConflict, WriteFailed, WriteStopped,
    InvalidCheckpoint (what stands there is broken).
    """
    directory = directory_of(checkpoint_dir, instance)
    try:
        _make(directory, checkpoint_dir)
        _refuse_another(directory, checkpoint_id, instance)
        with _temporary(directory) as (file, name):
            digest, count = _write_records(file, pieces, publication)
            manifest = Manifest(SCHEMA_VERSION, KIND, instance, checkpoint_id, f"records-{digest}.jsonl", digest, count)
            publication.refuse_if_stopped()
            os.replace(name, directory / manifest.records_file)
        flush_directory(directory)
        return _publish(directory, manifest, publication)
    except OSError as error:
        raise WriteFailed(f"cannot write the checkpoint: {_why(error)}") from error


def read(checkpoint_dir: Path, instance: str) -> tuple[Manifest, list[SessionRecord]]:
    """Read a checkpoint back, every byte of it verified. Raises InvalidCheckpoint naming the file and its fault."""
    directory = directory_of(checkpoint_dir, instance)
    manifest = _read_manifest(directory / MANIFEST, instance)
    path = directory / manifest.records_file
    records = list(_read_records(path, manifest))
    if len(records) != manifest.record_count:
        raise InvalidCheckpoint(f"{path.name} holds {len(records)} records, the manifest says {manifest.record_count}")
    return manifest, records


def flush_directory(directory: Path) -> None:
    """Make what was renamed in a directory survive a crash."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- writing ---------------------------------------------------------------------------------------------------------


def _make(directory: Path, checkpoint_dir: Path) -> None:
    """Make a directory and those above it, each flushed into its parent. Those below `checkpoint_dir` may just have
    been made by somebody else, who has not flushed them yet."""
    missing = [path for path in (checkpoint_dir, *checkpoint_dir.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for path in (directory, *directory.parents):
        if path not in missing and not path.is_relative_to(checkpoint_dir / "gym"):
            break
        flush_directory(path.parent)


def _refuse_another(directory: Path, checkpoint_id: str, instance: str) -> None:
    """Do not begin where another checkpoint stands."""
    if (directory / MANIFEST).exists():
        standing = _read_manifest(directory / MANIFEST, instance)
        if standing.checkpoint_id != checkpoint_id:
            raise CheckpointConflict(f"checkpoint {standing.checkpoint_id!r} stands in this directory")


@contextmanager
def _temporary(directory: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A new file under a name of its own, which is gone at the end unless it was renamed."""
    name = directory / f".{secrets.token_hex(8)}.tmp"
    with open(name, "xb") as file:
        try:
            yield file, name
        finally:
            name.unlink(missing_ok=True)


def _write_records(file: BinaryIO, pieces: Iterable[bytes], publication: Publication) -> tuple[str, int]:
    digest, count = hashlib.sha256(), 0
    for piece in pieces:
        publication.refuse_if_stopped()
        digest.update(piece)
        file.write(piece)
        count += piece.count(b"\n")
    file.flush()
    os.fsync(file.fileno())
    return digest.hexdigest(), count


def _publish(directory: Path, manifest: Manifest, publication: Publication) -> Manifest:
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
    path = directory / MANIFEST
    with _taken_back_on_error(path) as ours, _temporary(directory) as (file, name):
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        ours.append(name.stat().st_ino)
        try:
            publication.publish(lambda: os.link(name, path))
        except FileExistsError:
            _agree(_read_manifest(path, manifest.instance), manifest)
        flush_directory(directory)
    return manifest


@contextmanager
def _taken_back_on_error(path: Path) -> Iterator[list[int]]:
    """A manifest of ours whose caller is told that its commit failed may not stand: what is exported may be more when
    the commit is sent again, and would clash with it. `ours`: the number of its inode."""
    ours: list[int] = []
    try:
        yield ours
    except OSError:
        with suppress(OSError):
            if path.stat().st_ino in ours:
                path.unlink()
        raise


def _agree(standing: Manifest, manifest: Manifest) -> None:
    if standing != manifest:
        raise CheckpointConflict(f"checkpoint {standing.checkpoint_id!r} with other records stands in this directory")


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)[:200]


# -- reading ---------------------------------------------------------------------------------------------------------


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A file of a checkpoint: no link that leads elsewhere, and nothing that never ends. Raises InvalidCheckpoint."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InvalidCheckpoint(f"{path.name}: is no regular file")
            with open(descriptor, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InvalidCheckpoint(f"{path.name}: {_why(error)}") from None


def _read_manifest(path: Path, instance: str) -> Manifest:
    with _opened(path) as file:
        text = file.read(_MAX_MANIFEST_BYTES)
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidCheckpoint(f"{MANIFEST}: {str(error)[:200]}") from None
    _check_manifest(manifest, instance)
    return manifest


def _check_manifest(manifest: Manifest, instance: str) -> None:
    wanted = f"records-{manifest.records_sha256}.jsonl"
    for is_wrong, why in (
        (manifest.schema_version != SCHEMA_VERSION, f"schema_version is not {SCHEMA_VERSION}"),
        (manifest.kind != KIND, f"kind is not {KIND!r}: it is another participant's"),
        (manifest.instance != instance, "instance is another participant's"),
        (_CHECKPOINT_ID.fullmatch(manifest.checkpoint_id) is None, "checkpoint_id is malformed"),
        (_DIGEST.fullmatch(manifest.records_sha256) is None, "records_sha256 is malformed"),
        (manifest.records_file != wanted, "records_file does not carry its digest"),
        (manifest.record_count < 0, "record_count is negative"),
    ):
        if is_wrong:
            raise InvalidCheckpoint(f"{MANIFEST}: {why}")


def _read_records(path: Path, manifest: Manifest) -> Iterator[SessionRecord]:
    digest = hashlib.sha256()
    with _opened(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES), b""), 1):
            digest.update(line)
            where = f"{path.name}, line {number}"
            if not line.endswith(b"\n"):
                raise InvalidCheckpoint(f"{where}: cut short, or longer than {_MAX_LINE_BYTES} bytes")
            yield from_line(line, where)
    if digest.hexdigest() != manifest.records_sha256:
        raise InvalidCheckpoint(f"{path.name}: its bytes are not those that the manifest names")
