"""The server as a library: for adapters whose host starts it and tells it where to listen and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from groupjudge.configuration import Given, load_given
from groupjudge.service.extras import ExtraRoute
from groupjudge.settings import Settings

__all__ = ["ExtraRoute", "Given", "Settings", "serve", "settings_of"]


def settings_of(given: Iterable[Given], environ: Mapping[str, str]) -> Settings:
    """The configuration that `given` makes, the later over the earlier, and over it the `GROUPJUDGE_` variables of
    `environ` (H12). Raises ConfigurationError with a line for each problem."""
    return load_given(given, environ)


def serve(settings: Settings, *, extras: Sequence[ExtraRoute] = (), on_listening: Callable[[str], None]) -> None:
    """Serve, with further routes beside our own, until SIGTERM or SIGINT; must be called in the main thread. The
    process is to end after that: further such signals are ignored. `on_listening` gets the address once connections
    are accepted. Raises ConfigurationError."""
    from groupjudge.service.run import serve as run

    run(settings, extras=extras, on_listening=on_listening)
