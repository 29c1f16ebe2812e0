#!/usr/bin/env bash
# A whole group at once, and one answer after the other: examples/curl.sh http://127.0.0.1:8600 run-7/step-12
set -euo pipefail
server=$1 run=$2
# The server's server.auth_token, where it has one.
token=(); if [[ -n ${REWARD_TOKEN:-} ]]; then token=(--header "Authorization: Bearer $REWARD_TOKEN"); fi
fetch() { curl --silent --show-error --fail-with-body ${token[@]+"${token[@]}"} "$@"; }
post() { fetch --json @- "$@"; }
encoded() { printf %s "$1" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g'; }  # every byte, as %XX

# 1. You hold all answers.
post "$server/v1/judge" <<JSON
{"question": "What is 2 + 2?", "answers": ["Four.", "It is 4.", "5?"], "id": "$run/question-1"}
JSON
echo

# 2. You hold one answer at a time: leave it, go on, fetch the reward later.
for slot in 0 1 2; do
    post --header "Prefer: respond-async" --output /dev/null "$server/verify" <<JSON
{"responses_create_params": {"input": "Why is the sky blue?"},
 "response": {"output": [{"type": "message", "content": [{"type": "output_text", "text": "Because, $slot."}]}]},
 "_ng_group_id": "$run/question-2", "_ng_group_size": 3, "_ng_rollout_index": $slot}
JSON
done
for slot in 0 1 2; do
    fetch "$server/v1/groups/$(encoded "$run/question-2")/0/$slot?wait=60"
    echo
done
