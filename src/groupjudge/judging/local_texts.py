"""Texts on their way into the embedded judge's small context: cut to fit, and without a word of the model's own."""

from __future__ import annotations

import re

from groupjudge.model import Conversation, Message

_CONTROL_WORD = re.compile(r"<(?=[|/\w｜])|\[(?=/?[A-Z_]+\])")
"""Where something begins that a tokenizer may take for a control token: `<eos>`, `<|im_end|>`, `[INST]`."""
_MESSAGES_SHOWN = 12


def shortened(text: str, limit: int) -> str:
    """`text` in at most `limit` characters, plus the marker that says how many were left out of its middle. Both ends
    stay: what an answer is about stands at its start, and what it concludes at its end."""
    if len(text) <= limit:
        return text
    head, tail = (limit + 1) // 2, limit // 2
    return f"{text[:head]} [... {len(text) - limit} characters left out ...] {text[len(text) - tail :]}"


def disarmed(text: str) -> str:
    """`text` with a blank after every bracket that could start a control token: llama.cpp reads these in a prompt."""
    return _CONTROL_WORD.sub(lambda match: match[0] + " ", text)


def indented(text: str) -> str:
    """`text` without blank lines, every line after the first indented: none can pass for a line of the prompt."""
    lines = (line.strip() for line in text.splitlines())
    return "\n    ".join(line for line in lines if line)


def printable(text: str) -> str:
    """`text` on one line, in printable characters only."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())


def shortened_conversation(conversation: Conversation, limit: int) -> Conversation:
    """The conversation in about `limit` characters: of many messages the first and the last ones, each shortened."""
    half = _MESSAGES_SHOWN // 2
    if len(conversation) > _MESSAGES_SHOWN:
        conversation = conversation[:half] + conversation[-half:]
    share = max(1, limit // max(1, len(conversation)))
    return tuple(Message(m.role, disarmed(shortened(m.content, share))) for m in conversation)
