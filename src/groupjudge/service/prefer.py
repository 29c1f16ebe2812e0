"""The `Prefer` header (RFC 7240), as far as `/verify` knows it."""

from __future__ import annotations

from starlette.datastructures import Headers


def preferences(headers: Headers) -> dict[str, str]:
    """Each preference's value by its lower-case name (empty where it has none); of equal names the first counts."""
    found: dict[str, str] = {}
    for line in headers.getlist("prefer"):
        for item in line.split(","):
            name, _, value = item.partition(";")[0].partition("=")
            found.setdefault(name.strip().lower(), value.strip().strip('"').lower())
    return found


def wants_minimal(headers: Headers) -> bool:
    """Whether the caller asks for a reply without the echo (H3)."""
    return "prefer" in headers and preferences(headers).get("return") == "minimal"


def wants_async(headers: Headers) -> bool:
    """Whether the caller asks not to be kept waiting (A2)."""
    return "prefer" in headers and "respond-async" in preferences(headers)
