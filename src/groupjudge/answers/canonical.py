"""The canonical form of a JSON value, as bytes: MessagePack, where it leaves a choice made one way.

An integer of 64 bits takes its shortest form; a float is always binary64 (NaN: 7ff8000000000000); keys are sorted by
their UTF-8 bytes. What MessagePack cannot say is an extension: code 1 and 2 the digests of arrays (arrays.py), 3 a
wider integer (its decimal text), 4 a string with lone surrogates (UTF-8, surrogates encoded like other code points).
JSON has no extensions, so none can be forged, and every form can be read back: different values have different forms.

msgspec writes this form in C. What it refuses is written here; each is the other's twin.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import cast

import msgspec
from msgspec.msgpack import Ext

from groupjudge.answers.jsontext import WideInt

WIDE_INTEGER = 3
SURROGATES = 4

_fast = msgspec.msgpack.Encoder(order="deterministic").encode


def canonical(value: object) -> bytes:
    """The canonical form of a parsed JSON value in which arrays may have been replaced by their digests (Ext)."""
    try:
        return _fast(value)
    except (OverflowError, UnicodeEncodeError, TypeError):
        return canonical_plain(value)


def canonical_plain(value: object) -> bytes:
    """As `canonical`, by the writer below: goes through containers without recursion, for they may be 256 deep."""
    out: list[bytes] = []
    waiting: list[Iterator[object]] = [iter((value,))]
    while waiting:
        for each in waiting[-1]:
            if type(each) is list:
                out.append(_head(len(each), 0x90, 16, b"\xdc", b"\xdd"))
                waiting.append(iter(each))
                break
            if type(each) is dict:
                out.append(_head(len(each), 0x80, 16, b"\xde", b"\xdf"))
                waiting.append(_sorted_members(each))
                break
            out.append(_SCALARS[type(each)](each))
        else:
            waiting.pop()
    return b"".join(out)


def _sorted_members(value: dict[str, object]) -> Iterator[object]:
    for key in sorted(value, key=lambda each: each.encode("utf-8", "surrogatepass")):
        yield key
        yield value[key]


def _head(size: int, fix: int, fix_limit: int, code16: bytes, code32: bytes) -> bytes:
    if size < fix_limit:
        return bytes((fix | size,))
    return code16 + struct.pack(">H", size) if size < 1 << 16 else code32 + struct.pack(">I", size)


def _integer(value: object) -> bytes:
    number = cast(int, value)
    if 0 <= number < 128 or -32 <= number < 0:
        return struct.pack("b", number)
    forms = _UNSIGNED if number >= 0 else _SIGNED
    for code, form, low, high in forms:
        if low <= number < high:
            return code + struct.pack(form, number)
    return _extension(Ext(WIDE_INTEGER, str(number).encode()))


_UNSIGNED = (
    (b"\xcc", ">B", 0, 1 << 8),
    (b"\xcd", ">H", 0, 1 << 16),
    (b"\xce", ">I", 0, 1 << 32),
    (b"\xcf", ">Q", 0, 1 << 64),
)
_SIGNED = (
    (b"\xd0", ">b", -(1 << 7), 0),
    (b"\xd1", ">h", -(1 << 15), 0),
    (b"\xd2", ">i", -(1 << 31), 0),
    (b"\xd3", ">q", -(1 << 63), 0),
)


def _text(value: object) -> bytes:
    text = cast(str, value)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return _extension(Ext(SURROGATES, text.encode("utf-8", "surrogatepass")))
    if 32 <= len(data) < 256:
        return b"\xd9" + bytes((len(data),)) + data
    return _head(len(data), 0xA0, 32, b"\xda", b"\xdb") + data


_FIXED_EXTENSIONS = {1: b"\xd4", 2: b"\xd5", 4: b"\xd6", 8: b"\xd7", 16: b"\xd8"}


def _extension(value: object) -> bytes:
    ext = cast(Ext, value)
    data, code = bytes(ext.data), struct.pack("b", ext.code)
    size = len(data)
    if size in _FIXED_EXTENSIONS:
        return _FIXED_EXTENSIONS[size] + code + data
    if size < 256:
        return b"\xc7" + bytes((size,)) + code + data
    head = b"\xc8" + struct.pack(">H", size) if size < 1 << 16 else b"\xc9" + struct.pack(">I", size)
    return head + code + data


_SCALARS: dict[type, Callable[[object], bytes]] = {
    type(None): lambda value: b"\xc0",
    bool: lambda value: b"\xc3" if value else b"\xc2",
    float: lambda value: b"\xcb" + struct.pack(">d", value),
    int: _integer,
    str: _text,
    Ext: _extension,
    WideInt: lambda value: _extension(Ext(WIDE_INTEGER, repr(value).encode())),
}
