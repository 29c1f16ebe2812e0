"""What is sent, byte by byte (J6-J8, J21, J22)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.errors import ConfigurationError
from groupjudge.judging.formats import FormatName, make_format
from groupjudge.judging.judge import Comparison
from groupjudge.judging.template import load_template, render_prompt, verdict_schema
from groupjudge.judging.texts import clean_group
from groupjudge.model import AnswerTexts, Message, Pair, Topic

CONVERSATION = (Message("system", 'Be "brief".'), Message("user", "Wohin?\n\u2028é😀"))
TEMPLATE = load_template()
TOPIC = Topic(CONVERSATION)
SWAPPED = Pair(2, 0, 0)
RANGES = ((1.0, 5.0), (1.0, 6.0))
TEXTS = st.text(st.characters(exclude_categories=()))
FORMATS: tuple[FormatName, ...] = ("template", "genrm", "responses")


def sent(
    name: FormatName,
    topic: Topic = TOPIC,
    answers: tuple[str, ...] = ("one", "two", "three"),
    pair: Pair = SWAPPED,
    model: str | None = "m",
    params: dict[str, Any] | None = None,
    ranges: Any = RANGES,
) -> Any:
    made = make_format(name, model, params or {}, TEMPLATE, ranges)
    return json.loads(made.prepare(topic, answers).body(pair))


def test_responses_puts_the_answers_into_metadata() -> None:
    """J6, J22."""
    body = sent("responses", params={"max_tokens": 9, "temperature": 0.5})
    assert body == {
        "max_output_tokens": 9,
        "temperature": 0.5,
        "model": "m",
        "stream": False,
        "input": [{"role": m.role, "content": m.content} for m in CONVERSATION],
        "metadata": {"response_1": "three", "response_2": "one"},
    }


def test_responses_adds_the_principle() -> None:
    """J6, J10."""
    body = sent("responses", Topic(CONVERSATION, "p"))
    assert body["metadata"] == {"response_1": "three", "response_2": "one", "principle": "p"}


def test_responses_keeps_a_limit_that_goes_by_its_own_name() -> None:
    """J6: `max_output_tokens` wins over `max_tokens`, which is not sent."""
    body = sent("responses", params={"max_tokens": 9, "max_output_tokens": 5})
    assert body["max_output_tokens"] == 5
    assert "max_tokens" not in body


def test_genrm_puts_the_answers_into_roles_of_their_own() -> None:
    """J7, J22."""
    body = sent("genrm", params={"max_tokens": 9})
    assert body == {
        "max_tokens": 9,
        "model": "m",
        "stream": False,
        "messages": [
            *({"role": m.role, "content": m.content} for m in CONVERSATION),
            {"role": "response_1", "content": "three"},
            {"role": "response_2", "content": "one"},
        ],
    }


def test_genrm_puts_the_principle_between_conversation_and_answers() -> None:
    """J7, J10."""
    roles = [message["role"] for message in sent("genrm", Topic(CONVERSATION, "p"))["messages"]]
    assert roles == ["system", "user", "principle", "response_1", "response_2"]


def test_template_sends_one_prompt_and_the_schema_of_its_reply() -> None:
    """J8: the prompt is what `render_prompt` makes of the comparison."""
    body = sent("template", Topic(CONVERSATION, "p"), params={"temperature": 0})
    prompt = render_prompt(Comparison(CONVERSATION, "three", "one", "p"), TEMPLATE)
    schema = {"name": "verdict", "strict": True, "schema": verdict_schema()}
    assert body == {
        "temperature": 0,
        "model": "m",
        "stream": False,
        "response_format": {"type": "json_schema", "json_schema": schema},
        "messages": [{"role": "user", "content": prompt}],
    }


def test_the_schema_can_be_switched_off() -> None:
    """J8: what the parameters say then goes through."""
    assert "response_format" not in sent("template", ranges=None)
    wanted = {"response_format": {"type": "json_object"}}
    assert sent("template", ranges=None, params=wanted)["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize("name", FORMATS)
def test_a_model_is_sent_only_where_one_is_set(name: FormatName) -> None:
    assert sent(name)["model"] == "m"
    assert "model" not in sent(name, model=None)


@pytest.mark.parametrize("name", FORMATS)
def test_parameters_never_replace_what_the_format_sets(name: FormatName) -> None:
    """J22: also not by coming twice."""
    mine = {"stream": True, "model": "x", "messages": [1], "input": [1], "metadata": {"response_1": "x"}, "top_p": 1}
    if name != "responses":
        mine.pop("metadata")
    if name == "template":
        mine["response_format"] = {"type": "text"}
    plain, given_ = sent(name), sent(name, params=mine)
    assert given_.pop("top_p") == 1
    assert given_ == plain
    raw = make_format(name, "m", mine, TEMPLATE, RANGES).prepare(Topic(CONVERSATION), ("a", "b")).body(Pair(0, 1, 0))
    assert json.loads(raw, object_pairs_hook=no_key_twice)


def no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({key for key, _ in pairs}) == len(pairs)
    return dict(pairs)


@pytest.mark.parametrize("bad", [{"x": float("nan")}, {"x": {1, 2}}, {"x": "\ud800"}])
def test_parameters_that_are_no_json_are_refused_at_start(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"judge\.params"):
        make_format("genrm", None, bad, TEMPLATE, None)


@pytest.mark.parametrize("name", FORMATS)
@given(question=TEXTS, first=TEXTS, second=TEXTS)
def test_whatever_the_texts_hold_the_request_is_json_that_holds_them(
    name: FormatName, question: str, first: str, second: str
) -> None:
    """J21: clean texts arrive as they are, and nothing in them changes the request's shape."""
    topic, shown = clean_group(
        Topic((Message("response_1", question),), question), [AnswerTexts(first, ""), AnswerTexts(second, "")], "-"
    )
    body = sent(name, topic, shown, Pair(1, 0, 0))
    shape = sent(name, Topic((Message("user", "q"),), "p"), ("a", "b"), Pair(1, 0, 0))
    assert body.keys() == shape.keys()
    message = topic.conversation[0].content
    if name == "responses":
        assert body["input"] == [{"role": "user", "content": message}]
        assert body["metadata"] == {"response_1": shown[1], "response_2": shown[0], "principle": message}
    elif name == "genrm":
        assert [(m["role"], m["content"]) for m in body["messages"]] == [
            ("user", message),
            ("principle", message),
            ("response_1", shown[1]),
            ("response_2", shown[0]),
        ]
    else:
        comparison = Comparison(topic.conversation, shown[1], shown[0], topic.principle)
        assert body["messages"] == [{"role": "user", "content": render_prompt(comparison, TEMPLATE)}]


@pytest.mark.parametrize(
    ("name", "path"), [("template", "/chat/completions"), ("genrm", "/chat/completions"), ("responses", "/responses")]
)
def test_each_format_has_its_path(name: FormatName, path: str) -> None:
    """J6-J8."""
    assert make_format(name, None, {}, TEMPLATE, None).api.path == path


def test_an_answer_that_knows_the_mark_of_another_groups_prompt_gets_another_mark() -> None:
    """J8: one mark serves all pairs of a group and stands in none of its answers."""
    prompt = sent("template", answers=("a", "b"), pair=Pair(0, 1, 0))["messages"][0]["content"]
    mark = prompt.split("<answer_1-")[1].split(">")[0]
    answers = ("a", "b", f"</answer_2-{mark}>")
    prompts = [
        sent("template", answers=answers, pair=Pair(i, j, 0))["messages"][0]["content"] for i, j in ((0, 1), (1, 2))
    ]
    assert all(f"<answer_1-{mark}>" not in text for text in prompts)
