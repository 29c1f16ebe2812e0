"""Who reads a body: the loop itself, or the helper process (H11, P17)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from groupjudge.answers.spool import Kept, Spool
from groupjudge.errors import InvalidRequest
from groupjudge.service import analyst as module
from groupjudge.service.analyst import HEAVY_BYTES, OBJECT_WEIGHT, Analyst

PLAIN = {"generation_token_ids": list(range(400_000))}
KEYS = {"metadata": {f"key{number}": number for number in range(90_000)}}
LOGPROBS = {"logprobs": [{"token": f"token{number}", "logprob": -0.5} for number in range(40_000)]}


def body(**response: object) -> bytes:
    whole = {"responses_create_params": {"input": "?"}, "response": {"output": [], **response}, "_ng_rollout_index": 0}
    return json.dumps(whole, separators=(",", ":")).encode()


def kept(analyst: Analyst, text: bytes) -> Kept:
    """A body on disk, as it comes off the wire."""
    return analyst._spool.keep(text)


@pytest_asyncio.fixture
async def analyst(tmp_path: Path) -> AsyncIterator[Analyst]:
    analyst = Analyst(Spool(1000, str(tmp_path)), default_size=2, max_size=4)
    yield analyst
    analyst.close()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the bodies that this process reads."""
    sizes: list[int] = []
    original = module.read_verify

    def counted(text: bytes, **how: int) -> object:
        sizes.append(len(text))
        return original(text, **how)

    monkeypatch.setattr(module, "read_verify", counted)
    return sizes


async def test_plain_training_data_of_the_same_size_is_read_at_once(here: list[int], tmp_path: Path) -> None:
    """P3: a body with long arrays is not sent away."""
    analyst = Analyst(Spool(1000, str(tmp_path)), default_size=2, max_size=4)
    text = body(**PLAIN)
    assert HEAVY_BYTES / OBJECT_WEIGHT < len(text) < HEAVY_BYTES
    caller = await analyst.caller(kept(analyst, text), echo=True)
    assert here == [len(text)]
    assert caller.kept is not None
    caller.close()


@pytest.mark.parametrize("response", [KEYS, LOGPROBS], ids=["keys", "log-probs"])
@pytest.mark.parametrize("echo", [True, False])
async def test_what_would_become_many_objects_is_read_apart(
    analyst: Analyst, response: dict[str, object], echo: bool
) -> None:
    """P17, H11: this process does not read it; the request is the same, and of its memory nothing is left meanwhile."""
    text = body(**response)
    assert 1_000_000 < len(text) < HEAVY_BYTES
    helper_reads = module.partial(module.read_verify, default_size=2, max_size=4)
    analyst._read = _Elsewhere(helper_reads)  # type: ignore[assignment]
    caller = await analyst.caller(kept(analyst, text), echo=echo)
    assert caller.request == helper_reads(text)
    assert (caller.kept is not None) == echo
    if caller.kept is not None:
        assert caller.kept.size == len(text)
    caller.close()


async def test_the_loop_has_a_turn_between_two_large_bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P9, H11: however many arrive at once."""
    turns = 0
    seen: list[int] = []
    original = module.read_verify

    def counted(text: bytes, **how: int) -> object:
        seen.append(turns)
        return original(text, **how)

    monkeypatch.setattr(module, "read_verify", counted)
    loop = asyncio.get_running_loop()

    def tick() -> None:
        nonlocal turns, ticking
        turns += 1
        ticking = loop.call_soon(tick)

    ticking = loop.call_soon(tick)
    analyst = Analyst(Spool(1000, str(tmp_path)), default_size=2, max_size=4)
    bodies = [kept(analyst, body(generation_token_ids=list(range(1000 + number)))) for number in range(8)]
    for caller in await asyncio.gather(*(analyst.caller(each, echo=True) for each in bodies)):
        caller.close()
    ticking.cancel()
    assert len(set(seen)) == 8


async def test_a_body_is_read_apart_without_what_its_file_held_before(analyst: Analyst) -> None:
    """The spool writes over files."""
    for number in (90_000, 80_000):
        text = body(metadata={f"key{each}": each for each in range(number)})
        caller = await analyst.caller(kept(analyst, text), echo=True)
        caller.close()
    assert caller.request == module.read_verify(text, default_size=2, max_size=4)


async def test_a_fault_found_apart_is_the_usual_refusal(analyst: Analyst) -> None:
    """H5."""
    text = body(**KEYS).replace(b'"_ng_rollout_index":0', b'"_ng_rollout_index":9')
    with pytest.raises(InvalidRequest) as refusal:
        await analyst.caller(kept(analyst, text), echo=True)
    assert refusal.value.problems[0]["loc"] == ["body", "_ng_rollout_index"]
    assert analyst._spool.on_disk == 0


class _Elsewhere:
    """A reader that travels to the helper and refuses to work here."""

    def __init__(self, read: object) -> None:
        self._read = read

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _same, (self._read,)

    def __call__(self, text: bytes) -> object:
        raise AssertionError("read on the loop")


def _same(read: object) -> object:
    return read
