"""Bodies that come compressed (H10): expanded up to a limit, never further."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from groupjudge.errors import BodyTooLarge, CallerError, InvalidRequest

_INPUT_STEP = 1 << 16
_OUTPUT_STEP = 1 << 18
_GZIP = 16 + zlib.MAX_WBITS


class UnsupportedEncoding(CallerError):
    """The body is compressed in a way that this server does not read."""

    code = "unsupported_media_type"


class _Expander(Protocol):
    """Reads one stream after the other, as both formats allow. Raises its library's errors."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What `data` expands to, at most `_OUTPUT_STEP` bytes at a time."""

    @property
    def is_over(self) -> bool:
        """Whether the input so far ends with a stream's end."""


class _Gzip:
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP)

    @property
    def is_over(self) -> bool:
        return self._stream.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._stream.eof and data:
                self._stream = zlib.decompressobj(_GZIP)
            yield self._stream.decompress(data, _OUTPUT_STEP)
            # What is left behind inside comes with the next data: a stream ends with a checksum, never with output.
            data = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
            if not data:
                return


class _Zstd:
    def __init__(self) -> None:
        self._stream: Any = _zstd.ZstdDecompressor()

    @property
    def is_over(self) -> bool:
        return bool(self._stream.eof)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._stream.eof and data:
                self._stream = _zstd.ZstdDecompressor()
            yield self._stream.decompress(data, _OUTPUT_STEP)
            data = self._stream.unused_data if self._stream.eof else b""
            if not data and (self._stream.eof or self._stream.needs_input):
                return


def _import_zstd() -> Any:
    """The standard library's module (Python 3.14), or its backport where that is installed."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


_zstd = _import_zstd()
_EXPANDERS: dict[str, Callable[[], _Expander]] = {"gzip": _Gzip, "x-gzip": _Gzip}
_BROKEN: tuple[type[Exception], ...] = (zlib.error,)
if _zstd is not None:
    _EXPANDERS["zstd"] = _Zstd
    _BROKEN += (_zstd.ZstdError,)


def supported_encodings() -> tuple[str, ...]:
    """What `Accept-Encoding` may say of request bodies (RFC 7694)."""
    return tuple(name for name in _EXPANDERS if name != "x-gzip")


def expanded(pieces: Iterable[bytes], encoding: str, limit: int) -> Iterator[bytes]:
    """A body as it was before it was compressed, both in pieces. `encoding` is the value of `Content-Encoding`: one
    coding, or `identity`. Takes hardly any memory, whatever is in the body, and never gives more than `limit` bytes.
    Raises BodyTooLarge, InvalidRequest (a broken stream) and UnsupportedEncoding."""
    names = [name for each in encoding.lower().split(",") if (name := each.strip()) not in ("", "identity")]
    if len(names) > 1:
        raise UnsupportedEncoding("a body is compressed once at most")
    for name in names:
        if name not in _EXPANDERS:
            known = ", ".join(supported_encodings())
            raise UnsupportedEncoding(
                f"a body of encoding {name[:40]!r} is not read; send it plain, or as one of: {known}"
            )
        pieces = _expanded(pieces, name, limit)
    return iter(pieces)


def _expanded(pieces: Iterable[bytes], name: str, limit: int) -> Iterator[bytes]:
    stream = _EXPANDERS[name]()
    size = 0
    try:
        for piece in pieces:
            for start in range(0, len(piece), _INPUT_STEP):
                for out in stream.feed(piece[start : start + _INPUT_STEP]):
                    size += len(out)
                    if size > limit:
                        raise BodyTooLarge(f"the body exceeds limits.max_body_bytes ({limit}) once it is expanded")
                    yield out
    except _BROKEN as error:
        raise _broken(name, str(error)) from None
    if not stream.is_over:
        raise _broken(name, "it ends too early")


def _broken(name: str, reason: str) -> InvalidRequest:
    return InvalidRequest.at(msg=f"the body is not valid {name}: {reason[:200]}", type="encoding_invalid")
