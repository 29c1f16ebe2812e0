"""The workloads of whole servers: P1-P9, P13, P17 and F7. N is 16, pairs are circular, the judge replies at once where
nothing else is said."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryFile
from typing import Any

from benchmarks import bodies
from benchmarks.client import SMALL_BUFFER
from benchmarks.load import MINIMAL, Body, Load, N, Shape, as_body, group_of
from benchmarks.processes import Child, child, cpu_s, forget_peak, memory_mb, no_collections
from benchmarks.table import Row, paced

P1, P2, P3 = Shape(), Shape(8_192, 2_048), Shape(65_536, 16_384)
P4 = Shape(4_096, 16_384, (32, 8))
ROUNDS = 3


@asynccontextmanager
async def judged(*sets: str, delay_s: float = 0.0, probed: bool = False) -> AsyncIterator[tuple[Child, Child]]:
    """A server and its judge."""
    async with child("benchmarks.judge", str(delay_s)) as judge:
        own = ("server.port=0", "judge.format=responses", f"judge.base_url={judge.address}/v1", *sets)
        words = ["benchmarks.probed", *own] if probed else ["groupjudge", "serve"]
        if not probed:
            words += [word for pair in own for word in ("--set", pair)]
        async with child(*words) as server:
            yield server, judge


# -- CPU of a request (P1-P5) ------------------------------------------------------------------------------------------


async def cpu_ms(server: Child, load: Load, members: list[Body], groups: int, at_once: int) -> float:
    began = cpu_s(server.pid)
    await load.groups(members, groups, at_once)
    return 1e3 * (cpu_s(server.pid) - began) / (groups * N)


async def _beside_floor(
    shape: Shape, groups: int, at_once: int, *, minimal: bool = False, sets: tuple[str, ...] = ()
) -> tuple[float, float]:
    """CPU milliseconds of a request, ours and the floor's: round by round in turn, the least of each."""
    members = group_of(shape)
    async with judged(*sets) as (server, _), child("benchmarks.floor") as floor:
        ours = Load(server.address, headers=MINIMAL if minimal else b"")
        bare = Load(floor.address, "/small" if minimal else "/echo")
        await ours.groups(members, 1, 1)
        await bare.groups(members, 1, 1)
        costs = []
        for _ in range(ROUNDS):
            mine = await cpu_ms(server, ours, members, groups, at_once)
            costs.append((mine, await cpu_ms(floor, bare, members, groups, at_once)))
        ours.close()
        bare.close()
    return min(cost[0] for cost in costs), min(cost[1] for cost in costs)


async def small() -> list[Row]:
    ours, floor = await _beside_floor(P1, 40, 8)
    return [
        Row(
            "P1",
            "answers of 1 KB: server CPU per /verify, judge call included",
            "ms",
            ours,
            0.5,
            floor,
            pace=paced(floor, 0.06),
        )
    ]


async def medium() -> list[Row]:
    ours, floor = await _beside_floor(P2, 6, 2)
    return [Row("P2", "8,192 + 2,048 tokens with log-probs, 0.23 MB", "ms", ours, 1.5, floor, pace=paced(floor, 0.2))]


async def large() -> list[Row]:
    ours, floor = await _beside_floor(P3, 3, 2)
    return [Row("P3", "65,536 + 16,384 tokens, 1.85 MB", "ms", ours, 9.0, floor, pace=paced(floor, 4.4))]


async def routed() -> list[Row]:
    ours, floor = await _beside_floor(P4, 2, 1)
    what = "4,096 + 16,384 tokens, expert routing of 32 layers x 8, 3.8 MB"
    # Most of it is reading the answer: the floor is pipes alone, so the pace is that of the floor and P11's baseline.
    whole = bodies.body(bodies.answer(random.Random(1), *P4))
    reading = bodies.row(whole, 5)[bodies.COLUMNS.index("baseline")]
    assert reading
    pace = paced(floor + reading, 10 + 92)
    return [Row("P4", what, "ms", ours, 25.0, floor, pace=pace)]


async def large_minimal() -> list[Row]:
    ours, floor = await _beside_floor(P3, 3, 2, minimal=True)
    return [Row("P5", "P3 under Prefer: return=minimal", "ms", ours, 8.5, floor, pace=paced(floor, 1.9))]


# -- memory (P6-P8) ----------------------------------------------------------------------------------------------------


async def _all_at_judge(
    server: Child, judge: Child, load: Load, members: list[Body], groups: int
) -> tuple[float, float]:
    """Send groups, let them out once all calls are at the judge: peak memory in MB, CPU seconds until that moment."""
    await judge.ask("hold")
    forget_peak(server.pid)
    began = cpu_s(server.pid)
    sending = [asyncio.create_task(load.group(members)) for _ in range(groups)]
    await _until_asked(judge, groups * N, sending)
    used = cpu_s(server.pid) - began
    await judge.ask("release")
    await asyncio.gather(*sending)
    return memory_mb(server.pid, "VmHWM"), used


async def _until_asked(judge: Child, calls: int, sending: list[asyncio.Task[list[float]]]) -> None:
    """Return once so many calls are at the judge; raise what went wrong with the sending meanwhile."""
    while (await judge.ask("stats"))["now"] < calls:
        await asyncio.wait(sending, timeout=0.02, return_when=asyncio.FIRST_EXCEPTION)
        for task in sending:
            if task.done():
                task.result()


async def _held(minimal: bool) -> tuple[float, float]:
    """MB for each of 128 answers that are held at once: of a server that was just started, and of a used one."""
    members = group_of(P3)
    async with judged() as (server, judge):
        load = Load(server.address, headers=MINIMAL if minimal else b"")
        per_answer = []
        for _ in range(3):
            before = memory_mb(server.pid)
            peak, _ = await _all_at_judge(server, judge, load, members, 8)
            per_answer.append((peak - before) / (8 * N))
        load.close()
    return per_answer[0], min(per_answer[1:])


async def memory() -> list[Row]:
    what = "P3 answer held while its group is judged (128 at once), "
    cold, warm = await _held(minimal=False)
    return [
        Row("P6", what + "cold", "MB", cold, 0.25),
        Row("P6", what + "warm", "MB", warm, 0.15),
    ]


async def memory_minimal() -> list[Row]:
    _, warm = await _held(minimal=True)
    return [Row("P7", "the same with return=minimal, warm", "MB", warm, 0.10)]


async def many(answers: int) -> list[Row]:
    """P8. `answers` is at least one group's."""
    groups = max(1, answers // N)
    async with judged(f"judge.max_concurrency={groups * N}") as (server, judge):
        load = Load(server.address, send_buffer=SMALL_BUFFER)
        peak, used = await _all_at_judge(server, judge, load, group_of(P3), groups)
        load.close()
    await asyncio.sleep(GIVEN_BACK_S)
    bare = _written_s(groups * N)
    share = groups * N / 8_192
    what = f"{groups * N:,} P3 answers at the judge at once: "
    note = "" if share == 1 else f"targets are those of 8,192 answers, CPU times {share:.3g}"
    beside = "baseline: writing as many bytes to a file"
    return [
        Row("P8", what + "peak memory", "MB", peak, 2_147.0, note=note),
        Row(
            "P8",
            what + "CPU until all are there",
            "s",
            used,
            70 * share,
            bare,
            note="; ".join((note, beside)).lstrip("; "),
        ),
    ]


GIVEN_BACK_S = 10.0
"""So long after a process ended, a virtual machine may have given its memory back to the host."""


def _written_s(answers: int) -> float:
    """CPU seconds of writing so many P3 bodies to a file without a name, and nothing else: what keeping them on disk
    takes at least, and where memory is slow to come by, much of what it takes in all."""
    body = memoryview(bodies.body(bodies.answer(random.Random(1), *P3)))
    with TemporaryFile(buffering=0) as file:
        began = time.process_time()
        for _ in range(answers):
            for start in range(0, len(body), 1 << 18):
                file.write(body[start : start + (1 << 18)])
        return time.process_time() - began


# -- stalls (P9, P17) --------------------------------------------------------------------------------------------------


async def _stalls_of_a_round(server: Child, judge: Child, load: Load, members: list[Body]) -> list[dict[str, float]]:
    """64 bodies arrive at once; their replies leave at once."""
    await judge.ask("hold")
    await server.ask("stall")
    sending = [asyncio.create_task(load.group(members)) for _ in range(4)]
    await _until_asked(judge, 4 * N, sending)
    arriving = await server.ask("stall")
    await judge.ask("release")
    await asyncio.gather(*sending)
    return [arriving, await server.ask("stall")]


async def stalls() -> list[Row]:
    members = group_of(P3)
    async with judged(probed=True) as (server, judge):
        load = Load(server.address)
        rounds = [await _stalls_of_a_round(server, judge, load, members) for _ in range(6)][1:]
        load.close()
    rows = []
    for phase, name in enumerate(("64 P3 bodies arrive", "their replies leave")):
        clock = statistics.median(each[phase]["clock_ms"] for each in rounds)
        cpu = statistics.median(each[phase]["cpu_ms"] for each in rounds)
        rows.append(Row("P9", f"longest stall of the loop while {name}", "ms", clock, 25.0, note=f"{cpu:.1f} of CPU"))
    return rows


async def unusual() -> list[Row]:
    """A group of each kind of unusual bodies, one after the other; the loop's longest stall."""
    rows = []
    async with judged("group.size=1", probed=True) as (server, _):
        load = Load(server.address)
        for name, answer in bodies.unusual_answers():
            body = as_body(answer, 0)
            stalls = []
            for round_ in range(4):
                await server.ask("stall")
                await asyncio.gather(*(load.member(body, f"{name}-{round_}-{number}") for number in range(3)))
                stalls.append(await server.ask("stall"))
            clock = statistics.median(stall["clock_ms"] for stall in stalls[1:])
            cpu = statistics.median(stall["cpu_ms"] for stall in stalls[1:])
            rows.append(Row("P17", f"stall of others: {name}", "ms", clock, 25.0, note=f"{cpu:.1f} of CPU"))
        load.close()
    return rows


# -- judging early (F7) ------------------------------------------------------------------------------------------------


async def _after_straggler(strategy: str, places: int, start: str, delay_s: float, groups: int = 5) -> float:
    """Seconds from the arrival of a group's last member to its reward, when all others came long before."""
    members = group_of(P1)
    sets = (f"judge.max_concurrency={places}", f"comparison.strategy={strategy}", f"comparison.start={start}")
    took = []
    async with judged(*sets, delay_s=delay_s) as (server, _):
        load = Load(server.address)
        for number in range(groups):
            name = f"straggler-{number}"
            first = [asyncio.create_task(load.member(body, name)) for body in members[:-1]]
            calls = N if strategy == "circular" else N * (N - 1) // 2
            await asyncio.sleep(delay_s * (calls / places + 2))
            took.append(await load.member(members[-1], name))
            await asyncio.gather(*first)
        load.close()
    return statistics.median(took)


async def stragglers(delay_s: float = 0.1) -> list[Row]:
    """One straggler, a judge that takes 0.1 s and has few places: judging early (ours) beside waiting for all."""
    rows = []
    for strategy, places in (("circular", 4), ("all_pairs", 16)):
        eager = 1e3 * await _after_straggler(strategy, places, "eager", delay_s)
        complete = 1e3 * await _after_straggler(strategy, places, "complete", delay_s)
        what = f"straggler's arrival to reward: {strategy}, {places} places"
        rows.append(Row("F7", what, "ms", eager, 0.5 * complete, complete))
    return rows


# -- latency (P13) -----------------------------------------------------------------------------------------------------


async def latency(groups_at_once: int = 512, delay_s: float = 20.0) -> list[Row]:
    """Groups come at random moments, their members spread over a second each, and a slow judge keeps them in flight. Of
    each group that comes once all are in flight: the time from its last member's arrival to that member's reward, less
    the time that its longest call took at the judge."""
    members = group_of(P1)
    rng = random.Random(13)
    last: dict[str, float] = {}

    async def one(load: Load, name: str, moments: list[float], *, counts: bool) -> None:
        sending = []
        for body, moment in zip(members, moments, strict=True):
            await asyncio.sleep(moment - time.perf_counter())
            sending.append(asyncio.create_task(load.member(body, name)))
        took = await asyncio.gather(*sending)
        if counts:
            last[f"Question of {name}?"] = took[-1]

    with no_collections():
        async with judged(f"judge.max_concurrency={2 * groups_at_once * N}", delay_s=delay_s) as (server, judge):
            load = Load(server.address)
            full = time.perf_counter() + delay_s + 1.0
            running = []
            for number in range(2 * groups_at_once):
                first = full + delay_s * rng.uniform(-1, 1)
                moments = sorted(first + rng.random() for _ in members)
                running.append(asyncio.create_task(one(load, f"group-{number}", moments, counts=first > full)))
            await asyncio.gather(*running)
            own: dict[str, Any] = await judge.ask("own")
            peak = (await judge.ask("stats"))["peak"] / N
            load.close()
    p50, p99 = _middle_and_tail([1e3 * (took - own[question]) for question, took in last.items()])
    rate = groups_at_once / delay_s
    bare_p50, bare_p99 = _middle_and_tail(await _bursts_at_floor(members, rate))
    note = f"p50 {p50:.2f} beside {bare_p50:.2f}; {peak:.0f} groups in flight, {N * rate:.0f} requests/s"
    what = "last member's arrival to reward, above the judge's time, p99"
    return [Row("P13", what, "ms", p99, 5.0, bare_p99, note=note)]


def _middle_and_tail(values: list[float]) -> tuple[float, float]:
    """The median, and what one in a hundred exceeds."""
    values = sorted(values)
    return values[len(values) // 2], values[int(0.99 * len(values))]


async def _bursts_at_floor(members: list[Body], rate: float, bursts: int = 400) -> list[float]:
    """How many milliseconds the floor takes to echo a group that comes all at once, where such groups come at random.
    A server that judges has to send as many calls, too."""
    rng = random.Random(13)
    took: list[float] = []

    async def one(load: Load, moment: float) -> None:
        await asyncio.sleep(moment - time.perf_counter())
        took.append(1e3 * max(await load.group(members)))

    with no_collections():
        async with child("benchmarks.floor") as floor:
            load = Load(floor.address, "/echo")
            begin = time.perf_counter()
            moments = [begin + bursts / rate * rng.random() for _ in range(bursts)]
            await asyncio.gather(*(one(load, moment) for moment in moments))
            load.close()
    return took
