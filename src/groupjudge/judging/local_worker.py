"""The helper process of the embedded judge: llama.cpp, asked over stdin and answering on stdout, one JSON value a line.

A process of its own, because llama.cpp cannot be interrupted while it reads a prompt, ends the process it runs in
where an assertion of its fails, and has settings that only the environment takes. So it can be killed at once, and can
fail alone. It is a script that knows nothing of judging and imports nothing of this package.

    in   {"path", "context", "slots", "threads", "starts"}     first, once; `starts`: what the prompts of a slot share
    out  {"ready": true} | {"failed": why}
    in   {"id", "op": "read", "graded", "told", "words"}       a prompt for slot 0; a prompt for slot 1 and its words
    out  {"id", "likely": [[word, log-probability], ...], "expected": [log-probability, ...]}
    in   {"id", "op": "chat", "text", "schema", "max_tokens"}
    out  {"id", "text", "finished"}
    in   {"cancel": id}                                        whatever is left of that request is not done
    out  {"id", "error", "too_long"} | {"id", "cancelled": true}

The end of stdin ends the process at once.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from importlib import import_module
from typing import Any, TextIO

SEED = 1
WORDS = 40
"""How many of the likeliest next words are looked at."""
EXPECTED_TOKENS = 12
"""How many tokens of an answer are compared with what was to be expected: each takes a step of its own."""
TOO_LONG = "exceed_context_size_error"


class _Refused(Exception):
    """llama.cpp did not do what it was asked; `kind` is its own word for why."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class Worker:
    """One loaded model, and the requests that wait for it."""

    def __init__(self, setup: dict[str, Any], out: TextIO) -> None:
        self._out = out
        self._server = load(setup)
        self._waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._cancelled: set[int] = set()
        self._starts: list[str] = list(setup["starts"])
        for slot in range(len(self._starts)):
            self._rewind(slot)
        threading.Thread(target=self._work, daemon=True).start()

    def take(self, line: dict[str, Any]) -> None:
        """One line of input."""
        if "cancel" in line:
            self._cancelled.add(line["cancel"])
        else:
            self._waiting.put(line)

    def _work(self) -> None:
        while True:
            request = self._waiting.get()
            say(self._out, {"id": request["id"], **self._answer(request)})
            self._cancelled.discard(request["id"])

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["id"] in self._cancelled:
            return {"cancelled": True}
        try:
            return self._read(request) if request["op"] == "read" else self._chat(request)
        except _Refused as refused:
            return {"error": str(refused)[:300], "too_long": refused.kind == TOO_LONG}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"[:300], "too_long": False}

    def _read(self, request: dict[str, Any]) -> dict[str, Any]:
        """What comes next after one prompt, and how much the words that follow another one were to be expected."""
        likely = self._next(request["graded"], 0)
        if request["id"] in self._cancelled:
            return {"cancelled": True}
        return {"likely": likely, "expected": self._expected(request["told"], request["words"], 1)}

    def _next(self, prompt: str, slot: int) -> list[tuple[str, float]]:
        self._rewind(slot)
        (step,) = self._steps({"prompt": prompt, "id_slot": slot, "n_predict": 1, "n_probs": WORDS})
        return [(entry["token"], entry["logprob"]) for entry in step["top_logprobs"]]

    def _expected(self, prompt: str, words: str, slot: int) -> list[float]:
        """The log-probabilities of the first tokens of `words`, which a grammar makes the only way to go on."""
        self._rewind(slot)
        body = {"prompt": prompt, "id_slot": slot, "n_predict": EXPECTED_TOKENS, "n_probs": 1}
        return [step["logprob"] for step in self._steps({**body, "grammar": literal(words)}) if step["token"]]

    def _rewind(self, slot: int) -> None:
        """Let a slot hold what all of its prompts start with, and no more. What was read before then decides nothing:
        how many tokens are read at once shows in the last digits of their numbers."""
        if slot < len(self._starts):
            _checked(self._complete({"prompt": self._starts[slot], "id_slot": slot, "n_predict": 1}))

    def _steps(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        return list(_checked(self._complete(body))["choices"][0]["logprobs"]["content"])

    def _complete(self, body: dict[str, Any]) -> Any:
        return self._server.handle_completions({**body, **FIXED, "cache_prompt": True})

    def _chat(self, request: dict[str, Any]) -> dict[str, Any]:
        """A whole reply to one user message; a cancelled one stops at its next word."""
        parts: list[str] = []
        reasons: list[str] = []
        failures: list[_Refused] = []

        def listen(chunk: Any) -> bool:
            try:
                for choice in _checked(chunk).get("choices", ()):
                    parts.append(choice.get("delta", {}).get("content") or "")
                    reasons.append(choice.get("finish_reason") or "")
            except _Refused as refused:
                failures.append(refused)
            return request["id"] in self._cancelled

        body = {
            "messages": [{"role": "user", "content": request["text"]}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "verdict", "schema": request["schema"]}},
            "chat_template_kwargs": {"enable_thinking": False},
            "max_tokens": request["max_tokens"],
            "stream": True,
            "cache_prompt": False,  # see _rewind
            **FIXED,
        }
        self._server.handle_chat_completions(body, listen)
        if request["id"] in self._cancelled:
            return {"cancelled": True}
        if failures:
            raise failures[0]
        return {"text": "".join(parts), "finished": "stop" in reasons}


FIXED = {"temperature": 0.0, "seed": SEED}


def load(setup: dict[str, Any]) -> Any:
    """The model at `path`. Three settings make its numbers depend little on how many tokens are read at once (measured:
    without them the log-odds of one prompt differ by 0.1, as much as two answers do): no flash attention, 32-bit keys
    and values, no repacked weights."""
    llama: Any = import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = setup["path"]
    params.n_parallel = setup["slots"]
    params.n_ctx = setup["context"] * setup["slots"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = setup["threads"]
    params.flash_attn_type = llama.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_type_k = params.cache_type_v = llama.ggml_type.GGML_TYPE_F32
    params.no_extra_bufts = True
    params.swa_full = True  # else a model with sliding windows reads its whole prompt again each time
    params.cache_ram_mib = 0
    params.n_ctx_checkpoints = 0
    params.n_gpu_layers = 0
    params.warmup = False
    params.verbosity = -1
    params.use_jinja = True
    close_the_door(params)
    return llama.Server(params)


def close_the_door(params: Any) -> None:
    """llama.cpp opens an HTTP port of its own on the loopback address, which nobody here needs: nothing but its health
    page answers there without a key that nobody knows."""
    params.api_keys = [os.urandom(16).hex()]
    params.endpoint_slots = params.endpoint_props = params.endpoint_metrics = params.ui = False


def literal(words: str) -> str:
    """A grammar (GBNF) whose only text is `words`, which holds no control characters, and a blank line."""
    quoted = words.replace("\\", "\\\\").replace('"', '\\"')
    return f'root ::= "{quoted}\\n\\n"'


def _checked(reply: Any) -> dict[str, Any]:
    if isinstance(reply, str | bytes):
        reply = json.loads(reply)
    error = reply.get("error")
    if error:
        raise _Refused(str(error.get("message")), str(error.get("type")))
    return dict(reply)


def say(out: TextIO, value: dict[str, Any]) -> None:
    """Write one line."""
    out.write(json.dumps(value) + "\n")
    out.flush()


def main() -> None:
    """Load the model, then serve until stdin ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no reply
    try:
        worker = Worker(json.loads(sys.stdin.readline()), out)
    except Exception as error:
        say(out, {"failed": f"{type(error).__name__}: {error}"[:300]})
        os._exit(1)
    say(out, {"ready": True})
    for line in sys.stdin:
        worker.take(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
