#!/usr/bin/env bash
# One index job's whole life on one node: what `make demo` shows.
#
# It starts `lancemaster dev` (one master and the stub backend) on free loopback
# ports with its data in a temporary folder, submits a CREATE against the dataset
# in testdata, follows it to its end, and stops everything again.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly master=$PWD/bin/lancemaster
readonly dataset=$PWD/testdata/lance/typed.lance
work=$(mktemp -d "${TMPDIR:-/tmp}/lancemaster-demo.XXXXXX")
dev=

stop() {
  local code=$? stopped=0
  trap - EXIT
  if [[ -n $dev ]]; then
    kill -TERM "$dev" 2>/dev/null || true
    wait "$dev" || stopped=$?
    if ((stopped != 0)); then
      echo "demo: the node did not stop cleanly (exit $stopped); its output:" >&2
      cat "$work/dev.out" >&2
      code=1
    fi
  fi
  rm -rf "$work"
  if ((code == 0)); then
    printf '\nEverything is stopped and cleaned up.\n'
  fi
  exit "$code"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP

# say prints what is about to be shown; run prints a command as a person would
# type it, then runs it.
say() { printf '\n\033[1m%s\033[0m\n' "$*" | if [[ -t 1 ]]; then cat; else sed 's/\x1b\[[0-9]*m//g'; fi; }
run() {
  printf '$ lancemaster'
  printf ' %s' "${@//$dataset/\$PWD/testdata/lance/typed.lance}"
  printf '\n'
  "$master" "$@"
}

say "Starting one master and the stub backend"
"$master" dev --data "$work/data" --admin-listen 127.0.0.1:0 --report-listen 127.0.0.1:0 \
  --http-listen 127.0.0.1:0 --raft-listen 127.0.0.1:0 \
  --stub-listen 127.0.0.1:0 --stub-heartbeat-listen 127.0.0.1:0 >"$work/dev.out" 2>&1 &
dev=$!
for _ in $(seq 1 300); do
  LANCEMASTER_ADDR=$(sed -n 's/^ *admin  *\([^ ]*\).*/\1/p' "$work/dev.out")
  [[ -n $LANCEMASTER_ADDR ]] && break
  if ! kill -0 "$dev" 2>/dev/null; then
    echo "demo: the node ended while starting:" >&2
    cat "$work/dev.out" >&2
    dev=
    exit 1
  fi
  sleep 0.1
done
[[ -n $LANCEMASTER_ADDR ]] || { echo "demo: the node did not start within 30 s" >&2; cat "$work/dev.out" >&2; exit 1; }
export LANCEMASTER_ADDR
cat <<'TXT'
The stub backend takes no work: it answers every job with NOT_IMPLEMENTED_ERROR,
on purpose. So this job ends NOT_COMMITTED - the dataset is certainly unchanged -
and its name is free again.
TXT

say "The dataset: a real Lance dataset, read by the master itself"
run dataset inspect "$dataset" --column vec

say "Submitting the job"
run index create demo_vec --catalog local --table demo.typed --dataset "$dataset" --column vec \
  --type ivf_pq --property metric=l2 --property num_partitions=2 --property num_sub_vectors=4 \
  --request-id demo-1

say "Waiting for its outcome: the record at its end (exit code 3 says: not committed)"
code=0
run job wait 1 --timeout 30s || code=$?
((code == 3)) || { echo "demo: expected exit code 3 from job wait, got $code" >&2; exit 1; }

say "Its life"
run job history 1

say "The name is free again: the same CREATE would be admitted"
run index create demo_vec --catalog local --table demo.typed --dataset "$dataset" --column vec \
  --type ivf_pq --property metric=l2 --property num_partitions=2 --property num_sub_vectors=4 --dry-run
