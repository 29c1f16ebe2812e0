"""Where the configuration comes from, which source wins, and what is said when something is wrong (H12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.configuration import effective, load
from groupjudge.errors import ConfigurationError
from groupjudge.settings import MASK, Settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a test writes its configuration."""
    return tmp_path / "groupjudge.yaml"


def told(file: Path | None = None, environ: dict[str, str] | None = None, *sets: str) -> list[str]:
    """The lines of the error that these sources give."""
    with pytest.raises(ConfigurationError) as caught:
        load(file, environ or {}, sets)
    return str(caught.value).split("\n")


def only(file: Path | None = None, environ: dict[str, str] | None = None, *sets: str) -> str:
    """The one line of the error that these sources give."""
    (line,) = told(file, environ, *sets)
    return line


def from_text(*sets: str, **environ: str) -> Settings:
    """The configuration of `--set` options and variables."""
    return load(None, environ, sets)


# --- precedence and merging ---


def test_no_source_gives_the_defaults() -> None:
    """H12: an environment without the prefix says nothing."""
    assert load(None, {"PATH": "/bin", "GROUPJUDGEX": "1", "XGROUPJUDGE_GROUP__SIZE": "3"}, []) == Settings()


def test_the_environment_outranks_the_file_and_set_outranks_both(file: Path) -> None:
    """H12: rising precedence, key by key; a key that one source leaves out keeps the value of the one below."""
    file.write_text("group: {size: 2, collection_timeout_s: 20, judging_timeout_s: 200}\nserver: {port: 1}\n")
    environ = {"GROUPJUDGE_GROUP__SIZE": "3", "GROUPJUDGE_GROUP__COLLECTION_TIMEOUT_S": "30"}
    settings = load(file, environ, ["group.size=4"])
    assert (settings.group.size, settings.group.collection_timeout_s, settings.group.judging_timeout_s) == (4, 30, 200)
    assert settings.server.port == 1


def test_the_last_set_of_a_key_wins() -> None:
    """H12: `--set` options count in their order."""
    assert from_text("group.size=2", "group.size=3").group.size == 3


def test_a_bad_value_that_a_higher_source_replaces_is_no_error(file: Path) -> None:
    """H12: what is judged is the outcome."""
    file.write_text("group: {size: many}\n")
    assert load(file, {}, ["group.size=4"]).group.size == 4


def test_names_of_variables_are_read_in_any_case() -> None:
    """H12: `GROUPJUDGE_` prefix, `__` between levels."""
    assert from_text(groupjudge_group__SIZE="5").group.size == 5
    assert from_text(GROUPJUDGE_JUDGE__PARAMS__MAX_TOKENS="7").judge.params["max_tokens"] == 7


def test_two_variables_for_one_key_are_an_error() -> None:
    """H12: which of them would win depends on nothing a person sees."""
    line = only(None, {"GROUPJUDGE_GROUP__SIZE": "5", "groupjudge_group__size": "6"})
    assert line.startswith("group.size: ")
    assert "GROUPJUDGE_GROUP__SIZE and groupjudge_group__size" in line


def test_a_section_can_be_given_as_a_whole_and_in_parts() -> None:
    """H12: a mapping as JSON or YAML, and a single key of it in the same source, whichever name sorts first."""
    environ = {"GROUPJUDGE_GROUP": '{"size": 5, "judging_timeout_s": 9}', "GROUPJUDGE_GROUP__SIZE": "6"}
    settings = load(None, environ, ["limits={max_group_size: 6}"])
    assert (settings.group.size, settings.group.judging_timeout_s, settings.limits.max_group_size) == (6, 9, 6)


@pytest.mark.parametrize("text", ["", "# nothing\n", "judge:\ngroup:\n  # size: 3\n", "judge: {}\n", "---\n"])
def test_empty_files_and_sections_keep_the_defaults(file: Path, text: str) -> None:
    """H12: a section whose keys are all commented out is null in YAML."""
    file.write_text(text)
    assert load(file, {}, []) == Settings()


def test_a_byte_order_mark_is_skipped(file: Path) -> None:
    """H12: editors write one."""
    file.write_bytes(b"\xef\xbb\xbfgroup: {size: 3}\n")
    assert load(file, {}, []).group.size == 3


# --- free-form parameters ---


def test_one_parameter_changes_and_the_default_ones_stay() -> None:
    """H12: `judge.params.x` alone is laid over the defaults, and over what the file says."""
    assert from_text("judge.params.temperature=0").judge.params == {
        "temperature": 0,
        "top_p": 0.95,
        "max_tokens": 16384,
    }


def test_parameters_given_as_a_mapping_replace_the_default_ones(file: Path) -> None:
    """H12: what a file lists is what is sent, an empty mapping included; the sources are merged key by key."""
    file.write_text("judge: {params: {temperature: 0, extra: {a: 1, b: 2}}}\n")
    assert load(file, {}, []).judge.params == {"temperature": 0, "extra": {"a": 1, "b": 2}}
    environ = {"GROUPJUDGE_JUDGE__PARAMS__EXTRA__B": "3"}
    merged = load(file, environ, ["judge.params={seed: 4}"]).judge.params
    assert merged == {"temperature": 0, "extra": {"a": 1, "b": 3}, "seed": 4}
    file.write_text("judge: {params: {}}\n")
    assert load(file, {}, []).judge.params == {}
    assert load(file, {}, ["judge.params.seed=1"]).judge.params == {"seed": 1}


def test_the_order_of_whole_and_part_in_one_source_decides_only_the_part() -> None:
    """H12: a mapping given after one of its keys still replaces the defaults."""
    assert from_text("judge.params.a=1", "judge.params={b: 2}").judge.params == {"a": 1, "b": 2}


def test_null_leaves_a_parameter_out_at_any_depth(file: Path) -> None:
    """H12: how a default, or a lower source's parameter, is taken back."""
    assert "top_p" not in from_text("judge.params.top_p=null").judge.params
    file.write_text("judge: {params: {extra: {a: 1, b: 2}, list: [null]}}\n")
    settings = load(file, {}, ["judge.params.extra.a=null"])
    assert settings.judge.params == {"extra": {"b": 2}, "list": [None]}


def test_a_mapping_replaces_a_parameter_that_was_none(file: Path) -> None:
    """H12: the higher source decides the shape, too."""
    file.write_text("judge: {params: {stop: x}}\n")
    assert load(file, {}, ["judge.params.stop.a=1"]).judge.params == {"stop": {"a": 1}}
    file.write_text("judge: {params: {stop: {a: 1}}}\n")
    assert load(file, {}, ["judge.params.stop=x"]).judge.params == {"stop": "x"}


def test_loading_leaves_the_defaults_alone() -> None:
    """H12: two configurations in one process share nothing."""
    from_text("judge.params.temperature=0", "judge.params.extra={a: 1}")
    assert Settings().judge.params == {"temperature": 0.6, "top_p": 0.95, "max_tokens": 16384}


# --- text as it stands, JSON, YAML ---


@pytest.mark.parametrize("text", ["123", "true", "no", "[1]", "1e-3", ' "x" ', "a: b", "Null", "{", "#"])
def test_a_key_that_holds_text_takes_it_as_it_stands(text: str) -> None:
    """H12: nothing is parsed, unquoted or trimmed."""
    assert from_text(f"judge.model={text}").judge.model == text
    assert from_text(GROUPJUDGE_JUDGE__MODEL=text).judge.model == text


def test_a_value_may_hold_equals_signs() -> None:
    """H12: the first one ends the key."""
    assert from_text("judge.api_key=a==").judge.api_key == "a=="


def test_null_is_null_where_the_key_may_be_null_and_text_elsewhere() -> None:
    """H12: how a lower source's text is taken back."""
    assert from_text("judge.model=x", "judge.model=null").judge.model is None
    assert from_text("judge.empty_answer_text=null").judge.empty_answer_text == "null"


def test_an_empty_text_is_no_null() -> None:
    """H12: a variable that turned out empty must not switch a server's token off."""
    line = only(None, {"GROUPJUDGE_SERVER__AUTH_TOKEN": ""})
    assert line.startswith("server.auth_token: must be one or more ASCII characters")
    assert "or null" in line
    assert from_text("judge.empty_answer_text=").judge.empty_answer_text == ""


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_value_of_any_other_key_is_an_error(text: str) -> None:
    """H12: null must be said."""
    assert "must have a value" in only(None, {"GROUPJUDGE_RETENTION__TTL_S": text})
    assert from_text("retention.ttl_s=null").retention.ttl_s is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1e-3", 0.001),
        ('"1"', "1"),
        ("no", "no"),
        ("True", True),
        ("true", True),
        ("[a, 1]", ["a", 1]),
        ('{"a": {"b": [1]}}', {"a": {"b": [1]}}),
        ("{a: 0.5}", {"a": 0.5}),
        (r'"\ud83d\ude00"', "\N{GRINNING FACE}"),  # a pair of escapes is one character in JSON, and two in YAML
        ("END OF TEXT", "END OF TEXT"),
    ],
)
def test_any_other_key_takes_json_else_yaml(text: str, value: Any) -> None:
    """H12: by type, too: `0` is an integer, `True` a boolean, `no` a text."""
    got = from_text(f"judge.params.x={text}").judge.params["x"]
    assert got == value
    assert type(got) is type(value)


def test_files_are_read_by_the_rules_of_yaml_1_2(file: Path) -> None:
    """H12: `no` and `12:30` are texts, `1e-3` is a number, `017` is seventeen."""
    file.write_text("judge: {params: {a: no, b: 1e-3, c: 12:30, d: 017, e: yes, f: on}}\n")
    params = load(file, {}, []).judge.params
    assert params == {"a": "no", "b": 0.001, "c": "12:30", "d": 17, "e": "yes", "f": "on"}


def test_numbers_as_names_of_parameters_become_texts(file: Path) -> None:
    """H12: as in JSON; `logit_bias` has such names."""
    file.write_text("judge: {params: {logit_bias: {50256: -100}}}\n")
    assert load(file, {}, []).judge.params == {"logit_bias": {"50256": -100}}


# --- what is said when something is wrong ---


def test_an_unknown_key_is_named_with_its_place_and_the_likely_one(file: Path) -> None:
    """H12: a file's line, a variable's name in its own spelling, or --set."""
    file.write_text("judge:\n  # comment\n  fromat: genrm\n")
    assert only(file) == f"judge.fromat: unknown key; did you mean judge.format? ({file}, line 3)"
    assert only(None, {"GROUPJUDGE_JUDGE__FROMAT": "genrm"}) == (
        "judge.fromat: unknown key; did you mean GROUPJUDGE_JUDGE__FORMAT? "
        "(environment variable GROUPJUDGE_JUDGE__FROMAT)"
    )
    assert only(None, {}, "judge.fromat=genrm") == (
        "judge.fromat: unknown key; did you mean judge.format? (--set judge.fromat)"
    )


def test_a_key_in_the_wrong_section_is_found_by_its_name() -> None:
    """H12: `port` and `judge.temperature` exist elsewhere."""
    assert "did you mean server.port?" in only(None, {}, "port=1")
    assert "did you mean judge.params.temperature?" in only(None, {}, "judge.temperature=1")
    assert "did you mean server.auth_token or checkpoint.auth_token?" in only(None, {}, "auth_token=1")


def test_an_unlike_key_is_answered_with_the_keys_there_are() -> None:
    """H12: of its section, or the sections."""
    assert "; group has the keys size, collection_timeout_s, judging_timeout_s, on_" in only(None, {}, "group.zzz=1")
    assert "; the configuration has the keys server, limits, group," in only(None, {}, "zzz=1")
    assert "; server has the keys host, port," in only(None, {}, "server.zzz.yyy=1")


def test_a_key_below_a_value_is_unknown() -> None:
    """H12: `server.port` holds a number, not a section."""
    assert "server.port.x: unknown key; did you mean server.port?" in only(None, {}, "server.port.x=1")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("group:\n  size: 0\n", "group.size: must be greater than or equal to 1, not 0 ({file}, line 2)"),
        ("group: {size: true}", "group.size: must be an integer, not true ({file}, line 1)"),
        ('group: {size: "1"}', 'group.size: must be an integer, not "1" ({file}, line 1)'),
        ("group: {size: 1.0}", "group.size: must be an integer, not 1.0 ({file}, line 1)"),
        ("group: {size: }", "group.size: must be an integer, not null ({file}, line 1)"),
        ("server: {grace_s: .inf}", "server.grace_s: must be a finite number, not Infinity ({file}, line 1)"),
        ("server: {grace_s: .nan}", "server.grace_s: must be a finite number, not NaN ({file}, line 1)"),
        ("retention: {ttl_s: x}", 'retention.ttl_s: must be a number, or null, not "x" ({file}, line 1)'),
        ("retention: {ttl_s: 0}", "retention.ttl_s: must be greater than 0, or null, not 0 ({file}, line 1)"),
        ("judge: {trust_env: no}", 'judge.trust_env: must be true or false, not "no" ({file}, line 1)'),
        (
            "judge: {format: GenRM}",
            "judge.format: must be 'template', 'genrm', 'responses', 'listwise' or 'local', not \"GenRM\" "
            "({file}, line 1)",
        ),
        ("judge: {model: 7}", "judge.model: must be a text (in quotes), or null, not 7 ({file}, line 1)"),
        ('judge: {model: ""}', 'judge.model: must have at least 1 character, or null, not "" ({file}, line 1)'),
        ("judge: {model: 2024-01-01}", "judge.model: must be a text (in quotes), or null, not a date ({file}, line 1)"),
        ("judge: {model: [a]}", "judge.model: must be a text (in quotes), or null, not a list ({file}, line 1)"),
        ("judge: {params: 1}", "judge.params: must be a mapping of keys, not 1 ({file}, line 1)"),
        ("judge: {params: }", "judge.params: must be a mapping of keys, not null ({file}, line 1)"),
        ("judge: [a]", "judge: must be a mapping of keys, not a list ({file}, line 1)"),
        (
            "scoring: {score_range: [1]}",
            "scoring.score_range.1: must be a list of two numbers [low, high], not [1] ({file}, line 1)",
        ),
        (
            "scoring: {score_range: [5, 1]}",
            "scoring.score_range: must be two numbers [low, high] with low below high, or null, not [5, 1] "
            "({file}, line 1)",
        ),
        (
            "judge:\n  params:\n    a: [.inf]\n",
            "judge.params.a.0 must be a finite number, not inf ({file}, line 3)",
        ),
        ("- 1", "{file}: must hold a mapping of sections such as 'server:' and 'judge:', not [1]"),
        ("x", "{file}: must hold a mapping of sections such as 'server:' and 'judge:', not \"x\""),
    ],
)
def test_a_bad_value_is_named_with_key_value_place_and_what_is_allowed(file: Path, text: str, line: str) -> None:
    """H12: one line that a person can act on."""
    file.write_text(text)
    assert only(file) == line.replace("{file}", str(file))


def test_a_broken_relation_names_both_places(file: Path) -> None:
    """H12: each key may be right on its own, and come from another source."""
    file.write_text("limits:\n  max_group_size: 8\n")
    assert only(file, {}, "group.size=9") == (
        f"group.size (9) must be at most limits.max_group_size (8) (--set group.size; {file}, line 2)"
    )
    assert only(None, {}, "limits.max_group_size=8").endswith("(--set limits.max_group_size)")


def test_all_problems_of_all_sources_are_told_at_once(file: Path) -> None:
    """H12: one line each."""
    file.write_text("group: {size: 0, sise: 1}\nnope: 1\n")
    environ = {"GROUPJUDGE_JUDGE__RETRIES": "-1", "GROUPJUDGE_X": "1"}
    lines = told(file, environ, "server.port=x", "broken")
    assert sorted(line.split(":")[0] for line in lines) == [
        "--set number 2",
        "group.sise",
        "group.size",
        "judge.retries",
        "nope",
        "server.port",
        "x",
    ]


def test_a_missing_file_is_told_beside_the_other_problems(tmp_path: Path) -> None:
    """H12: with its name and the system's reason."""
    lines = told(tmp_path / "none.yaml", {}, "group.size=0")
    assert lines[0] == f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory"
    assert len(lines) == 2
    assert only(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


@pytest.mark.parametrize("text", ["broken", "=1", "group.=1", ".size=1", "group..size=1", "", "s3cr3t"])
def test_a_set_option_without_key_or_value_is_told_by_its_place_only(text: str) -> None:
    """H12: its text may be a secret that lost its key."""
    assert only(None, {}, text) == "--set number 1: must be key.path=value, for example group.size=8"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a: [\n", "is no valid YAML, line 2: "),
        (b"group:\n\tsize: 1\n", "is no valid YAML, line 2: "),
        (b"group: !!python/object:os.system {}", "is no valid YAML, line 1: could not determine a constructor"),
        (b"a: 1\n---\nb: 2\n", "is no valid YAML, line 2: "),
        (b"group: *x", "is no valid YAML, line 1: "),
        (b"a: \xff", "is no UTF-8 text (byte 3)"),
        (b"a: \x00", "is no valid YAML: "),
        (b"[" * 20000, "is nested deeper than"),
        (b"group: {size: " + b"9" * 5000 + b"}", "a number or date in it cannot be read"),
        (b"group: {size: 2024-13-45}", "a number or date in it cannot be read"),
        (b"group: {size: 1, size: 2}", "holds the key group.size twice, line 1; keep one"),
        (b"group:\n  size: 1\njudge:\ngroup: {}\n", "holds the key group twice, lines 1 and 4; keep one"),
        (b"judge: {params: {a: [{b: 1, b: 1}]}}", "holds the key judge.params.a.0.b twice, line 1; keep one"),
        (b"judge: {params: {1: a, 0x1: a}}", "holds a key twice; keep one"),
        (b"? [a]\n: 1\n", "holds a key that is no text, line 1"),
        (b"#" * (4 * 1024 * 1024 + 1), "is larger than 4 MiB"),
    ],
)
def test_a_file_that_is_no_configuration_is_told_in_one_line(file: Path, data: bytes, says: str) -> None:
    """H12: never a traceback, whatever the bytes."""
    file.write_bytes(data)
    line = only(file)
    assert line.startswith(f"{file}: ")
    assert says in line


@pytest.mark.parametrize(
    "text", ["judge: {params: &a {b: *a}}", "judge: {params: {x: &a [*a]}}", "judge: &a {judge: *a}"]
)
def test_a_mapping_that_holds_itself_is_refused(file: Path, text: str) -> None:
    """H12: YAML's aliases can make one."""
    file.write_text(text)
    assert told(file)


@pytest.mark.parametrize(
    "doubling",
    ["b{0}: &b{0} [*b{1}, *b{1}]", "b{0}: &b{0} {{x: *b{1}, y: *b{1}}}", "b{0}: &b{0} {{<<: [*b{1}, *b{1}]}}"],
)
def test_a_small_file_that_aliases_make_endless_is_refused(file: Path, doubling: str) -> None:
    """H12: each doubles the one before, so that reading all of it would take for ever."""
    lines = ["b0: &b0 {x: 1}", *(doubling.format(number, number - 1) for number in range(1, 39))]
    file.write_text("\n".join(lines))
    assert "holds more than 100000 values, those behind aliases included" in only(file)


def test_a_value_on_the_command_line_that_cannot_be_read_is_told_with_its_key() -> None:
    """H12: broken YAML, and the same key twice in JSON."""
    assert only(None, {}, "group.size=[").startswith("group.size: is no valid YAML, line 1: ")
    assert "judge.params: holds the key a twice" in only(None, {}, 'judge.params={"a": 1, "a": 2}')


def test_values_and_keys_in_errors_are_bounded_and_in_one_line(file: Path) -> None:
    """H12: a megabyte by mistake stays readable."""
    line = only(None, {}, "group.size=" + '"' + "x" * 100_000 + '"')
    assert len(line) < 200
    assert "..." in line
    assert len(only(None, {}, "x" * 100_000 + "=1")) < 800
    file.write_text('"a\\nb": 1\n')
    assert "a?b: unknown key" in only(file)
    file.write_text('judge: {params: {"a\\nb": .inf}}\n')
    assert only(file).startswith("judge.params.a?b must be a finite number")
    assert len(only(None, {}, "judge.params." + "x" * 100_000 + "=.inf")) == 600


SECRETS = ["server.auth_token", "judge.api_key", "checkpoint.auth_token", "session.secret"]


@pytest.mark.parametrize("key", SECRETS)
def test_no_error_shows_a_secret(file: Path, key: str) -> None:
    """H12: not a bad one, not one given twice, not one under a mistyped key, not one in a login."""
    section, name = key.split(".")
    texts = [
        f"{section}: {{{name}: 81234567}}",
        f"{section}: {{{name}: [81234567]}}",
        f"{section}: {{{name}x: 81234567}}",
        f"{section}: {{{name}: a81234567, {name}: b81234567}}",
        f"{section}: {{{name}: {{a: 81234567}}}}",
        "judge: {params: {1: a81234567, 0x1: b81234567}}",
        "judge: {base_url: 'ftp://81234567:81234567@host'}",
        "judge: {base_url: 'http://81234567:81234567@host?', format: x}",
    ]
    for text in texts:
        file.write_text(text)
        for line in told(file):
            assert "81234567" not in line
    for line in told(None, {}, f"{section}.{name}x=81234567", f"{name}=81234567", "81234567"):
        assert "81234567" not in line
    if key != "session.secret":
        assert MASK in only(None, {}, f"{key}=8123 4567")
        assert "8123 4567" not in only(None, {}, f"{key}=8123 4567")


@pytest.mark.parametrize("value", ["tcp://10.0.0.1:8600", "udp://10.0.0.1:8600"])
def test_variables_of_an_orchestrator_are_no_settings(value: str) -> None:
    """H12: a service called "groupjudge" puts such names into every container beside it; they are none of ours."""
    environ = {
        "GROUPJUDGE_SERVICE_HOST": "10.0.0.1",
        "GROUPJUDGE_SERVICE_PORT": "8600",
        "GROUPJUDGE_SERVICE_PORT_HTTP": "8600",
        "GROUPJUDGE_PORT": value,
        "GROUPJUDGE_PORT_8600_TCP": "tcp://10.0.0.1:8600",
        "GROUPJUDGE_PORT_8600_TCP_ADDR": "10.0.0.1",
    }
    assert load(None, environ, []) == Settings()


@pytest.mark.parametrize("name", ["GROUPJUDGE_PORT", "GROUPJUDGE_SERVICE", "GROUPJUDGE_PORT_X", "GROUPJUDGE_"])
def test_other_unknown_variables_are_errors(name: str) -> None:
    """H12: `GROUPJUDGE_PORT=9000` is somebody's mistake."""
    assert name in only(None, {name: "9000"})


def test_a_text_that_is_no_unicode_is_refused() -> None:
    """H12: an environment may hold any bytes."""
    line = only(None, {"GROUPJUDGE_JUDGE__MODEL": "a\udcff"})
    assert line.startswith("judge.model: ")
    line.encode()


# --- the effective configuration ---


def test_the_effective_configuration_has_every_key_and_is_read_back(file: Path) -> None:
    """H13: what `groupjudge config` prints is a file that gives the same configuration."""
    settings = from_text(
        "group.size=3", "scoring.score_range=null", "judge.params={a: {b: [1, no]}, c: 1e-7}", "judge.model=no"
    )
    file.write_text(effective(settings))
    assert load(file, {}, []) == settings
    file.write_text(effective(Settings()))
    assert load(file, {}, []) == Settings()
    lines = [line for line in effective(Settings()).splitlines() if not line.startswith(" ")]
    assert [line.partition(":")[0] for line in lines] == list(Settings.model_fields)


def test_secrets_are_masked_and_the_mask_is_no_secret(file: Path) -> None:
    """H13: also a login in the judge's address; a printed configuration cannot be used with stars for a token."""
    settings = from_text(
        *(f"{key}=s3cr3t" for key in SECRETS), "judge.params.api_key=s3cr3t", "judge.base_url=http://u:s3cr3t@host/v1"
    )
    text = effective(settings)
    assert "s3cr3t" not in text
    assert text.count(MASK) == 6
    file.write_text(text)
    assert sorted(line.split(":")[0] for line in told(file)) == sorted(SECRETS)
    assert "null" in effective(Settings()).split("api_key:")[1].splitlines()[0]


params = st.recursive(
    st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc_", min_size=1), inner, max_size=3),
    max_leaves=8,
)


@given(params, st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1))
def test_any_configuration_is_read_back_from_its_print(
    tmp_path_factory: pytest.TempPathFactory, x: Any, text: str
) -> None:
    """H13: values keep their type and value, texts that look like numbers, nulls or YAML included."""
    settings = Settings.model_validate({"judge": {"params": {"x": x}, "model": text, "empty_answer_text": text}})
    file = tmp_path_factory.getbasetemp() / "printed.yaml"
    file.write_text(effective(settings), encoding="utf-8")
    again = load(file, {}, [])
    assert again == settings
    assert repr(again.judge.params) == repr(settings.judge.params)
