"""Reading `/verify` bodies."""

from __future__ import annotations

import json
import pickle
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.answers.fingerprint import answer_fingerprint, question_fingerprint
from groupjudge.answers.verify import VerifyRequest, read_verify, size_as_objects
from groupjudge.errors import InvalidRequest
from groupjudge.model import AnswerTexts, GroupId, Message, Topic, UnnamedKey

from .json_values import EVERY_PATH, Paths, answers, rngs, spell

ANSWER: dict[str, Any] = {
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "Paris."}], "ids": [1, 2]}]
}
BODY: dict[str, Any] = {
    "responses_create_params": {"input": "Capital?", "temperature": 1.0},
    "response": ANSWER,
    "_ng_group_id": "g",
    "_ng_rollout_index": 3,
}


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


def read(body: bytes | dict[str, Any], *, default_size: int = 16, max_size: int = 1024) -> VerifyRequest:
    return read_verify(encoded(body) if isinstance(body, dict) else body, default_size=default_size, max_size=max_size)


def with_fields(**fields: Any) -> dict[str, Any]:
    return {**BODY, **fields}


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in BODY.items() if name not in names}


def problems(body: bytes | dict[str, Any], **limits: int) -> list[tuple[str, str]]:
    """Where and of what kind the faults of a body are."""
    with pytest.raises(InvalidRequest) as raised:
        read(body, **limits)
    for problem in raised.value.problems:
        assert problem["loc"][0] == "body"
        assert 0 < len(problem["msg"]) < 200
    return [(".".join(map(str, problem["loc"][1:])), problem["type"]) for problem in raised.value.problems]


# -- what comes out ---------------------------------------------------------------------------------------------------


def test_a_body_gives_everything_the_service_needs() -> None:
    """H1: coordinates, texts, fingerprints, and where question and answer lie in the body."""
    body = encoded(BODY)
    request = read(body)
    arrival = request.arrival
    assert arrival.key == GroupId("g")
    assert (arrival.attempt, arrival.size, arrival.slot, arrival.member_id) == (0, 16, 3, None)
    assert arrival.material == AnswerTexts("Paris.", "")
    assert arrival.topic == Topic((Message("user", "Capital?"),), None)
    assert arrival.question == question_fingerprint("Capital?", None)
    assert arrival.answer == answer_fingerprint(encoded(ANSWER))
    assert json.loads(body[slice(*request.params)]) == BODY["responses_create_params"]
    assert json.loads(body[slice(*request.response)]) == ANSWER
    assert request.instance_config is None
    assert not request.is_unnamed


@given(answers, rngs, st.sampled_from(EVERY_PATH), st.booleans())
def test_any_answer_comes_out_as_it_went_in(answer: Any, rng: random.Random, path: dict[str, Any], bom: bool) -> None:
    """H2, L21: on every path the span holds the bytes that were sent; the fingerprint is that of the answer alone."""
    sent = spell(answer, rng).strip(" \t\n\r")
    question = spell([{"role": "user", "content": "Hi", "ids": [1, 2, 3], "x": answer}], rng)
    fields = [
        f'"responses_create_params":{{"input":{question},"n":[1,2,3]}}',
        f'"response":{sent}',
        '"_ng_group_size":1',
    ]
    fields += ['"extra":[1.5,[2]]', '"instance_config" : {"a":[1,2],"b":[[]]}']
    rng.shuffle(fields)
    body = (b"\xef\xbb\xbf" if bom else b"") + ("{" + ",".join(fields) + "}").encode()
    with Paths(**path):
        request = read(body)
    assert body[slice(*request.response)] == sent.encode()
    assert body[slice(*request.params)].startswith(b'{"input":')
    assert request.instance_config == b'{"a":[1,2],"b":[[]]}'
    assert request.arrival.answer == answer_fingerprint(sent.encode())
    assert request.arrival.question == question_fingerprint(json.loads(question, parse_int=_int), None)


def _int(text: str) -> int:
    return int(text)


def test_what_begins_like_the_answer_is_not_taken_for_it() -> None:
    """H2: however long the two are alike."""
    answer = {"output": [], "text": "a" * 1000, "end": 1}
    alike = {**answer, "end": 2}
    body = encoded({"reference": alike, "instance_config": {**answer, "x": alike}, **BODY, "response": answer})
    request = read(body)
    assert json.loads(body[slice(*request.response)]) == answer
    assert request.arrival.answer == answer_fingerprint(encoded(answer))
    assert request.instance_config == encoded({**answer, "x": alike})


def test_the_last_of_equal_keys_counts_everywhere() -> None:
    """H10: also where one of them is spelled with an escape, and whatever the first one holds."""
    body = (
        b'{"response":5,"_ng_rollout_index":"x","responses_create_params":[],"_ng_group_id":1,'
        b'"responses_create_params":{"input":3,"inpu\\u0074":"Hi"},"\\u005fng_group_id":"g",'
        b'"resp\\u006fnse":{"output":1,"output":[]},"_ng_rollout_index":2}'
    )
    for path in EVERY_PATH:
        with Paths(**path):
            request = read(body)
        assert (request.arrival.key, request.arrival.slot) == ("g", 2)
        assert request.arrival.topic == Topic((Message("user", "Hi"),))
        assert body[slice(*request.response)] == b'{"output":1,"output":[]}'


def test_instance_config_and_principle_are_kept() -> None:
    """H1, H4: as JSON text, and as a string that is part of the question."""
    request = read(with_fields(instance_config={"a": 1}, principle="be kind"))
    assert request.instance_config == b'{"a": 1}'
    assert request.arrival.topic == Topic((Message("user", "Capital?"),), "be kind")
    assert request.arrival.question == question_fingerprint("Capital?", "be kind")


def test_a_principle_may_hold_a_lone_surrogate() -> None:
    """H10: it is told from others like any string."""
    one, other = (read(with_fields(principle=text)).arrival.question for text in ("\ud800", "\ud801"))
    assert one != other


# -- coordinates ------------------------------------------------------------------------------------------------------

TWINS = [
    ("group_id", "b", "a", lambda arrival: arrival.key),
    ("group_attempt", 7, 1, lambda arrival: arrival.attempt),
    ("rollout_index", 5, 1, lambda arrival: arrival.slot),
    ("group_size", 9, 8, lambda arrival: arrival.size),
]


@pytest.mark.parametrize(("name", "one", "other", "of"), TWINS, ids=lambda each: str(each)[:14])
def test_of_a_field_and_its_twin_the_prefixed_one_counts_where_it_is_not_null(
    name: str, one: Any, other: Any, of: Any
) -> None:
    """H1: the other one is not even looked at."""
    base = without("_ng_group_id", "_ng_rollout_index") | {"_ng_group_id": "g", "_ng_rollout_index": 0}
    base.pop(f"_ng_{name}", None)
    assert of(read(base | {name: one}).arrival) == one
    assert of(read(base | {name: other, f"_ng_{name}": one}).arrival) == one
    assert of(read(base | {name: one, f"_ng_{name}": None}).arrival) == one
    assert of(read(base | {name: [None], f"_ng_{name}": one}).arrival) == one


@pytest.mark.parametrize(
    "name",
    ["principle", "_ng_group_id", "_ng_group_attempt", "_ng_group_size", "_ng_task_index", "prompt_id",
     "instance_config", "_ng_member_id", "group_id", "group_attempt", "rollout_index", "group_size", "task_index"],
)  # fmt: skip
def test_null_is_the_same_as_missing(name: str) -> None:
    """H1: for every optional field."""
    assert read(with_fields(**{name: None})).arrival == read(without(name)).arrival


def test_attempt_size_and_slot_have_their_defaults() -> None:
    """H1, L9: attempt 0, the configured size; a group of one needs no slot."""
    arrival = read(without("_ng_rollout_index"), default_size=1).arrival
    assert (arrival.attempt, arrival.size, arrival.slot) == (0, 1, 0)
    assert read(with_fields(_ng_rollout_index=0), default_size=1).arrival.slot == 0


@pytest.mark.parametrize(
    "value", ["true", '"1"', "1.0", "1e0", "-1", "16", "1E0", "[1]", "{}", "0.0", "-0.0", "9" * 5000]
)
def test_numbers_are_strict(value: str) -> None:
    """H10a: what is no integer of the range is no slot, at any size of the number."""
    text = encoded(without("_ng_rollout_index"))[:-1] + f', "_ng_rollout_index": {value}}}'.encode()
    assert problems(text) == [("_ng_rollout_index", "int_range")]


def test_minus_zero_is_zero() -> None:
    """L21: an integer, and the same one."""
    text = encoded(without("_ng_rollout_index"))[:-1] + b', "_ng_rollout_index": -0}'
    assert read(text).arrival.slot == 0


@pytest.mark.parametrize(
    ("field", "lowest", "highest"),
    [
        ("_ng_group_attempt", 0, 2**63 - 1),
        ("_ng_group_size", 4, 1024),
        ("_ng_rollout_index", 0, 15),
        ("_ng_task_index", -(2**63), 2**63 - 1),
    ],
)
def test_integers_have_their_bounds(field: str, lowest: int, highest: int) -> None:
    """H1: both bounds are allowed, one beyond is not."""
    for value in (lowest, highest):
        read(with_fields(**{field: value}))
    beyond = 0 if field == "_ng_group_size" else lowest - 1
    for value in (beyond, highest + 1):
        assert problems(with_fields(**{field: value})) == [(field, "int_range")]


def test_the_slot_is_judged_by_the_size_that_was_sent() -> None:
    """H1: 0 to N-1."""
    assert read(with_fields(_ng_group_size=4)).arrival.slot == 3
    assert problems(with_fields(_ng_group_size=3)) == [("_ng_rollout_index", "int_range")]
    assert problems(with_fields(_ng_group_size=1)) == [("_ng_rollout_index", "int_range")]


def test_a_slot_is_required_where_there_is_more_than_one() -> None:
    """H1, L9."""
    assert problems(without("_ng_rollout_index")) == [("_ng_rollout_index", "missing")]
    assert problems(without("_ng_rollout_index"), default_size=2) == [("_ng_rollout_index", "missing")]


def test_a_member_id_may_stand_in_for_the_slot() -> None:
    """A3: where it came, an index counts for nothing."""
    arrival = read(without("_ng_rollout_index") | {"_ng_member_id": "m"}).arrival
    assert (arrival.slot, arrival.member_id) == (None, "m")
    assert read(with_fields(_ng_member_id="m")).arrival.slot is None
    assert read(with_fields(_ng_member_id="m", _ng_rollout_index=99)).arrival.slot is None
    alone = read(without("_ng_rollout_index") | {"_ng_member_id": "m"}, default_size=1).arrival
    assert (alone.slot, alone.member_id) == (0, "m")


@pytest.mark.parametrize("field", ["_ng_group_id", "_ng_member_id"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [("", "string_length"), ("x" * 513, "string_length"), ("\ud800", "string_unicode"), (1, "string_type"),
     ([], "string_type")],
    ids=str,
)  # fmt: skip
def test_ids_that_are_none(field: str, value: Any, kind: str) -> None:
    """H1: 1 to 512 characters, no lone surrogate."""
    base = without("_ng_rollout_index") | {"_ng_member_id": "m"}
    assert problems(base | {field: value}) == [(field, kind)]


@pytest.mark.parametrize("value", ["x" * 512, "\U0001f600" * 512, " g ", "e\u0301", "\x00", "\ufeff"])
def test_ids_are_taken_as_they_come(value: str) -> None:
    """H1: characters are code points; nothing is trimmed or normalised."""
    assert read(with_fields(_ng_group_id=value)).arrival.key == value


def test_a_group_without_an_id_is_known_by_what_else_there_is() -> None:
    """L20: the task index, else the prompt id, else nothing, with the question and the attempt."""
    base = without("_ng_group_id") | {"_ng_group_attempt": 2}
    question = read(base).arrival.question
    assert read(base).arrival.key == UnnamedKey("question", None, question, 2)
    assert read(base | {"prompt_id": "p"}).arrival.key == UnnamedKey("prompt", "p", question, 2)
    assert read(base | {"prompt_id": "p", "_ng_task_index": 0}).arrival.key == UnnamedKey("task", 0, question, 2)
    assert read(base | {"prompt_id": "p", "task_index": 4}).arrival.key == UnnamedKey("task", 4, question, 2)
    assert read(base).is_unnamed
    assert read(BODY | {"prompt_id": "p", "_ng_task_index": 0}).arrival.key == "g"


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"response": None}, ("response", "missing")),
        ({"response": []}, ("response", "dict_type")),
        ({"response": "{}"}, ("response", "dict_type")),
        ({"response": {}}, ("response.output", "missing")),
        ({"response": {"output": None}}, ("response.output", "missing")),
        ({"response": {"output": {}}}, ("response.output", "list_type")),
        ({"response": {"output": "[]"}}, ("response.output", "list_type")),
        ({"responses_create_params": None}, ("responses_create_params", "missing")),
        ({"responses_create_params": "x"}, ("responses_create_params", "dict_type")),
        ({"responses_create_params": {}}, ("responses_create_params.input", "missing")),
        ({"responses_create_params": {"input": None}}, ("responses_create_params.input", "missing")),
        ({"responses_create_params": {"input": {}}}, ("responses_create_params.input", "list_type")),
        ({"responses_create_params": {"input": 1}}, ("responses_create_params.input", "list_type")),
        ({"responses_create_params": {"input": [{}, "x"]}}, ("responses_create_params.input.1", "dict_type")),
        ({"responses_create_params": {"input": [None]}}, ("responses_create_params.input.0", "dict_type")),
        ({"instance_config": []}, ("instance_config", "dict_type")),
        ({"instance_config": "x"}, ("instance_config", "dict_type")),
        ({"principle": 1}, ("principle", "string_type")),
        ({"prompt_id": 1}, ("prompt_id", "string_type")),
        ({"prompt_id": "x" * 4097}, ("prompt_id", "string_length")),
    ],
    ids=str,
)
def test_a_missing_or_mistyped_field_is_named(change: dict[str, Any], found: tuple[str, str]) -> None:
    """H1, H5: with its place and its kind."""
    assert problems(with_fields(**change)) == [found]


def test_required_objects_are_missed() -> None:
    """H1: both at once."""
    assert problems({"_ng_rollout_index": 0}) == [("response", "missing"), ("responses_create_params", "missing")]


@pytest.mark.parametrize(
    "output",
    [
        [],
        [[]],
        [1, 2],
        [1.5],
        [[1], [2, []]],
        [None, 3, "x", [], {}],
        [{"type": 5, "content": 7}],
        [{"content": [1, 2]}],
    ],
    ids=str,
)
def test_what_items_hold_is_not_checked(output: list[Any]) -> None:
    """H1: an output of anything is an output."""
    for path in EVERY_PATH:
        with Paths(**path):
            assert read(with_fields(response={"output": output})).arrival.material == AnswerTexts("None", "")


def test_several_faults_are_told_at_once_but_not_without_end() -> None:
    """H5, H10a: the list is bounded."""
    found = problems(with_fields(_ng_group_id=1, _ng_group_attempt=-1, principle=[], response={}))
    assert found == [
        ("response.output", "missing"),
        ("principle", "string_type"),
        ("_ng_group_id", "string_type"),
        ("_ng_group_attempt", "int_range"),
    ]
    assert len(problems(with_fields(responses_create_params={"input": [1] * 1000}))) == 16


def test_a_refusal_quotes_no_value() -> None:
    """H10a: error replies never echo the body."""
    secret = "only-the-caller-knows"
    body = with_fields(_ng_group_id=[secret], principle={secret: 1}, _ng_group_size=secret, prompt_id=secret * 500)
    for text in (encoded(body), encoded(body)[:-5], b"{" + secret.encode(), encoded([secret])):
        with pytest.raises(InvalidRequest) as raised:
            read(text)
        assert secret not in str(raised.value) + str(raised.value.problems)


@pytest.mark.parametrize("body", [b"[]", b"1", b'"x"', b"null", b" [1] ", b'["' + b"x" * 5000 + b'"]', b"NaN"])
def test_a_body_that_is_no_object_is_refused_as_such(body: bytes) -> None:
    """H5."""
    assert problems(body) == [("", "dict_type")]


# -- cost --------------------------------------------------------------------------------------------------------------


def test_what_was_read_can_be_sent_to_another_process() -> None:
    """H11: whole, by pickle."""
    request = read(with_fields(instance_config={"a": 1}, principle="\ud800"))
    assert pickle.loads(pickle.dumps(request)) == request


def test_how_much_of_a_body_must_become_objects_is_known_before() -> None:
    """H11: its long arrays need not."""
    small, large = (with_fields(response={"output": [{"x": [1.5] * count}]}) for count in (1, 100_000))
    assert size_as_objects(encoded(large)) - size_as_objects(encoded(small)) < 100
    objects = with_fields(response={"output": [{"x": [{"a": 1.5}] * 10_000}]})
    assert size_as_objects(encoded(objects)) == len(encoded(objects))
