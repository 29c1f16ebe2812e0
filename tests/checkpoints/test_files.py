"""What is on disk whatever happens, and what is refused (C12, C13, C19)."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from groupjudge.checkpoints import files
from groupjudge.checkpoints.files import CheckpointConflict, Publication, WriteFailed, WriteStopped
from groupjudge.errors import InvalidCheckpoint

from .crash import LINES, Steps, found

PLACE = Path("gym") / "resources" / "inst"


def write(directory: Path, checkpoint_id: str = "ck", lines: list[str] = LINES, **how: Any) -> files.Manifest:
    pieces = [line.encode() for line in lines]
    return files.write(directory, "inst", checkpoint_id, pieces, how.get("publication") or Publication())


def rejected(directory: Path, instance: str = "inst") -> str:
    """Why it cannot be read."""
    with pytest.raises(InvalidCheckpoint) as error:
        files.read(directory, instance)
    return str(error.value)


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Puts steps into the module that writes, as long as the test lasts."""
    originals = {name: getattr(Path, name) for name in ("mkdir", "unlink")}

    def install(at: Any) -> Steps:
        restore()
        steps = Steps(at)
        steps.install()
        return steps

    def restore() -> None:
        files.os = os  # type: ignore[attr-defined]
        vars(files).pop("open", None)
        for name, original in originals.items():
            setattr(Path, name, original)

    yield SimpleNamespace(install=install, restore=restore)
    restore()


# -- writing ---------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_the_two_files_that_it_should_be(tmp_path: Path) -> None:
    """C12: named by their digest, counted; nothing else stays."""
    manifest = write(tmp_path)
    place = tmp_path / PLACE
    assert sorted(each.name for each in place.iterdir()) == ["manifest.json", manifest.records_file]
    assert (place / manifest.records_file).read_text() == "".join(LINES)
    assert manifest.records_file == f"records-{manifest.records_sha256}.jsonl"
    assert json.loads((place / "manifest.json").read_bytes()) == manifest.as_dict()
    assert manifest.as_dict() == {
        "schema_version": 1,
        "kind": "resources",
        "instance": "inst",
        "checkpoint_id": "ck",
        "records_file": manifest.records_file,
        "records_sha256": manifest.records_sha256,
        "record_count": len(LINES),
    }
    back, records = files.read(tmp_path, "inst")
    assert back == manifest
    assert [record.session_id for record in records] == [f"s{n}" for n in range(len(LINES))]


def test_a_checkpoint_of_no_session_is_one_too(tmp_path: Path) -> None:
    """C12."""
    assert write(tmp_path, lines=[]).record_count == 0
    assert files.read(tmp_path, "inst")[1] == []


def test_records_of_many_pieces_are_written_whole(tmp_path: Path) -> None:
    """C12: the digest is that of the file."""
    lines = [line.replace('{"rollout_id":"r', '{"rollout_id":"r' + "x" * 30_000) for line in LINES]
    assert write(tmp_path, lines=lines).record_count == len(LINES)
    assert len(files.read(tmp_path, "inst")[1]) == len(LINES)


def test_the_same_commit_again_finds_its_manifest(tmp_path: Path) -> None:
    """C12: and leaves it as it is."""
    first = write(tmp_path)
    before = (tmp_path / PLACE / "manifest.json").stat()
    assert write(tmp_path) == first
    after = (tmp_path / PLACE / "manifest.json").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize(("checkpoint_id", "lines"), [("other", LINES), ("ck", LINES[1:])])
def test_a_different_commit_in_the_same_directory_fails(tmp_path: Path, checkpoint_id: str, lines: list[str]) -> None:
    """C12: the one that stands stays."""
    first = write(tmp_path)
    with pytest.raises(CheckpointConflict, match="'ck'"):
        write(tmp_path, checkpoint_id, lines)
    assert files.read(tmp_path, "inst")[0] == first


def test_other_participants_have_their_own_place(tmp_path: Path) -> None:
    """C12: in the same checkpoint."""
    first = write(tmp_path)
    files.write(tmp_path, "other", "ck", ["".join(LINES[:3]).encode()], Publication())
    assert files.read(tmp_path, "inst")[0] == first
    assert files.read(tmp_path, "other")[0].record_count == 3


def test_nothing_is_published_before_it_would_survive_a_power_cut(tmp_path: Path, patched: Any) -> None:
    """C12: records are flushed before they get their name, their name before the manifest, and the manifest's at the
    end; new directories in their parents."""
    log: list[str] = []
    patched.install(lambda _: None)
    real = files.os

    def note(name: str) -> Any:
        def call(*args: Any, **how: Any) -> Any:
            path = Path(os.readlink(f"/proc/self/fd/{args[0]}") if name == "fsync" else args[-1])
            shown = path.suffix if path.suffix in (".tmp", ".jsonl", ".json") else str(path.relative_to(tmp_path))
            log.append(f"{name} {shown}")
            return getattr(os, name)(*args, **how)

        return call

    files.os = SimpleNamespace(**{**vars(real), **{n: note(n) for n in ("fsync", "replace", "link")}})  # type: ignore[attr-defined]
    write(tmp_path / "new" / "ck")
    place = f"new/ck/{PLACE}"
    assert log == [
        "fsync new/ck/gym/resources",
        "fsync new/ck/gym",
        "fsync new/ck",
        "fsync new",
        "fsync .",
        "fsync .tmp",
        "replace .jsonl",
        f"fsync {place}",
        "fsync .tmp",
        "link .json",
        f"fsync {place}",
    ]


def failure_of(directory: Path) -> str | None:
    """Why it cannot be written; None where it can."""
    try:
        write(directory)
    except WriteFailed as error:
        return str(error)
    return None


@pytest.mark.parametrize("when", [0, 1], ids=["instead", "after"])
def test_an_error_at_any_step_leaves_no_manifest_or_a_complete_checkpoint(
    tmp_path: Path, patched: Any, when: int
) -> None:
    """C12, C8: instead of the step or after it; the error says so, nothing of it stands, and the same commit can be
    sent again, also where what it exports is more by then."""
    more = [*LINES, LINES[-1].replace('"session_id":"', '"session_id":"later')]
    count = 0
    for number in range(1000):
        directory = tmp_path / str(number)

        def fail(step: int, number: int = 2 * number + when) -> None:
            if step == number:
                raise OSError(errno.ENOSPC, "No space left on device")

        patched.install(fail)
        why = failure_of(directory)
        patched.restore()
        if why is None:
            break
        assert "No space left on device" in why
        assert found(directory) == "none"
        assert write(directory, lines=more).record_count == len(more)
        assert len(files.read(directory, "inst")[1]) == len(more)
        count += 1
    assert count > 20


def test_an_error_takes_no_checkpoint_away_that_stood_before(tmp_path: Path, patched: Any) -> None:
    """C12: whichever step of the same commit, sent again, goes wrong."""
    write(tmp_path)
    for number in range(1000):

        def fail(step: int, number: int = number) -> None:
            if step == number:
                raise OSError(errno.EIO, "Input/output error")

        patched.install(fail)
        try:
            why = failure_of(tmp_path)
        except InvalidCheckpoint as error:  # what stands could not be read
            why = str(error)
        patched.restore()
        assert found(tmp_path) == "complete"
        if why is None:
            break
    assert number > 20


def test_a_process_that_is_killed_at_any_step_leaves_no_manifest_or_a_complete_checkpoint(tmp_path: Path) -> None:
    """C12: by SIGKILL, before each step and after it; the same commit again comes through."""
    script = Path(__file__).with_name("crash.py")
    source = str(Path(files.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    first = [row[1] for row in rows]
    assert len(first) > 40
    assert first == sorted(first, reverse=True)
    assert set(first) == {"none", "complete"}
    assert {(row[2], row[3]) for row in rows} == {(str(len(LINES)), "complete")}


def test_a_write_that_is_stopped_at_any_step_publishes_nothing_more(tmp_path: Path, patched: Any) -> None:
    """C12: whoever stopped it knows: once `stop` says yes, what stands then is what stands for ever."""
    published = []
    for number in range(1000):
        directory, publication, before = tmp_path / str(number), Publication(), []

        def stop(step: int, number: int = number, directory: Path = directory, **on: Any) -> None:
            if step == number:
                stood = (directory / PLACE / files.MANIFEST).exists()
                before.append((publication.stop(), stood))  # noqa: B023

        patched.install(stop)
        with suppress(WriteStopped):
            write(directory, publication=publication)
        patched.restore()
        if not before:
            break
        ((certain, stood),) = before
        stands = found(directory) == "complete"
        assert stands == stood or not certain
        published.append(stands)
    assert published == sorted(published)
    assert set(published) == {True, False}


def test_stopping_never_waits_for_a_link_that_is_being_made() -> None:
    """C12: it says that it cannot be certain yet."""
    publication, linking, go_on = Publication(), threading.Event(), threading.Event()

    def link() -> None:
        linking.set()
        assert go_on.wait(10)

    thread = threading.Thread(target=publication.publish, args=(link,))
    thread.start()
    assert linking.wait(10)
    assert not publication.stop()
    go_on.set()
    thread.join()
    assert publication.stop()
    with pytest.raises(WriteStopped):
        publication.publish(lambda: pytest.fail("published after it was stopped"))


# -- reading ---------------------------------------------------------------------------------------------------------


def test_a_changed_byte_anywhere_is_found(tmp_path: Path) -> None:
    """C19: in the records wherever it is; in the manifest but for white space and the id, which nothing repeats."""
    manifest = write(tmp_path, lines=LINES[:3])
    for name in (manifest.records_file, "manifest.json"):
        path = tmp_path / PLACE / name
        whole = path.read_bytes()
        free = range(0)
        if name == "manifest.json":
            start = whole.index(b'"ck"') + 1
            free = range(start, start + 2)
        for at in range(len(whole)):
            if at in free or whole[at : at + 1].isspace():
                continue
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            why = rejected(tmp_path)
            assert why.startswith((name, manifest.records_file[:8])), (at, why)
        path.write_bytes(whole)
    assert files.read(tmp_path, "inst")[0] == manifest


def test_files_that_are_cut_missing_or_too_long_are_named(tmp_path: Path) -> None:
    """C19, C8."""
    assert rejected(tmp_path).startswith("manifest.json: No such file")
    manifest = write(tmp_path)
    records, head = tmp_path / PLACE / manifest.records_file, tmp_path / PLACE / "manifest.json"
    whole = records.read_bytes()
    for text, why in (
        (whole[:-1], "line 40: cut short"),
        (whole[: len(whole) // 2], "cut short"),
        (whole[: whole.rindex(b"{", 0, whole.rindex(b"session_id"))], "its bytes are not those"),
        (b"", "its bytes are not those"),
        (whole + whole[: whole.index(b"\n") + 1], "its bytes are not those"),
        (b'"' + b"x" * (1 << 20) + b'"\n', "line 1: cut short, or longer than"),
        (whole + b"\n", "line 41: not JSON"),
    ):
        records.write_bytes(text)
        said = rejected(tmp_path)
        assert said.startswith(manifest.records_file)
        assert why in said
    records.unlink()
    assert rejected(tmp_path).startswith(f"{manifest.records_file}: No such file")
    records.write_bytes(whole)
    for text in (b"", b"[]", head.read_bytes()[:-9], b"\xff", b"[" * 100_000, b" " * (1 << 20) + head.read_bytes()):
        keep = head.read_bytes()
        head.write_bytes(text)
        assert rejected(tmp_path).startswith("manifest.json: ")
        head.write_bytes(keep)
    assert files.read(tmp_path, "inst")[0] == manifest


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"schema_version": 2}, "schema_version is not 1"),
        ({"schema_version": "1"}, "schema_version"),
        ({"kind": "agents"}, "another participant's"),
        ({"instance": "other"}, "another participant's"),
        ({"checkpoint_id": "../x"}, "checkpoint_id"),
        ({"records_file": "../../../x.jsonl"}, "records_file"),
        ({"records_file": "/etc/passwd"}, "records_file"),
        ({"records_sha256": "../x"}, "records_sha256"),
        ({"record_count": -1}, "record_count"),
        ({"record_count": 39}, "40 records, the manifest says 39"),
        ({"more": 1}, "more"),
    ],
)
def test_a_manifest_that_is_not_this_participants_is_refused(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    """C8, C12: another's place, kind or version, or names that lead elsewhere; nor is it written over."""
    path = tmp_path / PLACE / "manifest.json"
    manifest = write(tmp_path).as_dict()
    path.write_text(json.dumps(manifest | changes))
    assert why in rejected(tmp_path)
    if "record_count" not in changes:
        with pytest.raises(InvalidCheckpoint, match=r"^manifest\.json"):
            write(tmp_path)


def test_another_instances_directory_is_refused(tmp_path: Path) -> None:
    """C8: moved to where this one looks."""
    write(tmp_path)
    (tmp_path / PLACE).rename(tmp_path / PLACE.with_name("other"))
    assert "another participant's" in rejected(tmp_path, "other")


@pytest.mark.parametrize("name", ["manifest.json", "records"])
@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
def test_only_regular_files_are_read(tmp_path: Path, name: str, kind: str) -> None:
    """C13: no link that may lead out of the root, and nothing that would be read for ever."""
    manifest = write(tmp_path)
    path = tmp_path / PLACE / (name if name == "manifest.json" else manifest.records_file)
    aside = tmp_path / "aside"
    path.rename(aside)
    {"link": lambda: path.symlink_to(aside), "directory": path.mkdir, "pipe": lambda: os.mkfifo(path)}[kind]()
    before = set(os.listdir("/proc/self/fd"))
    assert rejected(tmp_path).startswith(f"{path.name}: ")
    assert len(os.listdir("/proc/self/fd")) == len(before)


# -- where it may lie ------------------------------------------------------------------------------------------------


def test_a_directory_lies_inside_the_root_with_its_links_resolved(tmp_path: Path) -> None:
    """C13."""
    root = tmp_path / "root"
    (root / "in").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (root / "way_out").symlink_to(tmp_path / "out")
    (root / "way_in").symlink_to(root / "in")
    (tmp_path / "root-too").mkdir()
    (tmp_path / "to_root").symlink_to(root)
    assert files.inside(str(root), str(root), "inst") == root
    assert files.inside(str(root / "new" / "ck"), str(root), "inst") == root / "new" / "ck"
    assert files.inside(str(root / "way_in" / "ck"), str(root), "inst") == root / "in" / "ck"
    assert files.inside(str(tmp_path / "to_root" / "ck"), str(tmp_path / "to_root"), "inst") == root / "ck"
    for outside in (tmp_path, tmp_path / "root-too", root / ".." / "out", root / "way_out", root / "way_out" / "ck"):
        with pytest.raises(InvalidCheckpoint, match="root_dir"):
            files.inside(str(outside), str(root), "inst")
        assert files.inside(str(outside), None, "inst") == outside.resolve()


def test_no_link_below_the_directory_leads_out_of_the_root(tmp_path: Path) -> None:
    """C13."""
    root = tmp_path / "root"
    (root / "ck").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (root / "ck" / "gym").symlink_to(tmp_path / "out")
    with pytest.raises(InvalidCheckpoint, match="root_dir"):
        files.inside(str(root / "ck"), str(root), "inst")


@pytest.mark.parametrize("path", ["", "ck", "./ck", "/ck\0", "loop"])
def test_a_directory_that_is_no_absolute_path_is_refused(tmp_path: Path, path: str) -> None:
    """C8: also one that leads in a circle."""
    if path == "loop":
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        path = str(tmp_path / "loop")
    with pytest.raises(InvalidCheckpoint, match="checkpoint_dir"):
        files.inside(path, str(tmp_path), "inst")
