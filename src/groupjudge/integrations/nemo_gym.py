"""NeMo Gym (A6): a resources-server folder that takes the place of `genrm_compare`, and what its `app.py` runs.

Gym starts a resources server as a process of its own and hands it the whole configuration of the run. `main` reads the
options of `genrm_compare` out of it, resolves the judge's address, and serves our server where Gym expects one, with
the two routes that only Gym's collector asks for. Gym is imported only there: writing a folder needs none.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any, ClassVar

from groupjudge import (
    ConfigurationError,
    ExtraRoute,
    Given,
    InvalidRequest,
    Settings,
    __version__,
    serve,
    settings_of,
)

Config = Mapping[str, Any]
AddressOf = Callable[[str], str]

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "num_rollouts_per_prompt": ("group.size",),
    "cohort_collection_timeout_s": ("group.collection_timeout_s",),
    "cohort_evaluation_timeout_s": ("group.judging_timeout_s",),
    "judge_request_timeout_s": ("judge.request_timeout_s",),
    "cohort_result_ttl_s": ("retention.ttl_s",),
    "max_terminal_cohorts": ("retention.max_results", "retention.max_attempt_records"),
    "comparison_strategy": ("comparison.strategy",),
    "num_judges_per_comparison": ("comparison.judges_per_pair",),
    "use_principle": ("comparison.use_principle",),
    "default_principle": ("comparison.default_principle",),
    "aggregator_method": ("scoring.aggregator",),
    "reasoning_bonus": ("scoring.reasoning_bonus",),
    "answer_bonus": ("scoring.answer_bonus",),
    "top_percentile": ("scoring.top_percentile",),
    "group_reasoning_length_penalty_coeff": ("scoring.reasoning_length_penalty",),
    "group_answer_length_penalty_coeff": ("scoring.answer_length_penalty",),
    "group_style_penalty_coeff": ("scoring.style_penalty",),
    "default_score": ("scoring.default_score",),
    "default_ranking": ("scoring.default_ranking",),
    "genrm_parse_retries": ("judge.retries",),
    "genrm_parse_retry_sleep_s": ("judge.retry_sleep_s",),
}
"""Each option of `genrm_compare` that is a number or a word, and the keys of ours that it sets."""

_JUDGE, _PARAMS, _OURS = "genrm_model_server", "genrm_responses_create_params", "groupjudge"
_SIZE = "num_rollouts_per_prompt"
_WITHOUT_EFFECT = frozenset({"debug_logging"})
GYMS_OWN = frozenset(("entrypoint", "host", "port", "name", "num_workers", "datasets", "expose_tools_over_mcp"))
GYMS_OWN |= {"domain", "verified", "verified_url", "description", "value", "allowed_agents", "allowed_model_types"}
"""What Gym itself may say of any resources server: nothing that concerns judging."""

AS_THERE: Mapping[str, Any] = {"judge.format": "responses", "judge.on_unreadable": "default_scores"}
"""What is no option of `genrm_compare`, but how it behaves."""


def settings_from(
    config: Config, environ: Mapping[str, str], address_of: AddressOf, known: Collection[str] = ()
) -> Settings:
    """Our settings from the configuration that Gym has for one resources server.

    `config` has at least `host` and `port`. Over its options lies its mapping `groupjudge`, which may hold any key of
    ours, and over that the `GROUPJUDGE_` variables of `environ`. `address_of` gives the address of the server that Gym
    knows by a name (KeyError: none), `known` are further option names that Gym uses itself. Raises ConfigurationError
    with a line for each problem.
    """
    problems = [*_unknown(config, {*GYMS_OWN, *known}), *_misfits(config)]
    one = "judges" not in _ours(config)  # of several, each says all of itself
    given = [Given(key, value, "as genrm_compare does") for key, value in AS_THERE.items() if one]
    given += [Given(f"server.{key}", config[key], f"{key} of NeMo Gym") for key in ("host", "port")]
    given += _options(config)
    try:
        given += [*_judge(config, address_of), *_params(config)]
    except ConfigurationError as error:
        problems.append(str(error))
    given.append(Given("", _ours(config), f"{_OURS} of {_server(config)}"))
    try:
        settings = settings_of(given, environ)
        problems += _clashes(settings, config)
    except ConfigurationError as error:
        problems.append(str(error))
    if problems:
        raise ConfigurationError("\n".join(problems))
    return settings


def _server(config: Config) -> str:
    return str(config.get("name") or "the resources server")


def _ours(config: Config, section: str | None = None) -> Mapping[str, Any]:
    """The mapping `groupjudge`, or a section in it; empty where there is none."""
    found = config.get(_OURS)
    if section is not None:
        found = found.get(section) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _unknown(config: Config, gyms: Collection[str]) -> Iterator[str]:
    ours = {*OPTIONS, *_WITHOUT_EFFECT, _JUDGE, _PARAMS, _OURS}
    for name in config:
        if name not in ours and name not in gyms:
            meant = difflib.get_close_matches(name, ours, n=1)
            hint = f"did you mean {meant[0]}?" if meant else f"keys of our own belong into '{_OURS}:' below it"
            yield f"{name}: unknown option; {hint} ({_server(config)})"


def _misfits(config: Config) -> Iterator[str]:
    """What can be told without our settings."""
    if not isinstance(config.get(_OURS, {}), Mapping):
        yield f"{_OURS}: must be a mapping of sections such as 'judge:' ({_server(config)})"
    if _SIZE not in config and "size" not in _ours(config, "group"):
        yield f"{_SIZE}: must say how many answers a group has ({_server(config)})"
    workers = config.get("num_workers")
    if workers not in (None, 1):
        yield f"num_workers: must be 1 or left out, not {workers}: groups live in one process ({_server(config)})"


def _options(config: Config) -> list[Given]:
    """The options that are there. An option that is missing has the default of our key, which is theirs too."""
    return [
        Given(key, config[option], f"{option} of {_server(config)}")
        for option, keys in OPTIONS.items()
        if option in config
        for key in keys
    ]


def _judge(config: Config, address_of: AddressOf) -> Iterator[Given]:
    """Where the model server listens that Gym has for the judge; a judge outside Gym is named in `groupjudge`."""
    reference = config.get(_JUDGE)
    if reference is None:
        judge = _ours(config, "judge")
        if "base_url" in judge or judge.get("format") == "local" or "judges" in _ours(config):
            return
        raise ConfigurationError(
            f"{_JUDGE}: must name the judge, as {{type: responses_api_models, name: ...}}; for a judge outside NeMo "
            f"Gym set {_OURS}.judge.base_url and {_OURS}.judge.format instead ({_server(config)})"
        )
    kind, name = (reference.get("type"), reference.get("name")) if isinstance(reference, Mapping) else (None, None)
    if kind != "responses_api_models" or not isinstance(name, str):
        raise ConfigurationError(f"{_JUDGE}: must be {{type: responses_api_models, name: ...}} ({_server(config)})")
    try:
        address = address_of(name)
    except KeyError:
        raise ConfigurationError(
            f"{_JUDGE}: names {name!r}, which is no server of this run; add its configuration, or name another "
            f"({_server(config)})"
        ) from None
    yield Given("judge.base_url", f"{address}/v1", f"{_JUDGE} of {_server(config)}")


def _params(config: Config) -> Iterator[Given]:
    """The parameters of the judge's requests. They are written as for the Responses API; ours has one name for the
    length in all formats and turns it back for that one."""
    if _PARAMS not in config:
        return
    origin = f"{_PARAMS} of {_server(config)}"
    if not isinstance(config[_PARAMS], Mapping):
        raise ConfigurationError(f"{_PARAMS}: must be a mapping such as {{temperature: 0.6}} ({_server(config)})")
    params = dict(config[_PARAMS])
    if params.pop("input", None):
        raise ConfigurationError(f"{_PARAMS}.input: must be empty: the question goes there ({_server(config)})")
    if params.pop("stream", None):
        raise ConfigurationError(f"{_PARAMS}.stream: must be false or left out ({_server(config)})")
    if "max_output_tokens" in params:
        params["max_tokens"] = params.pop("max_output_tokens")
    model = params.pop("model", None)
    if model is not None:
        yield Given("judge.model", model, origin)
    yield Given("judge.params", params, origin)


def _clashes(settings: Settings, config: Config) -> Iterator[str]:
    """What is right for `groupjudge serve`, but not below Gym."""
    if (settings.server.host, settings.server.port) != (config["host"], config["port"]):
        yield f"server.host, server.port: leave them out; host and port of {_server(config)} say where it listens"
    if settings.server.auth_token is not None:
        yield "server.auth_token: leave it out; the clients of NeMo Gym send no token"


def gym_routes(aggregate: Callable[[list[dict[str, Any]]], bytes]) -> list[ExtraRoute]:
    """The routes that Gym's collector asks a resources server for beside `/verify`. `aggregate` makes the metrics, as
    JSON, of the rows of a run."""

    def aggregate_metrics(body: Any) -> bytes:
        rows = body.get("verify_responses") if isinstance(body, Mapping) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InvalidRequest.at("verify_responses", msg="must be a list of objects")
        return aggregate(rows)

    return [
        ExtraRoute("POST", "/aggregate_metrics", aggregate_metrics),
        # One answer says nothing about its group, and a repeated request gets what it got before.
        ExtraRoute("GET", "/reverify_mode", lambda _: "unsupported"),
    ]


def main() -> int:
    """What a written folder's `app.py` runs, in a process that Gym started. Returns the exit status."""
    try:
        _serve_below_gym()
    except ConfigurationError as error:
        for line in str(error).splitlines():
            print(f"groupjudge: error: {line}", file=sys.stderr)
        return 2
    return 0


def _serve_below_gym() -> None:
    if find_spec("nemo_gym") is None:
        raise ConfigurationError(
            "the package nemo-gym is not installed here; NeMo Gym starts this program in an environment that has it"
        )
    from nemo_gym.base_resources_server import BaseResourcesServerConfig
    from nemo_gym.global_config import DRY_RUN_KEY_NAME, NEMO_GYM_CONFIG_PATH_ENV_VAR_NAME, get_global_config_dict
    from nemo_gym.reward_profile import compute_aggregate_metrics
    from nemo_gym.server_utils import BaseServer, get_server_url

    class Config(BaseResourcesServerConfig):  # type: ignore[misc]
        model_config: ClassVar[dict[str, Any]] = {"extra": "allow"}

    class Server(BaseServer):  # type: ignore[misc]
        config: Config

    if NEMO_GYM_CONFIG_PATH_ENV_VAR_NAME not in os.environ:
        raise ConfigurationError("this program is started by NeMo Gym, as 'gym env start' and 'gym eval run' do")
    everything = get_global_config_dict()

    def address_of(server: str) -> str:
        if server not in everything:
            raise KeyError(server)
        return str(get_server_url(server))

    config = dict(Server.load_config_from_global_config())
    settings = settings_from(config, os.environ, address_of, BaseResourcesServerConfig.model_fields)
    if everything.get(DRY_RUN_KEY_NAME):
        return
    routes = gym_routes(lambda rows: compute_aggregate_metrics(rows).model_dump_json().encode())
    serve(settings, extras=routes, on_listening=lambda address: print(f"groupjudge listens on {address}", flush=True))


_TEMPLATES = {
    "app.py": "app.py.txt",
    "requirements.txt": "requirements.txt",
    "README.md": "README.md",
    "configs/$name.yaml": "config.yaml",
    "data/example.jsonl": "example.jsonl",
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def write_folder(folder: Path, *, force: bool = False) -> list[Path]:
    """Write a resources-server folder and return the files that were written; those that stand there already as they
    would be written are left alone.

    The folder's name becomes the server's. Raises ConfigurationError, and writes nothing, where the name will not do or
    a file stands in the way that says something else (unless `force`).
    """
    folder = Path(os.path.abspath(folder))
    name = folder.name
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{folder}: the folder's name is the server's: letters, digits, _ and - only, as in"
            " resources_servers/groupjudge"
        )
    texts = {folder / _filled(path, name): text for path, text in _texts(name)}
    texts = {path: text for path, text in texts.items() if not _holds(path, text)}
    foreign = [str(path) for path in texts if os.path.lexists(path)]
    if foreign and not force:
        raise ConfigurationError(
            f"nothing was written: {', '.join(foreign)} would be overwritten; move away what is yours, choose another "
            "DIR, or say --force"
        )
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return list(texts)


def _texts(name: str) -> Iterator[tuple[str, str]]:
    templates = files(__package__) / "templates" / "nemo_gym"
    for path, template in _TEMPLATES.items():
        yield path, _filled((templates / template).read_text("utf-8"), name)


def _filled(text: str, name: str) -> str:
    return Template(text).safe_substitute(name=name, version=__version__, requirement=_requirement())


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text("utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


def _requirement() -> str:
    """This package as the folder's environment can install it: from where it was installed itself, if that is known
    (PEP 610), else by its version."""
    try:
        told = distribution("groupjudge").read_text("direct_url.json")
    except PackageNotFoundError:
        told = None
    origin: dict[str, Any] = json.loads(told) if told else {}
    if "url" not in origin:
        return f"groupjudge=={__version__}"
    revision = origin.get("vcs_info", {})
    if not revision:
        return f"groupjudge @ {origin['url']}"
    return f"groupjudge @ {revision['vcs']}+{origin['url']}@{revision['commit_id']}"
