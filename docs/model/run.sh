#!/usr/bin/env bash
# Checks the model of the dispatch protocol: bash docs/model/run.sh, or with the argument "all" and then
# guards.sh as well, with the same verifier.
#
# First that every invariant holds in every state that can be reached, then that the model can do what it
# is about, so that the first part is not true of a model that does nothing. README.md explains both.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
build

failed=0

searches=$(mktemp -d)
trap 'rm -rf "$searches" ${WORK:+"$WORK"}' EXIT

# holds WHAT SWITCHES... expects every invariant to hold.
holds() {
  local what=$1
  shift
  verify "$@" || return
  if [[ $result == holds ]]; then
    printf 'ok      %-66s %9s states %4ss\n' "$what" "$states" "$took"
  else
    printf 'FAILED  %s: %s is violated\n' "$what" "$invariant"
    return 1
  fi
}

# with_and_without WHAT SWITCHES... expects it with backends that take a call whatever process epoch it
# names, and with those that check it; the two searches go on beside each other.
with_and_without() {
  local what=$1 search code=0
  shift
  holds "$what" "$@" >"$searches/1" 2>&1 &
  local -a ids=($!)
  holds "$what, backends that check the epoch" "$@" checks_epoch >"$searches/2" 2>&1 &
  ids+=($!)
  for search in "${ids[@]}"; do wait "$search" || code=1; done
  cat "$searches/1" "$searches/2"
  if ((code)); then failed=1; fi
}

# reaches NUMBER WHAT SWITCHES... expects the model to come to it.
reaches() {
  local number=$1 what=$2
  shift 2
  verify "reach=$number" "$@"
  if [[ $result == fails && $invariant == "reach=$number" ]]; then
    printf 'ok      can happen: %s\n' "$what"
  else
    printf 'FAILED  never happens: %s\n' "$what"
    failed=1
  fi
}

with_and_without 'one name, three leaders' same_name
with_and_without 'two names at once, one leader' terms=1 restarts=1

reaches 1 'a job is COMMITTED' same_name
reaches 2 'a job is NOT_COMMITTED' same_name
reaches 3 'a job is UNKNOWN' same_name
reaches 4 'an owner concludes that nothing was sent' same_name
reaches 12 'an owner that leads again concludes that nothing was sent in its older term' same_name no_restore
reaches 5 "two heartbeats release the slot of the leader's own send" same_name
reaches 11 'two heartbeats release an inherited slot' same_name
reaches 6 'a later leader accepts the report of a send that it inherited' same_name
reaches 9 'a leader that was deposed sends within the window' same_name no_restore
reaches 8 'two jobs of one name work at once, after a force release' same_name
reaches 10 'a job that the restored journal has lost is sent by a master of the old incarnation' same_name
reaches 7 'after quarantine and re-opening a new job is sent' same_name

if [[ ${1:-} == all ]]; then
  echo
  bash "$(dirname "${BASH_SOURCE[0]}")/guards.sh" || failed=1
fi
exit "$failed"
