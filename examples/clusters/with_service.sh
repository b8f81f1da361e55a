#!/usr/bin/env bash
# Trains with a BOTS service of its own, on the node's disk: sbatch with_service.sh python train.py
#
# SQLite refuses network file systems, so the service's data is on the node. A copy on a shared disk outlives the
# node: it is written every ten minutes, and when training ends or Slurm is about to end the job. The next job, or the
# same one after a requeue, continues from it. Slurm sets SLURM_*; elsewhere (SkyPilot, a plain shell) nothing needs them.
#
#   BOTS_DATASET       name of the dataset that your trainer uses (required)
#   BOTS_KEPT          the copy (DATASET.db where you submit the job)
#   BOTS_KEEP_EVERY_S  seconds between two copies (600)
#
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@180
set -euo pipefail

: "${BOTS_DATASET:?name the dataset that your trainer uses}"
kept=${BOTS_KEPT:-${SLURM_SUBMIT_DIR:-$PWD}/$BOTS_DATASET.db}
every_s=${BOTS_KEEP_EVERY_S:-600}
data=$(mktemp -d "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}/bots.XXXXXX")
host=127.0.0.1 port=$((20000 + ${SLURM_JOB_ID:-$$} % 20000))
if [ "${SLURM_JOB_NUM_NODES:-1}" -gt 1 ]; then # the other nodes reach it by this node's name, with a key
    BOTS_ADMIN_KEY=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
    export BOTS_ADMIN_KEY BOTS_API_KEY=$BOTS_ADMIN_KEY BOTS_HOST=0.0.0.0
    host=$(hostname -f)
fi
export BOTS_URL=http://$host:$port

copy='import sqlite3, sys; one, other = map(sqlite3.connect, sys.argv[1:]); one.backup(other); other.close()'
keep() {
    { python3 -c "$copy" "$data/bots.db" "$data/copy.db" && cp "$data/copy.db" "$kept.new" && mv "$kept.new" "$kept"; } ||
        echo "not copied: see above" >&2
}

keep_regularly() {
    trap 'kill "$nap"; exit' TERM
    while true; do
        sleep "$every_s" &
        nap=$!
        wait "$nap"
        keep
    done
}

if [ -f "$kept" ]; then cp "$kept" "$data/bots.db"; fi
bots serve --data-dir "$data" --port "$port" 2>"$data/service.log" &
service=$!
end_service() {
    kill "$service" 2>/dev/null && wait "$service" || true
    rm -rf "$data"
}
trap end_service EXIT
until bots whoami >/dev/null 2>&1; do
    kill -0 "$service" 2>/dev/null || { cat "$data/service.log" >&2; exit 1; }
    sleep 0.2
done

keep_regularly >/dev/null &
keeper=$!
"$@" &
trainer=$!
trap 'kill "$trainer" 2>/dev/null' TERM
status=0
wait "$trainer" || status=$?
while kill -0 "$trainer" 2>/dev/null; do # a signal ended the first wait; the trainer may still save a checkpoint
    wait "$trainer" || status=$?
done
kill "$keeper" 2>/dev/null && wait "$keeper" || true
keep
exit "$status"
