"""The files of one checkpoint, written so that a crash at any moment leaves no manifest or a complete checkpoint (C12).

    <checkpoint_dir>/gym/resources/<instance>/records-<sha256>.jsonl
    <checkpoint_dir>/gym/resources/<instance>/manifest.json

The records are written under a temporary name, flushed, and renamed to the name that holds their digest; the manifest
is written under a temporary name as well, flushed, and linked to its own, which fails where one stands already. After
each of the two the directory is flushed.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from groupjudge.checkpoints.records import SessionRecord, from_line, to_line
from groupjudge.errors import GroupJudgeError, InvalidCheckpoint

SCHEMA_VERSION = 1
KIND = "resources"
MANIFEST = "manifest.json"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHECKPOINT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MAX_MANIFEST_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 20
_FLUSH_EVERY = 1 << 20


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


def directory_of(checkpoint_dir: Path, instance: str) -> Path:
    """Where an instance's files of a checkpoint lie."""
    return checkpoint_dir / "gym" / KIND / instance


def inside(checkpoint_dir: str, root: str | None) -> Path:
    """The directory with its links resolved. Raises InvalidCheckpoint where it is relative or leaves `root` (C13)."""
    path = Path(checkpoint_dir)
    if "\0" in checkpoint_dir or not path.is_absolute():
        raise InvalidCheckpoint("checkpoint_dir must be an absolute path")
    resolved = path.resolve()
    if root is not None and not resolved.is_relative_to(Path(root).resolve()):
        raise InvalidCheckpoint("checkpoint_dir does not lie inside checkpoint.root_dir")
    return resolved


def write(
    checkpoint_dir: Path,
    instance: str,
    checkpoint_id: str,
    records: Iterable[SessionRecord],
    is_stopped: Callable[[], bool] = lambda: False,
) -> Manifest:
    """Write a checkpoint and return its manifest; the same checkpoint again returns the one that stands.

    `is_stopped` is asked between the steps: once it says yes nothing is published any more. Raises CheckpointConflict,
    WriteFailed, WriteStopped, InvalidCheckpoint (what stands there is broken).
    """
    directory = directory_of(checkpoint_dir, instance)
    try:
        _make(directory)
        _refuse_another(directory, checkpoint_id, instance)
        with _temporary(directory) as (file, name):
            digest, count = _write_records(file, records, is_stopped)
            manifest = Manifest(SCHEMA_VERSION, KIND, instance, checkpoint_id, f"records-{digest}.jsonl", digest, count)
            _refuse_if(is_stopped)
            os.replace(name, directory / manifest.records_file)
            flush_directory(directory)
        return _publish(directory, manifest, is_stopped)
    except OSError as error:
        raise WriteFailed(f"cannot write the checkpoint: {error.strerror or error}") from error


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


def _make(directory: Path) -> None:
    """Make a directory and those above it, each of them flushed into its parent."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for path in missing:
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


def _write_records(file: BinaryIO, records: Iterable[SessionRecord], is_stopped: Callable[[], bool]) -> tuple[str, int]:
    digest, count, since = hashlib.sha256(), 0, 0
    for record in records:
        line = to_line(record)
        count += 1
        digest.update(line)
        file.write(line)
        since += len(line)
        if since >= _FLUSH_EVERY:
            _refuse_if(is_stopped)
            since = 0
    file.flush()
    os.fsync(file.fileno())
    return digest.hexdigest(), count


def _publish(directory: Path, manifest: Manifest, is_stopped: Callable[[], bool]) -> Manifest:
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
    with _temporary(directory) as (file, name):
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        _refuse_if(is_stopped)
        try:
            os.link(name, directory / MANIFEST)
        except FileExistsError:
            _agree(_read_manifest(directory / MANIFEST, manifest.instance), manifest)
    flush_directory(directory)
    return manifest


def _agree(standing: Manifest, manifest: Manifest) -> None:
    if standing != manifest:
        raise CheckpointConflict(f"checkpoint {standing.checkpoint_id!r} with other records stands in this directory")


def _refuse_if(is_stopped: Callable[[], bool]) -> None:
    if is_stopped():
        raise WriteStopped("the checkpoint was resumed while it was written")


# -- reading ---------------------------------------------------------------------------------------------------------


def _read_manifest(path: Path, instance: str) -> Manifest:
    try:
        with open(path, "rb") as file:
            text = file.read(_MAX_MANIFEST_BYTES)
        manifest = msgspec.json.decode(text, type=Manifest)
    except OSError as error:
        raise InvalidCheckpoint(f"{MANIFEST}: {error.strerror or error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
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
    records: list[SessionRecord] = []
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES), b""), 1):
                digest.update(line)
                where = f"{path.name}, line {number}"
                if not line.endswith(b"\n"):
                    raise InvalidCheckpoint(f"{where}: cut short, or longer than {_MAX_LINE_BYTES} bytes")
                records.append(from_line(line, where))
    except OSError as error:
        raise InvalidCheckpoint(f"{path.name}: {error.strerror or error}") from None
    if digest.hexdigest() != manifest.records_sha256:
        raise InvalidCheckpoint(f"{path.name}: its bytes are not those that the manifest names")
    return iter(records)
