#!/usr/bin/env bash
# How index jobs end, and what each end still holds: what `make demo-outcomes` shows.
#
# It starts one master and one SIMULATED backend, which builds nothing and reports what
# its rules say, on free loopback ports with all data in a temporary folder. Jobs end
# COMMITTED and UNKNOWN; an operator force-releases one; the backend is restarted.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=deploy/demo/lib.sh
source deploy/demo/lib.sh
readonly stub=$PWD/bin/lanceworker-stub

# backend LISTEN HEARTBEAT starts the simulated backend; $at and $heart become its addresses.
backend() {
  start backend "$stub" --listen "$1" --heartbeat-listen "$2" \
    --simulate 'done_*:report=NATIVE_OK,after=200ms,proof=CHILD_REAPED' \
    --simulate 'lost_*:report=NATIVE_IO,after=200ms,message=the store timed out while committing' \
    --simulate 'unproven_*:report=NATIVE_OK,after=200ms'
  printed backend 's/^lanceworker-stub .*; backend \([^ ]*\) heartbeat \([^ ]*\)$/\1 \2/p'
  at=${REPLY% *} heart=${REPLY#* }
}

# create NAME COLUMN TYPE submits a job for an index of the dataset.
create() {
  run index create "$1" --catalog local --table demo.typed --dataset "$dataset" --column "$2" --type "$3"
}

# slots waits until the backend holds so many slots.
slots() {
  local deadline=$((SECONDS + 20)) pattern="\"slots_held\": $1\\b"
  until "$master" backend list -o json | grep -qE "$pattern"; do
    ((SECONDS < deadline)) || fail "the backend does not hold $1 slots after 20 s"
    sleep 0.2
  done
}

# holds JOB FENCE SLOT fails unless the job holds its name and its slot as said.
holds() {
  local job
  job=$("$master" job show "$1" -o json)
  if ! grep -q "\"fence_held\": $2" <<<"$job" || ! grep -q "\"slot_held\": $3" <<<"$job"; then
    fail "job $1 does not hold what it should (name $2, slot $3): $job"
  fi
}

say "Starting one master and one simulated backend"
start master "$master" serve --data-dir "$work/data" --admin-listen 127.0.0.1:0 \
  --report-listen 127.0.0.1:0 --http-listen 127.0.0.1:0 --raft-listen 127.0.0.1:0
printed master 's/.*msg=started .*admin=\([^ ]*\).*/\1/p'
export LANCEMASTER_ADDR=$REPLY
deadline=$((SECONDS + start_limit))
until "$master" health >/dev/null 2>&1; do
  ((SECONDS < deadline)) || fail "the master is not ready after $start_limit s"
  sleep 0.1
done
backend 127.0.0.1:0 127.0.0.1:0
cat <<'TXT'
The backend is SIMULATED: it builds no index and touches no dataset. Jobs for done_*
it reports as committed, with proof that the worker is gone; unproven_* without that
proof; for lost_* it reports an I/O error, after which nobody knows what was written.
TXT
run backend add 127.0.0.1 --be-port "${at##*:}" --heartbeat-port "${heart##*:}" --label simulated=true
run catalog create local
run settings set admission.enabled=true local_datasets.allowed=true \
  backend.rpc_timeout=1s backend.heartbeat_interval=1s >/dev/null

say "1. UNKNOWN: the worker failed in a way that leaves the dataset in doubt (exit code 4)"
create lost_vec title btree
ends 4 job wait 1 --timeout 30s
holds 1 true true

say "It holds its name, its quotas and its slot, and says what would release them"
run job explain 1

say "Nothing may use its name: a second job for it is refused"
refuses FENCE_HELD index create LOST_VEC --catalog local --table demo.typed --dataset "$dataset" --column title --type btree

say "Releasing it at once is refused: what was sent may still be arriving"
refuses TOO_EARLY job force-release 1 --yes --note "host checked by hand: nothing runs there"

say "2. COMMITTED: reported with proof; the refresh is done, nothing is held any more"
create done_id id btree
ends 0 job wait 2 --for resolved --timeout 30s
holds 2 false false

say "3. COMMITTED, but without proof that the worker is gone: the name is free, the slot is not"
create unproven_flag flag bitmap
ends 0 job wait 3 --for resolved --timeout 30s
holds 3 false true
run job explain 3
slots 2
run backend list

say "4. Force release: once enough time has passed, an operator who knows better frees job 1"
echo "(possible 10 s and backend.rpc_timeout after the job was sent; waiting for that)"
deadline=$((SECONDS + 30))
while refused=$("$master" job explain 1) && grep -q TOO_EARLY <<<"$refused"; do
  ((SECONDS < deadline)) || fail "job 1 cannot be released after 30 s: $refused"
  sleep 0.5
done
run job force-release 1 --yes --note "host checked by hand: nothing runs there"
holds 1 false false

say "5. The backend restarts: two heartbeats by different processes prove that job 3's worker is gone"
slots 1
stop backend
backend "$at" "$heart"
slots 0
holds 3 false false
run job history 3

say "How it ended"
run job list
run backend list
