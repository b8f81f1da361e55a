#!/usr/bin/env bash
# A whole training loop at a BOTS service, with curl (7.71 or later) and jq. Only the model is made up.
#
#     BOTS_URL=http://127.0.0.1:8765 ./trainer.sh 45 checkpoint.json
#
# Trains to step 45 and keeps where it stands in checkpoint.json. Stop it at any moment, even with kill -9, and start it
# again: it resumes from its checkpoint, and rewinds the service's belief to the same step. BOTS_API_KEY is sent if set.
set -euo pipefail

url=${BOTS_URL:-http://127.0.0.1:8765}
steps=${1:-45}
checkpoint=${2:-checkpoint.json}
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# call METHOD PATH [BODY]: prints the answer. curl tries again after lost connections and 408, 429, 500, 502, 503 and 504,
# with growing waits and never before Retry-After; a write has the same Idempotency-Key each time, so it counts once.
call() {
    local method=$1 path=$2 body=${3:-} status
    local options=(--silent --show-error --max-time 10 --retry 8 --retry-all-errors --retry-max-time 120)
    local headers=('Accept: application/json')
    if [ "$method" != GET ]; then
        options+=(--data-binary @-)
        headers+=('Content-Type: application/json' "Idempotency-Key: $(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')")
    fi
    if [ -n "${BOTS_API_KEY:-}" ]; then headers+=("Authorization: Bearer $BOTS_API_KEY"); fi
    # The headers come as a file, as others on this machine can see a command's arguments.
    status=$(curl "${options[@]}" --request "$method" --header @<(printf '%s\n' "${headers[@]}") \
        --output "$answer" --write-out '%{http_code}' "$url$path" <<<"$body") || true # 000 without an answer
    if [[ $status != 2?? ]]; then
        echo "$method $path: $status $(jq -r '"\(.title): \(.detail)"' "$answer" 2>/dev/null)" >&2
        return 1
    fi
    cat "$answer"
}

# How many of 16 rollouts solve a level, for a model that has come so far. Yours come from your trainer.
solved() { # SKILL LEVEL
    local count=$(($1 - $2))
    echo $((count < 0 ? 0 : count > 16 ? 16 : count))
}

pool() { # what two reference models can do tells the service how the tasks hang together
    local level
    for level in $(seq 0 99); do
        echo "level-$level $(solved 20 "$level") $(solved 60 "$level")"
    done | jq -cnR '{reference_models: ["weak", "strong"], tasks: [inputs | split(" ")
        | {id: .[0], reference_pass_rates: [(.[1] | tonumber) / 16, (.[2] | tonumber) / 16]}]}'
}

save() { # STEP; yours saves the weights, too. Renamed into place, so that it is whole or not there
    echo "{\"step\": $1}" >"$checkpoint.new"
    mv "$checkpoint.new" "$checkpoint"
}

call PUT /datasets/levels "$(pool)" >/dev/null # the same pool again changes nothing
if [ -e "$checkpoint" ]; then
    step=$(jq .step "$checkpoint")
    call POST /datasets/levels/runs/default/rewind "{\"step\": $step}" >/dev/null
else
    step=0 # refused if the run has learned something already: it is somebody else's
    call PUT /datasets/levels/runs/default '{"seed": 7}' >/dev/null
    save 0
fi

while [ "$step" -lt "$steps" ]; do
    selection=$(call POST /select '{"dataset": "levels", "run": "default", "count": 8}')
    read -r id tasks <<<"$(jq -r '[.selection_id, .tasks[].id] | join(" ")' <<<"$selection")"
    report=$(for task in $tasks; do
        echo "$task $(solved $((20 + step)) "${task#level-}")"
    done | jq -cnR --arg id "$id" '{dataset: "levels", run: "default", selection_id: $id,
        outcomes: [inputs | split(" ") | {task: .[0], successes: (.[1] | tonumber), trials: 16}]}')
    receipt=$(call POST /report "$report")
    read -r step effective reported <<<"$(jq -r '"\(.step) \(.effective) \(.reported)"' <<<"$receipt")"
    echo "step $step: $effective of $reported tasks taught something"
    if [ $((step % 5)) -eq 0 ]; then save "$step"; fi
done
call GET /datasets/levels/runs/default | jq -r '"\(.totals.rollouts | floor) rollouts in \(.step) steps"'
