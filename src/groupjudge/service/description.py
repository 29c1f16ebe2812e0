"""The interface described: `/openapi.json`, and `/docs` made from it, a page that needs nothing from elsewhere."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import msgspec
from ruamel.yaml import YAML

from groupjudge import __version__

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font: 14px/1.45 ui-monospace, monospace }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8886; border-radius: 6px }
h2 code { font-size: 1.1rem } .verb { text-transform: uppercase; font-weight: 700; margin-right: .5rem }
table { border-collapse: collapse } td, th { text-align: left; padding: .2rem 1rem .2rem 0; vertical-align: top }
"""


@cache
def description() -> dict[str, Any]:
    """The OpenAPI 3.1 description as a value."""
    text = files("groupjudge.service").joinpath("openapi.yaml").read_text(encoding="utf-8")
    value: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    value["info"]["version"] = __version__
    return value


@cache
def openapi_json() -> bytes:
    """The description as JSON."""
    return msgspec.json.encode(description())


@cache
def docs_page() -> bytes:
    """The description for people, as one HTML page."""
    value = description()
    parts = [f"<h1>{escape(value['info']['title'])} {__version__}</h1>", _text(value["info"]["description"])]
    for path, operations in value["paths"].items():
        parts += [_operation(path, verb, operation) for verb, operation in operations.items()]
    parts.append("<h1>Shapes</h1>")
    parts += [_schema(name, schema) for name, schema in value["components"]["schemas"].items()]
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><style>{_STYLE}</style>"
    return f"<!doctype html><html lang=en><title>groupjudge</title>{head}<body>{''.join(parts)}</body></html>".encode()


def _operation(path: str, verb: str, operation: dict[str, Any]) -> str:
    rows = "".join(_reply_row(status, reply) for status, reply in operation["responses"].items())
    fields = "".join(
        f"<li><code>{escape(p['name'])}</code> ({p['in']}): {_inline(p.get('description', ''))}</li>"
        for p in operation.get("parameters", ())
    )
    return (
        f"<h2><span class=verb>{verb}</span><code>{escape(path)}</code></h2>{_text(operation['summary'])}"
        f"{f'<ul>{fields}</ul>' if fields else ''}<table><tr><th>status<th>meaning</tr>{rows}</table>"
    )


def _reply_row(status: str, reply: dict[str, Any]) -> str:
    if "$ref" in reply:
        reply = description()["components"]["responses"][reply["$ref"].rsplit("/", 1)[1]]
    return f"<tr><td>{status}<td>{_inline(reply['description'])}</tr>"


def _schema(name: str, schema: dict[str, Any]) -> str:
    shown = msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()
    return f"<h2><code>{escape(name)}</code></h2><pre>{escape(shown)}</pre>"


def _text(text: str) -> str:
    return f"<p>{_inline(text)}</p>"


def _inline(text: str) -> str:
    """Escaped, with `code` between backquotes."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces))
