"""Fingerprints of answers and questions (L21-L23): equal exactly where the JSON values are equal.

A fingerprint is the SHA-256 of a name of this scheme, of what it is a fingerprint of, and of a canonical form of the
value. In an answer, a member of the object itself or of an item of its `output` whose value is an array of integers (at
any nesting) or a flat array of floats stands in that form as a digest of its own (arrays.py): that is where training
data is, and it need not become Python objects. Everything else is written out (canonical.py). What is digested where
depends on the value and on its place in the answer, never on how the text was spelled or read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from groupjudge.answers.arrays import NEVER_DIGESTED, digest_list, digest_text
from groupjudge.answers.canonical import canonical
from groupjudge.answers.jsontext import MAX_DEPTH, Malformed, check_depth, parse, parse_shallow
from groupjudge.answers.outline import Outline, Span, cut_index, outline_of, uncut
from groupjudge.model import Fingerprint

SCHEME = "groupjudge-sha256-msgpack-1"
"""Names how fingerprints are made. Whatever changes any fingerprint changes this name (L22)."""

_ANSWER = SCHEME.encode() + b"\0answer\0"
_QUESTION = SCHEME.encode() + b"\0question\0"


def answer_fingerprint(text: bytes) -> Fingerprint:
    """The fingerprint of the answer that a JSON text is. Raises Malformed."""
    try:
        return _fingerprint_in(outline_of(text))
    except Malformed:
        return _fingerprint_in(uncut(text))


def _fingerprint_in(outline: Outline) -> Fingerprint:
    check_depth(outline.text, MAX_DEPTH)
    return read_answer(outline, Span(0, len(outline.text)), MAX_DEPTH)[1]


def read_answer(outline: Outline, span: Span, max_depth: int) -> tuple[object, Fingerprint]:
    """The answer in a span of an outline whose depth was checked: its value, in which arrays that have a digest are
    replaced by it (Ext), and its fingerprint. `max_depth` is how many levels it may have where it stands. Raises
    Malformed, where the text is not cut with an offset within it."""
    value = parse_shallow(outline.text[slice(*span)])
    cuts = outline.cuts_within(span)
    if cuts:
        # An array that was cut elsewhere than at one of the places below is an ordinary value: read it as one.
        seen = {index for holder, key, _ in _arrays(value) if (index := cut_index(holder[key])) is not None}
        if len(seen) < len(cuts):
            value = parse(outline.stretch(span, seen), max_depth)
    for holder, key, level in _arrays(value):
        array = holder[key]
        index = cut_index(array) if cuts else None
        if index is not None:
            holder[key] = digest_text(outline.body, outline.cuts[index], max_depth - level)
        else:
            _digest(holder, key)
    return value, Fingerprint(hashlib.sha256(_ANSWER + canonical(value)).digest())


def fingerprint_of(answer: object) -> Fingerprint:
    """The fingerprint of an answer that was parsed whole; arrays in it are replaced by their digests."""
    for holder, key, _ in _arrays(answer):
        _digest(holder, key)
    return Fingerprint(hashlib.sha256(_ANSWER + canonical(answer)).digest())


def _digest(holder: dict[str, Any], key: str) -> None:
    array = holder[key]
    if not array or type(array[0]) not in NEVER_DIGESTED:
        holder[key] = digest_list(array)


def _arrays(answer: object) -> Iterator[tuple[dict[str, Any], str, int]]:
    """Each place of an answer at which an array may have a digest: the object that holds it, its key, and how many
    levels of the answer are around it."""
    if type(answer) is not dict:
        return
    output = answer.get("output")
    for key, value in answer.items():
        if type(value) is list:
            yield answer, key, 1
    if type(output) is not list:
        return
    for item in output:
        if type(item) is dict:
            for key, value in item.items():
                if type(value) is list:
                    yield item, key, 3


def question_fingerprint(question: object, principle: str | None) -> Fingerprint:
    """The fingerprint of a question: `question` is the parsed `responses_create_params.input`."""
    return Fingerprint(hashlib.sha256(_QUESTION + canonical([_one_spelling(question), principle])).digest())


def _one_spelling(question: object) -> object:
    """L23: a string is one user message, and a message item without `type` is a `message`."""
    if type(question) is str:
        return [{"type": "message", "role": "user", "content": question}]
    if type(question) is not list:
        return question
    return [_with_type(item) for item in question]


def _with_type(item: object) -> object:
    if type(item) is dict and "type" not in item and "role" in item:
        return {"type": "message", **item}
    return item
