#!/usr/bin/env bash
# One index job's whole life on one node: what `make demo` shows.
#
# It starts `lancemaster dev` (one master and the stub backend) on free loopback
# ports with its data in a temporary folder, submits a CREATE against the dataset
# in testdata, follows it to its end, and stops everything again.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=deploy/demo/lib.sh
source deploy/demo/lib.sh

say "Starting one master and the stub backend"
start node "$master" dev --data "$work/data" --admin-listen 127.0.0.1:0 --report-listen 127.0.0.1:0 \
  --http-listen 127.0.0.1:0 --raft-listen 127.0.0.1:0 \
  --stub-listen 127.0.0.1:0 --stub-heartbeat-listen 127.0.0.1:0
printed node 's/^ *admin  *\([^ ]*\).*/\1/p'
export LANCEMASTER_ADDR=$REPLY
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
ends 3 job wait 1 --timeout 30s

say "Its life"
run job history 1

say "The name is free again: the same CREATE would be admitted"
run index create demo_vec --catalog local --table demo.typed --dataset "$dataset" --column vec \
  --type ivf_pq --property metric=l2 --property num_partitions=2 --property num_sub_vectors=4 --dry-run
