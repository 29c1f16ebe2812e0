"""A group by plain HTTP: python examples/plain_http.py http://127.0.0.1:8600 run-7/step-12/question-3"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.request import HTTPError, Request, urlopen

QUESTION = "What is the capital of France?"
ANSWERS = ["Paris.", "It is Paris, on the Seine.", "Lyon?", "I do not know."]


def reward(server: str, group: str, slot: int) -> float | None:
    """Send one answer and wait until its group is judged. None: no reward, leave the answer out of the update."""
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWERS[slot]}]}
    place = {"_ng_group_id": group, "_ng_group_size": len(ANSWERS), "_ng_rollout_index": slot}
    body = {"responses_create_params": {"input": QUESTION}, "response": {"output": [message]}, **place}
    headers = {"Content-Type": "application/json", "Prefer": "return=minimal"}
    if os.environ.get("REWARD_TOKEN"):  # the server's server.auth_token, where it has one
        headers["Authorization"] = f"Bearer {os.environ['REWARD_TOKEN']}"
    for pause in (1, 2, 4, 8, 16):
        try:
            said = json.load(urlopen(Request(f"{server}/verify", json.dumps(body).encode(), headers), timeout=4000))
            return None if said["mask_sample"] else said["reward"]
        except HTTPError as refusal:  # 401, 409, 422, 503, ...: `code` and `detail` say which way
            raise SystemExit(f"{refusal.code} {refusal.read().decode()}") from None
        except OSError:  # the same bytes again are safe: nothing is judged twice
            time.sleep(pause)
    raise SystemExit(f"no reply from {server}")


with ThreadPoolExecutor(len(ANSWERS)) as callers:
    print(json.dumps(list(callers.map(lambda slot: reward(*sys.argv[1:3], slot), range(len(ANSWERS))))))
