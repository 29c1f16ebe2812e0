"""Structured logs: one JSON object a line on stderr. Who logs names groups, attempts, phases and reasons, never a text
of a question, an answer or a judge (L26)."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logs(level: int = logging.INFO) -> None:
    """Send our own events, and the warnings of the libraries below, to stderr."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in ("uvicorn", "uvicorn.error", "asyncio", "aiohttp"):
        logging.getLogger(name).setLevel(logging.WARNING)


class _JsonLines(logging.Formatter):
    """A library's record in the shape of ours. Of an exception only its class is shown: its text may quote a body."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"event": record.getMessage()[:500], "logger": record.name, "level": record.levelname.lower()}
        if record.exc_info and record.exc_info[0]:
            line["error"] = record.exc_info[0].__name__
        return structlog.processors.JSONRenderer()(None, record.levelname, line)  # type: ignore[return-value]
