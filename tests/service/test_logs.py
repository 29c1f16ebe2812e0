"""The log: JSON lines, without what an exception quotes (L26). In a process of its own, since it is the process's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import groupjudge

_SCRIPT = """
import logging, structlog
from groupjudge.service.logs import configure_logs
configure_logs()
structlog.get_logger("x").info("happened", group="g\\n1", number=1)
structlog.get_logger("x").debug("not shown")
logging.getLogger("library").warning("said %s", "a" * 600)
logging.getLogger("library").info("not shown")
logging.getLogger("uvicorn.error").info("not shown")
try:
    raise ValueError("the text of an answer")
except ValueError:
    logging.getLogger("asyncio").exception("broke")
"""


def test_every_line_is_json_and_no_exception_is_quoted() -> None:
    """L26: our own events and the warnings of libraries, on stderr; each text bounded."""
    env = {**os.environ, "PYTHONPATH": str(Path(groupjudge.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True, env=env)
    assert run.stdout == ""
    lines = [json.loads(line) for line in run.stderr.splitlines()]
    assert [(line["event"][:8], line["level"]) for line in lines] == [
        ("happened", "info"),
        ("said aaa", "warning"),
        ("broke", "error"),
    ]
    assert (lines[0]["group"], lines[0]["number"]) == ("g\n1", 1)
    assert len(lines[1]["event"]) == 500
    assert lines[2]["error"] == "ValueError"
    assert "the text of an answer" not in run.stderr
