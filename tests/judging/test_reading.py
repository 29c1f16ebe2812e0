import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.judging.reading import MAX_REPLY_BYTES, ReadingRules, read_verdict
from groupjudge.model import Reading

CASES = json.loads((Path(__file__).parents[1] / "cases" / "verdicts.json").read_text("utf-8"))
RULES = ReadingRules()

FIRST = '{"score_1": 5, "score_2": 1, "ranking": 1}'
SECOND = '{"score_1": 2, "score_2": 4, "ranking": 6}'
IS_FIRST = Reading(5.0, 1.0, 1.0)
IS_SECOND = Reading(2.0, 4.0, 6.0)


def reading(text: str, rules: ReadingRules = RULES) -> Reading | None:
    result = read_verdict(text, rules)
    assert (result.reading is None) == bool(result.problem)
    return result.reading


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_shared_cases_are_read_as_they_should(case: dict[str, Any]) -> None:
    """J11."""
    result = reading(case["text"])
    assert (result._asdict() if result else None) == case["expect"]


# Where the verdict is looked for


@pytest.mark.parametrize("whole", [FIRST, f"[{FIRST}]", f"\n {FIRST}\n", f"\ufeff{FIRST}"])
def test_a_text_that_is_json_is_that(whole: str) -> None:
    """J11."""
    assert reading(whole) == IS_FIRST


def test_think_tags_inside_a_text_that_is_json_are_text() -> None:
    """J11: it is read before any think tag is looked for."""
    assert reading('{"why": "it says </think> and <think>", ' + FIRST[1:]) == IS_FIRST
    assert reading('[{"why": "it says </think>", ' + FIRST[1:] + "]") == IS_FIRST
    assert reading('\ufeff{"why": "it says </think>", ' + FIRST[1:]) == IS_FIRST


@pytest.mark.parametrize(
    "text",
    [
        f'{{"why": "</think> {FIRST}"}}'.replace(FIRST, FIRST.replace('"', '\\"')),
        f'{{"overall": 5, "draft": {FIRST}}}',
        f"[{FIRST}, {SECOND}]",
        f"[4, {FIRST}]",
        f"[[{FIRST}]]",
        "[]",
        "{}",
        f'{{"verdict": {FIRST}}}',
        f'{{"rubric": [{FIRST}]}}',
    ],
)
def test_in_a_text_that_is_json_nothing_else_is_looked_for(text: str) -> None:
    """J11."""
    assert reading(text) is None


def test_json_with_a_repair_in_it_is_not_json_as_it_is() -> None:
    """J11: here the thinking ends in a comment, so the object is none before its think tag is gone."""
    assert reading(f"{FIRST[:-1]} # draft </think>\n{SECOND}") == IS_SECOND
    assert reading(f"{FIRST[:-1]} # draft </think>\n" + "}") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<think>{FIRST}</think>{SECOND}", IS_SECOND),
        (f"{FIRST}</think>{SECOND}", IS_SECOND),
        (f"<think>a</think>{FIRST}<think>b</think>{SECOND}", IS_SECOND),
        (f"<think>a</think>{FIRST}<think>{SECOND}", IS_FIRST),
        (f"x {FIRST}<think>{SECOND}<think>", IS_FIRST),
        (f"<think><think>{FIRST}</think>{SECOND}", IS_SECOND),
        (f"{FIRST}</think>", None),
        (f"<think>{FIRST}", None),
        (f"```json\n{FIRST}\n```</think>{SECOND}", IS_SECOND),
    ],
)
def test_thinking_is_dropped(text: str, expected: Reading | None) -> None:
    """J11: up to the last closing tag, and from an opening one that is never closed."""
    assert reading(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"```json\n{FIRST}\n```\n{SECOND}", IS_FIRST),
        (f"{SECOND}\n```{FIRST}```", IS_FIRST),
        (f"```\n{FIRST}\n```\n```\n{SECOND}\n```", IS_SECOND),
        (f"```\n{FIRST}\n{SECOND}\n```\n{FIRST}", IS_SECOND),
        (f"```\n{FIRST}\n```\n```\nno verdict {{}}\n```\n{SECOND}", IS_FIRST),
        (f"```\nno verdict\n```\n{SECOND}", IS_SECOND),
        (f"{SECOND}\n```json\n{FIRST}", IS_FIRST),
        (f"{SECOND}\n````\n```\n{FIRST}\n````\n{SECOND}", IS_FIRST),
        (f"````\nx\n```\n````\n{FIRST}\n```\n{SECOND}\n```", IS_SECOND),
        (f"```\nx\n`````\n{FIRST}\n```\n{SECOND}\n```", IS_SECOND),
        (f"`` {FIRST} `` {SECOND}", IS_SECOND),
        ("```\n" + FIRST[:-1] + "\n```\n" + SECOND, IS_FIRST),
    ],
)
def test_fenced_blocks_come_before_what_is_outside(text: str, expected: Reading) -> None:
    """J11."""
    assert reading(text) == expected


@pytest.mark.parametrize("around", ["{}", "My verdict: {}.", "```json\n{}\n```", "```json\n{}"])
@pytest.mark.parametrize(
    "held", ["```json", "``` {", "}", "{", "[{", '\\"}', f"```\n{SECOND}\n```".replace('"', '\\"')]
)
def test_braces_and_fences_in_strings_are_text(around: str, held: str) -> None:
    """J11."""
    text = around.replace("{}", f'{{"why": "{held}", {FIRST[1:]}')
    assert reading(text) == IS_FIRST


@pytest.mark.parametrize(
    "text",
    [
        rf"\boxed{{{FIRST}}}",
        f"the sets {{a, b}} and {{ and }}: {FIRST}",
        f"see [1] and [the note {FIRST}]",
        f"[{FIRST} is my verdict]",
        f'Verdict: "{FIRST}"',
        f"{FIRST} but {{'not this': 1}} nor [2]",
        f"{{{{{FIRST}}}}}",
        f'{{"score_1": 1, oops, again: {FIRST}',
    ],
)
def test_brackets_of_prose_hide_no_verdict(text: str) -> None:
    """J11: the last valid JSON object in the text."""
    assert reading(text) == IS_FIRST


@pytest.mark.parametrize(
    "text",
    [
        f'Result: {{"draft": {FIRST}}}',
        f'Result: {{"draft": {FIRST}, "score_1": 2 "score_2": 4}}',
        f'Result: {{"score_1": 2 "score_2": 4, "draft": {FIRST}}}',
        f'Result: {{"draft": {FIRST}, "score_1": 2, "score_2":',
        f'Result: {{"score_1": 2 "draft" : {FIRST}, "score_2":',
        f"Result: {{draft: {FIRST}, score_1: 2}}",
        f'"score_1": 2, "draft": {FIRST}, "score_2": 4}}',
        f"Result: [{FIRST}, {SECOND}]",
        f'Result: {{"a": 1, "a": 2, "draft": {FIRST}}}',
    ],
)
def test_a_part_of_another_object_is_no_verdict(text: str) -> None:
    """J11: be that object valid, broken or cut off: its parts are about something else."""
    assert reading(text) is None


def test_lists_and_overall_objects_hold_a_verdict() -> None:
    """J11."""
    assert reading(f"So: [{FIRST}]") == IS_FIRST
    assert reading(f'So: {{"score_1": 1, "overall": {FIRST}}}') == IS_FIRST
    assert reading(f'[{{"overall": {FIRST}}}]') == IS_FIRST
    assert reading(f'{{"overall": {{"overall": {FIRST}}}}}') == IS_FIRST


@pytest.mark.parametrize("overall", ['"good"', "5", "false", "{}", f"[{FIRST}]", '{"score_1": 4}', '""', "0", "[]"])
def test_an_overall_that_is_no_verdict_makes_the_whole_none(overall: str) -> None:
    """J11."""
    assert reading(f'{{"overall": {overall}, {FIRST[1:]}') is None


# Which of several


@pytest.mark.parametrize(
    "text",
    [
        f"{FIRST} {SECOND}",
        f"{FIRST} {SECOND} {SECOND}",
        f"```\n{FIRST}\n``` {SECOND}",
        f"{FIRST} ```\n{SECOND}\n```",
        f"```\n{FIRST}\n{SECOND}\n```",
        f"[{FIRST}] {{'overall': {SECOND}}}",
    ],
)
def test_differing_verdicts_are_ambiguous(text: str) -> None:
    """J11: `last` takes the last, those in fences before others; `retry` takes none."""
    taken = read_verdict(text, RULES)
    assert taken.ambiguous
    assert taken.reading in (IS_FIRST, IS_SECOND)
    refused = read_verdict(text, ReadingRules(on_conflict="retry"))
    assert refused == (None, True, "the reply holds verdicts that differ")


@pytest.mark.parametrize(
    "text",
    [
        f"{FIRST} {FIRST}",
        f'{FIRST} and once more {{"score_2": "1.0", "score_1": 5.0, "ranking": 1e0}}',
        f"<think>{SECOND}</think>{FIRST}",
        f'{FIRST} {{"score_1": 9, "score_2": 1, "ranking": 1}}',
        f'{FIRST} {{"why": {SECOND}}}',
    ],
)
@pytest.mark.parametrize("on_conflict", ["last", "retry"])
def test_equal_verdicts_and_what_is_none_are_not_ambiguous(text: str, on_conflict: Any) -> None:
    """J11."""
    assert read_verdict(text, ReadingRules(on_conflict=on_conflict)) == (IS_FIRST, False, "")


# What is in it


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("4", 4.0),
        ("4.0", 4.0),
        ("3.25", 3.25),
        ("1", 1.0),
        ("5", 5.0),
        ("40e-1", 4.0),
        ('"4"', 4.0),
        ('"3.5"', 3.5),
        ('"04"', 4.0),
        ('"\\u0034"', 4.0),
        ("4." + "0" * 5_000, 4.0),
        ('"' + "0" * 5_000 + '4"', 4.0),
    ],
)
def test_numbers_and_plain_decimal_strings_are_numbers(value: str, number: float) -> None:
    """J11."""
    assert reading(f'{{"score_1": {value}, "score_2": 1}}') == Reading(number, 1.0, 3.5)
    assert reading(f'{{"score_1": 1, "score_2": {value}}}') == Reading(1.0, number, 3.5)
    assert reading(f'{{"score_1": 1, "score_2": 1, "ranking": {value}}}') == Reading(1.0, 1.0, number)


@pytest.mark.parametrize(
    "value",
    [
        *("true", "false", "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 5_000, "0.999", "5e9", "-4"),
        *('"4/5"', '"four"', '""', '" 4"', '"4 "', '"4\\n"', '"+4"', '"4."', '".4"', '"1e0"', '"1_0"', '"0x4"', '"４"'),
        *(
            '"٤"',
            '"nan"',
            '"inf"',
            '"4,0"',
            '"true"',
            '"null"',
            '"-4"',
            '"6.1"',
            "[4]",
            "{}",
            "[]",
            '{"value": 4}',
            "4/5",
        ),
    ],
)
@pytest.mark.parametrize("name", ["score_1", "score_2", "ranking"])
def test_anything_else_makes_the_object_invalid(name: str, value: str) -> None:
    """J11: also a ranking, for which a default stands in only where it is missing."""
    others = {"score_1": "1", "score_2": "1", "ranking": "1"} | {name: value}
    assert reading("{" + ", ".join(f'"{key}": {held}' for key, held in others.items()) + "}") is None


@pytest.mark.parametrize("missing", ["", ', "ranking": null', ', "Ranking": 1', ', "rank": 1'])
def test_a_missing_ranking_is_the_default_one(missing: str) -> None:
    """J11: null is missing. The default need not be in the range."""
    rules = ReadingRules(default_ranking=0.0)
    assert reading(f'{{"score_1": 4, "score_2": 2{missing}}}', rules) == Reading(4.0, 2.0, 0.0)


@pytest.mark.parametrize("score", ["score_1", "score_2"])
@pytest.mark.parametrize("rest", ["", ": null"])
def test_both_scores_must_be_there(score: str, rest: str) -> None:
    """J11."""
    other = "score_2" if score == "score_1" else "score_1"
    held = f', "{score}"{rest}' if rest else ""
    assert read_verdict(f'{{"{other}": 3, "ranking": 3{held}}}', RULES) == (None, False, f"{score} is missing")


@pytest.mark.parametrize(
    ("score", "ranking", "fits"),
    [
        (0.0, 2.0, True),
        (10.0, 3.0, True),
        (-0.01, 2.0, False),
        (10.01, 2.0, False),
        (5.0, 1.99, False),
        (5.0, 3.1, False),
    ],
)
def test_ranges_are_those_of_the_rules_and_include_their_ends(score: float, ranking: float, fits: bool) -> None:
    """J11: nothing is clamped."""
    rules = ReadingRules(score_range=(0.0, 10.0), ranking_range=(2.0, 3.0))
    for text in (
        json.dumps({"score_1": score, "score_2": 5, "ranking": ranking}),
        json.dumps({"score_1": 5, "score_2": score, "ranking": ranking}),
    ):
        assert (reading(text, rules) is not None) is fits


def test_without_ranges_any_finite_number_is_read() -> None:
    """H12."""
    rules = ReadingRules(score_range=None, ranking_range=None)
    text = '{"score_1": -1e300, "score_2": "-0.5", "ranking": 12345678901234567890}'
    assert reading(text, rules) == Reading(-1e300, -0.5, 12345678901234567890.0)
    assert reading('{"score_1": 1e999, "score_2": 1}', rules) is None
    assert reading('{"score_1": 1, "score_2": 1, "ranking": NaN}', rules) is None


@pytest.mark.parametrize(
    "twice", ['"score_1": 5', '"why": "a", "why": "a"', '"\\u0072anking": 1', '"n": {"a": 1, "a": 1}']
)
def test_a_key_that_comes_twice_makes_the_object_invalid(twice: str) -> None:
    """J11."""
    assert read_verdict(f"{FIRST[:-1]}, {twice}}}", RULES) == (None, False, "a key comes twice")


# Repairs


@pytest.mark.parametrize(
    "text",
    [
        FIRST[:-1] + ",}",
        FIRST.replace('"', "'"),
        FIRST.replace(' "', " “").replace('":', "”:").replace('{"', "{“"),
        FIRST.replace(",", ", // so it is\n"),
        FIRST.replace(",", ", /* so it is */"),
        FIRST.replace(",", ", # so it is\n"),
        '{"why": "two\nlines\r\nand a\ttab", ' + FIRST[1:],
        FIRST[:-1],
        f'{{"overall": {FIRST}',
        "{'why': \"it's\", " + FIRST[1:-1] + ",}",
    ],
)
@pytest.mark.parametrize("around", ["{}", "So:\n{}", "```json\n{}\n```", "```\n{}"])
def test_what_needs_no_guess_is_repaired(text: str, around: str) -> None:
    """J11."""
    assert reading(around.replace("{}", text)) == IS_FIRST


@pytest.mark.parametrize(
    "text",
    [
        '{"score_1": 5 "score_2": 1, "ranking": 1}',
        '{"score_1": 5, "score_2": 1, "ranking": }',
        '{"score_1": 5, "score_2": , "ranking": 1}',
        "{score_1: 5, score_2: 1, ranking: 1}",
        '{"score_1": 5 of 5, "score_2": 1, "ranking": 1}',
        '{"score_1": 4/5, "score_2": 1, "ranking": 1}',
        '{"score_1": 5-, "score_2": 1, "ranking": 1}',
        '{"score_1": 1,5, "score_2": 1, "ranking": 1}',
        '{"score_1": 5; "score_2": 1; "ranking": 1}',
        '{"score_1" = 5, "score_2" = 1, "ranking" = 1}',
        '{"why": "he said "5"", "score_1": 5, "score_2": 1, "ranking": 1}',
        '"score_1": 5, "score_2": 1, "ranking": 1}',
        '("score_1": 5, "score_2": 1, "ranking": 1)',
        # Cut off: what came next is not known.
        '{"score_1": 5, "score_2": 1',
        '{"score_1": 5, "score_2": 1, "ranking": null',
        '{"score_1": 5, "score_2": 1,',
        '{"score_1": 5, "score_2": 1, "ranking": 1,',
        '{"score_1": 5, "score_2": 1, "ranking": 1, "why": "bec',
        '{"overall": {"score_1": 5, "score_2": 1, "ranking": 1',
        '{"score_1": 5, "score_2": 1, "ranking": 1\nThat is all.',
    ],
)
def test_what_needs_a_guess_is_not_read(text: str) -> None:
    """J11."""
    assert reading(text) is None


# Whatever it holds


@pytest.mark.parametrize(
    ("filler", "fits"), [("x", MAX_REPLY_BYTES), ("é", MAX_REPLY_BYTES // 2), ("\ud800", MAX_REPLY_BYTES // 3)]
)
def test_a_reply_is_read_up_to_one_mebibyte_of_utf8(filler: str, fits: int) -> None:
    """J11: counted in bytes, a lone surrogate as three."""
    room = (MAX_REPLY_BYTES - len(FIRST)) // (MAX_REPLY_BYTES // fits)
    assert reading(filler * room + FIRST) == IS_FIRST
    result = read_verdict(filler * (room + 1) + FIRST, RULES)
    assert result == (None, False, "the reply is longer than 1048576 bytes")


@pytest.mark.parametrize("piece", ["{", "}", "[ ] ", '"', "'", "```", "{ ", "<think", "\\"])
def test_a_verdict_after_thousands_of_open_brackets_or_quotes_is_read(piece: str) -> None:
    """J11."""
    assert reading(piece * 20_000 + " " + FIRST) == IS_FIRST


@pytest.mark.parametrize("piece", ['{"a":', "[", '["', '{"', "{'a':", '{"a":[', '{"a":x'])
def test_thousands_of_open_objects_and_lists_end_in_no_verdict(piece: str) -> None:
    """J11: what stands inside all of them is a part of a broken object, or too tangled."""
    assert reading(piece * 20_000 + FIRST) is None


def test_many_snippets_that_are_never_closed_do_not_hide_a_verdict() -> None:
    """J11: what was once seen to be open to the end is not looked through again, so the work stays small."""
    assert reading('{"a": x, ' * 100 + "and so on, " * 2_000 + FIRST) == IS_FIRST


def test_the_search_for_the_end_of_a_wreck_ends_with_its_fenced_block() -> None:
    """J11: it costs no more than that block, however long the text behind it is."""
    assert reading('```\n{"a": x\n```\n' * 100 + "and so on, " * 2_000 + FIRST) == IS_FIRST


def test_thinking_that_is_tangled_spoils_nothing() -> None:
    """J11: it is dropped."""
    assert reading("[" * 20_000 + f"</think>{FIRST}") == IS_FIRST


def test_a_text_too_tangled_is_unreadable_even_where_a_verdict_was_found() -> None:
    """J11: a later one might have differed."""
    text = FIRST + ("[" * 90 + '"' + "a" * 2_000 + '" x') * 20
    assert read_verdict(text, RULES) == (None, False, "the reply is too tangled to be read")


fragments = st.lists(
    st.sampled_from(
        (
            *(
                "{",
                "}",
                "[",
                "]",
                ":",
                ",",
                '"',
                "'",
                "“",
                "”",
                "`",
                "```",
                "```json\n",
                "\n",
                " ",
                "\\",
                '\\"',
                "//",
                "/*",
                "*/",
            ),
            *(
                '"score_1"',
                '"score_2"',
                '"ranking"',
                '"overall"',
                "4",
                "4/5",
                "1e999",
                "NaN",
                "true",
                "null",
                "\ud800",
                "\0",
            ),
            *("<think>", "</think>", "#", FIRST, SECOND, FIRST[:-1], '{"a":', "'it's'", "score_1", "-", ".", "é"),
        )
    ),
    max_size=40,
).map("".join)


@given(fragments | st.text(), st.sampled_from(["last", "retry"]))
def test_no_text_raises_and_no_number_is_invented(text: str, on_conflict: Any) -> None:
    """J11: what is read is in range, and one of the numbers that stand in the text."""
    result = read_verdict(text, ReadingRules(on_conflict=on_conflict))
    assert result == read_verdict(text, ReadingRules(on_conflict=on_conflict))
    assert (result.reading is None) == bool(result.problem)
    if result.reading:
        assert {*result.reading} <= {1.0, 2.0, 4.0, 5.0, 6.0, 3.5}
        assert "score_1" in text
    assert len(result.problem) < 100


grades = st.sampled_from([1, 2, 3, 4, 5, 1.5, 4.25]) | st.floats(1, 5)
rankings = st.integers(1, 6) | st.floats(1, 6)
prose = st.lists(
    st.sampled_from(
        ["The first ", "is {better} ", "\\frac{a}{b} ", "[1] ", "it's ", '"quoted" ', "{x} ", "é✅ ", "\n", "} ", "` "]
    )
).map("".join)


@st.composite
def verdicts(draw: st.DrawFn) -> tuple[Reading, str]:
    """A reading and a JSON text of it: keys in any order, among others, numbers as numbers or as strings."""
    values = Reading(draw(grades), draw(grades), draw(rankings))
    held: list[tuple[str, object]] = [
        (name, str(number) if draw(st.booleans()) and "e" not in str(number) else number)
        for name, number in values._asdict().items()
    ]
    held += [
        ("why", draw(st.text() | fragments)),
        ("rubric", draw(st.just([{"score_1": 1, "score_2": 5}]) | st.none())),
    ]
    return values, json.dumps(dict(draw(st.permutations(held))), ensure_ascii=draw(st.booleans()))


WRAPPERS = ["{}", "[{}]", '{"overall": {}}', '{"score_1": 1, "overall": {}, "score_2": 5}', '[{"overall": {}}]']
PLACES = ["{}", "```json\n{}\n```", "```\n{}\n```", "````\n{}\n````", "```json {}```", "**{}**", "```json\n{}"]


@given(verdicts(), st.sampled_from(WRAPPERS), st.sampled_from(PLACES), prose, prose, st.booleans())
def test_a_verdict_is_read_back_out_of_whatever_is_around_it(
    verdict: tuple[Reading, str], wrapper: str, place: str, before: str, after: str, thinks: bool
) -> None:
    """J11."""
    values, text = verdict
    text = place.replace("{}", wrapper.replace("{}", text))
    if place.endswith("{}"):
        after = ""
    if "think>" not in verdict[1]:
        text = f"{before} {text} {after}"
        text = f"<think>maybe {SECOND}</think>{text}" if thinks else text
    elif place != "{}":
        return
    assert read_verdict(text, RULES) == (Reading(*map(float, values)), False, "")


@given(
    verdicts(), st.sampled_from(Reading._fields), st.sampled_from([0, 0.999, 6.01, 7, -1, 1e300, True, "x", [], "4/5"])
)
def test_one_bad_number_makes_it_unreadable(verdict: tuple[Reading, str], name: str, bad: object) -> None:
    """J11."""
    held = json.loads(verdict[1]) | {name: bad}
    assert reading(json.dumps(held)) is None
    assert reading(f"So: {json.dumps(held)}") is None or "think>" in verdict[1]


def test_a_problem_quotes_nothing_of_the_text() -> None:
    """L26: problems end up in logs."""
    for text in ('{"score_1": "secret", "score_2": 1}', "secret", "[secret]", '{"secret": 1, "secret": 2}'):
        assert "secret" not in read_verdict(text, RULES).problem
