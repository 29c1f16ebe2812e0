"""JSON values to try things on: random ones, random spellings of them, and a referee that compares them slowly."""

from __future__ import annotations

import json
import math
import random
import struct
from typing import Any

from hypothesis import strategies as st

from groupjudge.answers import arrays, canonical, jsontext, outline, question, top
from groupjudge.answers import plain as plain_bodies

WHITE = ("", "", "", " ", "\n", "\t ", "\r\n")

# A true generator for each seed: far faster than one whose every draw is recorded.
rngs = st.integers(0, 2**32 - 1).map(random.Random)
floats = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 5e-324, -2.2250738585072014e-308, 1e-05, 1e22, 0.1, 123456789012345680.0]),
)
integers = st.one_of(
    st.integers(-200, 200),
    st.sampled_from(
        [2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**599, 10**700, -(10**4000)]
    ),
    st.integers(),
)
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", "\ud800", "a\udc00b", "\U0001f600", "é", '"', "\\", '[1,2]"', "\x00", "\x7f", "]}", "NaN"]),
)
scalars = st.one_of(st.none(), st.booleans(), integers, floats, texts)
integer_arrays: st.SearchStrategy[list[Any]] = st.lists(
    st.recursive(integers, lambda inner: st.lists(inner, max_size=4), max_leaves=8), max_size=6
)
float_arrays = st.lists(floats, min_size=1, max_size=8)
mixed_arrays = st.lists(st.one_of(floats, integers, st.none(), st.booleans()), max_size=6)
keys = st.one_of(
    st.sampled_from(["output", "content", "type", "a", "b", "é", "\ud800", "\U00010000", "\uffff", ""]), texts
)
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(scalars, integer_arrays, float_arrays, mixed_arrays),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)
items = st.dictionaries(keys, st.one_of(values, integer_arrays, float_arrays, mixed_arrays), max_size=4)
answers = st.fixed_dictionaries(
    {"output": st.lists(st.one_of(items, items, scalars), max_size=3)},
    optional={"metadata": values, "ids": integer_arrays, "probs": float_arrays, "mixed": mixed_arrays},
)


def referee(value: Any) -> object:
    """Something that is equal for equal JSON values (L21), made as plainly as it can be."""
    if isinstance(value, dict):
        return ("object", frozenset((key, referee(each)) for key, each in value.items()))
    if isinstance(value, list):
        return ("array", tuple(map(referee, value)))
    if isinstance(value, float):
        return ("float", "NaN" if math.isnan(value) else struct.pack(">d", value))
    return (type(value).__name__, value)


def spell(value: Any, rng: random.Random) -> str:
    """One of the many JSON texts of a value: random white space, key order, escapes and number spellings; sometimes a
    key comes twice, the first time with something else."""
    pad = rng.choice(WHITE)
    if isinstance(value, dict):
        members = [f"{spell(key, rng)}{rng.choice(WHITE)}:{spell(each, rng)}" for key, each in value.items()]
        rng.shuffle(members)
        if value and rng.random() < 0.2:
            members.insert(0, f"{spell(next(iter(value)), rng)}:[1.5,null]")
        return f"{pad}{{{pad}{','.join(members)}{pad}}}{pad}"
    if isinstance(value, list):
        return f"{pad}[{','.join(spell(each, rng) for each in value) or pad}]{pad}"
    if isinstance(value, str):
        return f'{pad}"{"".join(_character(each, rng) for each in value)}"{pad}'
    if isinstance(value, float):
        return f"{pad}{_float(value, rng)}{pad}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{pad}{'-0' if value == 0 and rng.random() < 0.5 else _digits(value)}{pad}"
    return f"{pad}{json.dumps(value)}{pad}"


def _digits(value: int) -> str:
    """Decimal digits, however many."""
    sign, value = ("-", -value) if value < 0 else ("", value)
    parts: list[str] = []
    while value >= 10**1000:
        value, low = divmod(value, 10**1000)
        parts.append(f"{low:01000d}")
    return sign + str(value) + "".join(reversed(parts))


def _character(character: str, rng: random.Random) -> str:
    code = ord(character)
    must = code < 0x20 or character in '"\\' or 0xD800 <= code < 0xE000
    if not must and rng.random() < 0.7:
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    escapes = [f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)]
    return "".join(each if rng.random() < 0.5 else each.upper().replace("\\U", "\\u") for each in escapes)


def _float(value: float, rng: random.Random) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        infinite = "Infinity" if rng.random() < 0.5 else "1e400"
        return infinite if value > 0 else "-" + infinite
    spellings = [repr(value), f"{value:.17e}", f"{value:.25e}"]
    if 1e-9 < abs(value) < 1e15:
        spellings.append(f"{value:.40f}")
    text = rng.choice(spellings)
    mantissa, exponent, power = text.partition("e")
    if "." in mantissa and rng.random() < 0.3:
        mantissa += "00"
    if exponent and rng.random() < 0.3:
        power = ("+" if power[0] not in "+-" else power[0]) + "0" + power.lstrip("+-")
    return mantissa + (exponent.upper() if rng.random() < 0.3 else exponent) + power


def fixed(value: Any) -> Any:
    """The value as JSON can say it: two surrogates that stand together are one character."""
    if isinstance(value, dict):
        return {fixed(key): fixed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [fixed(each) for each in value]
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return value


class Paths:
    """Ways to read, of which each must give the same: `with Paths(...)` takes one until it ends."""

    def __init__(self, *, block: int = 2048, exact: bool = False, tolerant: bool = False, plain: bool = False) -> None:
        # What another path found is not to be remembered.
        self._wanted: list[tuple[Any, str, Any]] = [
            (outline, "_BLOCK", block),
            (question, "_remembered", question._read),
        ]
        if exact or tolerant:
            self._wanted.append((plain_bodies, "_read_plain", _refuse))
        if tolerant:
            self._wanted += [(jsontext, "_parse_fast", _refuse), (jsontext, "_skim_fast", _refuse)]
            self._wanted += [(top, "_read_top", _refuse), (top, "_read_params", _refuse)]
        if plain:
            self._wanted.append((canonical, "_fast", _overflow))
            self._wanted.append((arrays, "doubles", arrays.doubles_plain))
        self._before: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> None:
        self._before = [(module, name, getattr(module, name)) for module, name, _ in self._wanted]
        for module, name, value in self._wanted:
            setattr(module, name, value)

    def __exit__(self, *_: object) -> None:
        for module, name, value in self._before:
            setattr(module, name, value)


def _refuse(text: object) -> object:
    raise RecursionError


def _overflow(value: object) -> bytes:
    raise OverflowError


EVERY_PATH = [
    {"block": block, "plain": plain, **reader}
    for block in (2, 16, 1 << 30)
    for reader in ({}, {"exact": True}, {"tolerant": True})
    for plain in (False, True)
]
