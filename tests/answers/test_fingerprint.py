"""Fingerprints: equal exactly where the JSON values are equal, whichever way they were read."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groupjudge.answers.fingerprint import SCHEME, answer_fingerprint, question_fingerprint
from groupjudge.answers.jsontext import Malformed

from .json_values import EVERY_PATH, Paths, answers, fixed, referee, rngs, spell, values

CASES = json.loads((Path(__file__).parents[1] / "cases" / "fingerprints.json").read_text("utf-8"))


def fp(text: str) -> bytes:
    return answer_fingerprint(text.encode())


def inside(array: str) -> str:
    """An answer with a training array."""
    return f'{{"output":[{{"type":"message","x":{array}}}]}}'


def everywhere(array: str) -> list[str]:
    """Answers that hold an array where it has a digest of its own, and where not."""
    return [inside(array), f'{{"output":[],"x":{array}}}', f'{{"a":{{"x":{array}}}}}', array]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_shared_cases_have_equal_fingerprints_or_not_as_they_say(case: dict[str, Any]) -> None:
    """L21, each way to read."""
    for path in EVERY_PATH:
        with Paths(**path):
            assert (fp(case["a"]) == fp(case["b"])) == case["same"]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("[-0]", "[0]"),
        ("[[-0,-0],[3,-0]]", "[[0,0],[3,0]]"),
        ("[1e400,1.5]", "[Infinity,1.5]"),
        ("[-1e999]", "[-Infinity]"),
        ("[1E+2,0.50]", "[100.0,0.5]"),
        ("[1e-400]", "[0.0]"),
        ("[-1e-400]", "[-0.0]"),
        ("[0.1]", "[0.1000000000000000055511151231257827021181583404541015625]"),
        ("[2.4703282292062328e-324]", "[5e-324]"),
        ("[1.7976931348623158e308]", "[1.7976931348623157e308]"),
        ("[9007199254740993.0]", "[9007199254740992.0]"),
        ("[NaN,1.5,NaN]", "[ NaN , 1.50 ,NaN ]"),
        ("[1.5,NaN,-Infinity,Infinity]", "[15e-1,NaN,-1e400,1e400]"),
        ("[" + "7" * 5000 + "]", "[ " + "7" * 5000 + " ]"),
        ("[[ ],[\n]]", "[[],[]]"),
        ('[[{"a":1,"b":2}]]', '[[{"b":2,"a":1}]]'),
        ("[Infinity,1.5,NaN,-Infinity]", "[1e400,1.5,NaN,-1e400]"),
        ('[1,"\\u00e9"]', '[1,"é"]'),
    ],
)
def test_spellings_of_one_array_have_one_fingerprint(a: str, b: str) -> None:
    """L21: wherever the array stands, whichever way it is read."""
    for path in EVERY_PATH:
        with Paths(**path):
            for left, right in zip(everywhere(a), everywhere(b), strict=True):
                assert fp(left) == fp(right)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("[1.0,2.5]", "[1,2.5]"),
        ("[1.0]", "[1]"),
        ("[1.5,1]", "[1.5,1.0]"),
        ("[-0.0]", "[0.0]"),
        ("[-0.0]", "[0]"),
        ("[NaN]", "[null]"),
        ("[NaN]", "[Infinity]"),
        ("[Infinity]", "[-Infinity]"),
        ("[Infinity,1.5]", "[1.5,Infinity]"),
        ("[NaN,0.0]", "[0.0,NaN]"),
        ("[NaN]", "[0.0]"),
        ("[NaN]", '["NaN"]'),
        ("[1e400]", "[1.7976931348623157e308]"),
        ("[]", "[0]"),
        ("[]", "[[]]"),
        ("[]", "{}"),
        ("[]", "null"),
        ("[[]]", "[[],[]]"),
        ("[[1],[2]]", "[[1,2]]"),
        ("[1,2]", "[12]"),
        ("[1,[2,3]]", "[1,2,3]"),
        ("[[1.5],[2.5]]", "[1.5,2.5]"),
        ("[1.5,2.5]", "[[1.5,2.5]]"),
        ("[18446744073709551616]", "[18446744073709551617]"),
        ("[18446744073709551616]", "[18446744073709551616.0]"),
        ("[" + "7" * 5000 + "]", "[" + "7" * 4999 + "8]"),
        ("[" + "7" * 5000 + "]", '["' + "7" * 5000 + '"]'),
        ("[true]", "[1]"),
        ("[false]", "[0]"),
        ("[true,1.5]", "[1.0,1.5]"),
        ("[1.5,null]", "[1.5,NaN]"),
        ("[1.5,null]", "[1.5]"),
        ("[1,2,3]", "[1,3,2]"),
        ('["a","bc"]', '["ab","c"]'),
        ('[["a b"]]', '[["ab"]]'),
        ("[[1.5,null]]", "[[1.5,NaN]]"),
        ('["\\ud800","\\udc00"]', '["\\ud800\\udc00",""]'),
    ],
)
def test_different_arrays_have_different_fingerprints(a: str, b: str) -> None:
    """L21: wherever the array stands, whichever way it is read."""
    for path in EVERY_PATH:
        with Paths(**path):
            for left, right in zip(everywhere(a), everywhere(b), strict=True):
                assert fp(left) != fp(right)


def test_an_array_is_no_digest_of_itself() -> None:
    """L22: what stands in the canonical form for an array of numbers cannot be sent as a value."""
    digest = hashlib.sha256(b"[1,2]").digest()
    for forged in (json.dumps(digest.hex()), json.dumps(digest.decode("latin-1")), json.dumps(list(digest))):
        assert fp(inside(forged)) != fp(inside("[1,2]"))


@pytest.mark.parametrize("path", EVERY_PATH, ids=str)
def test_the_place_of_an_array_matters(path: dict[str, Any]) -> None:
    """L21: the same arrays under other keys, in other items or around the output are other values."""
    texts = [
        '{"output":[{"a":[1,2],"b":[1.5]}]}',
        '{"output":[{"b":[1,2],"a":[1.5]}]}',
        '{"output":[{"a":[1,2]},{"b":[1.5]}]}',
        '{"output":[{"b":[1.5]},{"a":[1,2]}]}',
        '{"output":[{"a":[1,2]}],"b":[1.5]}',
        '{"output":[{"a":[1,2]}],"c":{"b":[1.5]}}',
        '{"output":[[{"a":[1,2],"b":[1.5]}]]}',
        '{"output":[1,2]}',
        '{"output":[1.5]}',
        '{"output":[]}',
    ]
    with Paths(**path):
        assert len({fp(text) for text in texts}) == len(texts)


@given(answers, rngs, st.sampled_from(EVERY_PATH), st.sampled_from(EVERY_PATH))
def test_a_respelled_answer_keeps_its_fingerprint_on_every_path(
    answer: Any, rng: random.Random, one: dict[str, Any], other: dict[str, Any]
) -> None:
    """L21: random values, spelled at random, read in random ways."""
    with Paths(**one):
        first = fp(spell(answer, rng))
    with Paths(**other):
        assert fp(spell(answer, rng)) == first


@given(values, rngs, st.sampled_from(EVERY_PATH), st.sampled_from(EVERY_PATH))
def test_any_value_has_a_fingerprint(
    value: Any, rng: random.Random, one: dict[str, Any], other: dict[str, Any]
) -> None:
    """L21: an answer need not look like one."""
    with Paths(**one):
        first = fp(spell(value, rng))
    with Paths(**other):
        assert fp(spell(value, rng)) == first


@given(answers, answers, rngs, st.sampled_from(EVERY_PATH))
@example({"output": []}, {"output": []}, random.Random(1), EVERY_PATH[0])
def test_fingerprints_are_equal_exactly_where_values_are(
    one: Any, other: Any, rng: random.Random, path: dict[str, Any]
) -> None:
    """L21: the referee compares the values themselves."""
    with Paths(**path):
        equal = fp(spell(one, rng)) == fp(spell(other, rng))
    assert equal == (referee(fixed(one)) == referee(fixed(other)))


@given(answers, rngs, st.sampled_from(EVERY_PATH))
def test_a_small_change_changes_the_fingerprint(answer: Any, rng: random.Random, path: dict[str, Any]) -> None:
    """L21: one leaf changed, added or taken away, anywhere."""
    changed = _changed(answer, rng)
    with Paths(**path):
        equal = fp(spell(answer, rng)) == fp(spell(changed, rng))
    assert equal == (referee(fixed(answer)) == referee(fixed(changed)))


def _changed(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        return {**value, key: _changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        index = rng.randrange(len(value))
        changed = _changed(value[index], rng)
        return [*value[:index], *rng.choice([[], [changed], [changed], [changed]]), *value[index + 1 :]]
    swaps: list[Any] = [None, True, 0, 0.0, -0.0, 1, 1.0, float("nan"), "", "0", [], {}, [0], [0.0], 10**30]
    return rng.choice(swaps)


@pytest.mark.parametrize("path", EVERY_PATH, ids=str)
def test_fingerprints_of_this_scheme_never_change(path: dict[str, Any]) -> None:
    """L22: whoever changes one of these must change SCHEME; saved states hold them."""
    text = (
        '{"id":"r\\ud800","output":[{"type":"message","ids":[1,-0,[]],"probs":[-0.5,NaN,1e400],"mixed":[1.5,2,null]},7],'
        '"n":[0.5],"wide":123456789012345678901234567890,"neg":-33,"t":true,"o":{"b":1,"a":"é"}}'
    )
    with Paths(**path):
        assert SCHEME == "groupjudge-sha256-msgpack-1"
        assert answer_fingerprint(text.encode()).hex() == GOLDEN_ANSWER
        assert question_fingerprint("Hi?", "be kind").hex() == GOLDEN_QUESTION


GOLDEN_ANSWER = "c60821efb4fc97b0ae90c8d13e32f04513bad715b4166d9d265c793ea4c496d1"
GOLDEN_QUESTION = "198ab409e9107eb0dce61c3be570389f5b1cef7eb8079bb40550b66d579a45ee"


def test_a_fingerprint_is_a_sha256() -> None:
    """L22: 32 bytes of a cryptographic digest."""
    assert len(fp("{}")) == len(question_fingerprint("", None)) == 32
    assert fp("{}") != question_fingerprint({}, None)


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a":[1,2}', '{"a":[1,]}', '{"a":[01]}', '{"a":[1 2]}', '{"a":[- 1]}', '{"a":[-NaN]}',
     '{"a":[-NaN,1.25,1.5]}', '{"a":[1NaN]}',
     '{"a":[NaN1.5]}', '{"a":[1.5,xNaN]}', '{"a":[--Infinity]}', '{"a":[1Infinity]}', '{"a":[1.]}', '{"a":[1.5,.5]}',
     '{"a":[1.5,1e]}', '{"a":[NaNNaN]}', '{"a":[nan]}', '{"a":[1.5]]}', '{"a":[1],[2]}', '{"a":[1.5],[2]}',
     '{"a":[1]} x', '{"a":[-0,]}', '{"a":[[-0],01]}', '{"a":[[1],[2,]]}', '{"a":[[1], [2 3]]}'],
)  # fmt: skip
def test_what_is_no_json_has_no_fingerprint(text: str) -> None:
    """H10: strict on every path, in the middle of long arrays too."""
    for path in EVERY_PATH:
        with Paths(**path), pytest.raises(Malformed):
            fp(text)


@pytest.mark.parametrize("path", EVERY_PATH, ids=str)
@pytest.mark.parametrize(
    "deep",
    ["[" * 253 + "]" * 253, "[1," * 253 + "2" + "]" * 253, "[1.5," * 252 + "[]" + "]" * 252,
     '{"a":' * 253 + "1" + "}" * 253],
)  # fmt: skip
def test_an_answer_may_be_256_levels_deep_and_no_deeper(deep: str, path: dict[str, Any]) -> None:
    """H10: object, list, item and 253 more."""
    with Paths(**path):
        fp(inside(deep))
        fp(f'{{"x":[[{deep}]]}}')
        for text in (inside(f"[{deep}]"), f'{{"x":[[[{deep}]]]}}'):
            with pytest.raises(Malformed, match="256 levels"):
                fp(text)


# -- questions ---------------------------------------------------------------------------------------------------------


def test_harmless_spellings_of_a_question_are_one() -> None:
    """L23: a string is one user message; a message item without `type` is a `message`."""
    question = "Hi?"
    same = [{"role": "user", "content": question}], [{"content": question, "type": "message", "role": "user"}]
    assert {question_fingerprint(each, "p") for each in (question, *same)} == {question_fingerprint(question, "p")}


@pytest.mark.parametrize(
    ("question", "principle"),
    [
        ("Hi", "p"),
        ("Hi?", None),
        ("Hi?", ""),
        ([{"role": "user", "content": [{"type": "input_text", "text": "Hi?"}]}], "p"),
        ([{"role": "system", "content": "Hi?"}], "p"),
        ([{"role": "user", "content": "Hi?", "type": None}], "p"),
        ([{"role": "user", "content": "Hi?", "id": 1}], "p"),
        ([{"content": "Hi?"}], "p"),
        ([{"role": "user", "content": "Hi?"}] * 2, "p"),
        ([], "p"),
        (["Hi?"], "p"),
    ],
)
def test_other_questions_have_other_fingerprints(question: object, principle: str | None) -> None:
    """L23: by value, principle included; nothing else is made one."""
    assert question_fingerprint(question, principle) != question_fingerprint("Hi?", "p")


def test_an_item_without_a_role_is_no_message() -> None:
    """L23: so it is not the same with the type of one."""
    untyped, typed = [{"content": "Hi?"}], [{"content": "Hi?", "type": "message"}]
    assert question_fingerprint(untyped, None) != question_fingerprint(typed, None)


def test_a_question_is_not_changed_by_taking_its_fingerprint() -> None:
    """L23: the type is added to a copy."""
    question = [{"role": "user", "content": "Hi?"}]
    question_fingerprint(question, None)
    assert question == [{"role": "user", "content": "Hi?"}]
