#!/usr/bin/env bash
# slime or miles on rewards from groupjudge. It wants GPUs, and a server: groupjudge serve --set judge.base_url=http://judge:8000/v1
# Your own command and its arguments come behind it: examples/slime_group_rm.sh train.py --n-samples-per-prompt 8 ...
set -euo pipefail

settings=$(mktemp --suffix .yaml)
cat > "$settings" <<YAML
groupjudge_url: ${REWARD_SERVER:-http://127.0.0.1:8600}
YAML
python3 "$@" --group-rm --custom-rm-path groupjudge.integrations.slime.reward --custom-config-path "$settings"
