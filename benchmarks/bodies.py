"""What reading a `/verify` body costs, beside what it costs to parse and dump one (P1-P4, P10, P11, P17).

    python benchmarks/bodies.py [--rounds N] [--only NAME ...]

CPU time of one thread in milliseconds, the least of N rounds. All columns of a row are measured in turn, round by
round, so that whatever else the machine does touches them alike; compare by the ratios.

    read_verify   the whole of `read_verify`: coordinates, texts, both fingerprints
    plain         the same without pysimdjson
    fingerprint   `answer_fingerprint` of the answer alone, bytes in, digest out
    baseline      orjson: parse the answer, dump it with sorted keys, SHA-256 (no fingerprint: it merges NaN and null,
                  and integers beyond 64 bits with floats); `-` where orjson refuses the body
    sha256        SHA-256 of the answer's bytes: the floor
    ratio         fingerprint / baseline
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from groupjudge.answers import arrays
from groupjudge.answers.fingerprint import answer_fingerprint
from groupjudge.answers.verify import read_verify

COLUMNS = ("read_verify", "plain", "fingerprint", "baseline", "sha256")
COMPACT, SPACED = (",", ":"), (", ", ": ")


def answer(rng: random.Random, generated: int, prompt: int, routing: tuple[int, int] | None = None) -> dict[str, Any]:
    """A Responses-API object with a text of some 600 characters and the training data of so many tokens; `routing`:
    layers, and experts for each."""
    words = ("reward", "policy", "token", "because", "model", "value", "step", "the", "a", "of")
    text = " ".join(rng.choice(words) for _ in range(110))
    message: dict[str, Any] = {
        "id": f"msg_{rng.getrandbits(64):x}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    if generated:
        message["prompt_token_ids"] = [rng.randrange(151_000) for _ in range(prompt)]
        message["generation_token_ids"] = [rng.randrange(151_000) for _ in range(generated)]
        message["generation_log_probs"] = [-rng.expovariate(2.0) for _ in range(generated)]
    if routing:
        layers, experts = routing
        message["routed_experts"] = [
            [[rng.randrange(128) for _ in range(experts)] for _ in range(layers)] for _ in range(generated)
        ]
    reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "thinking " * 20}]}
    return {"id": f"resp_{rng.getrandbits(64):x}", "object": "response", "output": [reasoning, message], "tools": []}


def body(
    response: dict[str, Any],
    separators: tuple[str, str] = COMPACT,
    *,
    group: str = "g-1",
    slot: int = 3,
    question: str = "What is the value of a step?",
) -> bytes:
    """A whole `/verify` body."""
    whole = {
        "responses_create_params": {"input": [{"role": "user", "content": question}]},
        "response": response,
        "_ng_group_id": group,
        "_ng_group_attempt": 0,
        "_ng_rollout_index": slot,
    }
    return json.dumps(whole, separators=separators).encode()


def usual() -> Iterator[tuple[str, bytes]]:
    rng = random.Random(1)
    sizes: dict[str, tuple[int, int, tuple[int, int] | None]] = {
        "P1": (0, 0, None),
        "P2": (8_192, 2_048, None),
        "P3": (65_536, 16_384, None),
        "P4": (4_096, 16_384, (32, 8)),
    }
    for name, (generated, prompt, routing) in sizes.items():
        response = answer(rng, generated, prompt, routing)
        yield name, body(response)
        yield f"{name} ', '", body(response, SPACED)


def unusual_answers() -> Iterator[tuple[str, dict[str, Any]]]:
    """P17: answers of P3's size that a fast reader stumbles over."""
    rng = random.Random(2)
    for name, value in (("NaN", float("nan")), ("null", None), ("-Infinity", -float("inf")), ("integer", 0)):
        response = answer(rng, 65_536, 16_384)
        response["output"][1]["generation_log_probs"][777] = value
        yield f"one {name}", response
    response = answer(rng, 65_536, 16_384)
    response["output"][1]["content"][0]["text"] += "\ud800"
    yield "lone surrogate", response
    response = answer(rng, 0, 0)
    response["output"][1]["content"][0]["logprobs"] = [
        {"token": f"token{rng.randrange(10_000)}", "logprob": -rng.random()} for _ in range(36_000)
    ]
    yield "{token, logprob}", response
    response = answer(rng, 0, 0)
    response["metadata"] = {f"key{index}": index for index in range(100_000)}
    yield "100,000 keys", response


def unusual() -> Iterator[tuple[str, bytes]]:
    """Their bodies."""
    for name, response in unusual_answers():
        yield f"P17 {name}", body(response)


def timed(call: Callable[[], object]) -> float:
    start = time.thread_time()
    call()
    return (time.thread_time() - start) * 1e3


def _without_simdjson(call: Callable[[], object]) -> Callable[[], object]:
    def plain() -> object:
        fast, arrays.doubles = arrays.doubles, arrays.doubles_plain
        try:
            return call()
        finally:
            arrays.doubles = fast

    return plain


def _parse_dump_hash(text: bytes) -> bytes:
    return hashlib.sha256(orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS)).digest()


def row(whole: bytes, rounds: int) -> list[float | None]:
    """The least of each column's times."""
    request = read_verify(whole, default_size=16, max_size=1024)
    text = whole[slice(*request.response)]

    def read() -> object:
        return read_verify(whole, default_size=16, max_size=1024)

    calls: list[Callable[[], object]] = [
        read,
        _without_simdjson(read),
        lambda: answer_fingerprint(text),
        lambda: _parse_dump_hash(text),
        lambda: hashlib.sha256(text),
    ]
    best: list[float | None] = [None] * len(calls)
    for _ in range(rounds if len(whole) > 10_000 else rounds * 50):
        for index, call in enumerate(calls):
            try:
                spent = timed(call)
            except orjson.JSONDecodeError:
                continue
            best[index] = min(spent, best[index] or spent)
    return best


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=15, help="how often each call is timed")
    arguments.add_argument("--only", nargs="*", default=[], help="rows whose names begin so")
    options = arguments.parse_args()
    print(f"{'body':22}{'MB':>7}" + "".join(f"{column:>13}" for column in (*COLUMNS, "ratio")))
    for name, whole in (*usual(), *unusual()):
        if options.only and not name.startswith(tuple(options.only)):
            continue
        best = row(whole, options.rounds)
        ratio = best[2] / best[3] if best[2] and best[3] else None
        cells = [f"{'-' if value is None else format(value, '.3f'):>13}" for value in (*best, ratio)]
        print(f"{name:22}{len(whole) / 1e6:7.2f}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
