#!/usr/bin/env bash
# Takes the guards of the dispatch protocol out of the model, one at a time: bash docs/model/guards.sh
#
# Each line of the table says what is taken out, and what the model says then: the invariant that breaks,
# or "holds" where the guard is redundant within the bounds of the search; first with backends that take a
# call whatever process epoch it names, then with backends that check it. A model that says anything else
# fails the script: a guard that no longer matters, or now does, is looked at by a person.
#
# With MODEL_FULL=1 the searches have the bounds of the full model, where that is feasible.
set -euo pipefail
if [[ -n ${MODEL_FULL:-} ]]; then : "${MODEL_TIMEOUT:=3600}"; fi
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
build

failed=0 fails=0 redundant=0 began=$SECONDS

# Bounds: two leaders (one leader change, or a restore) and one restart of a backend are enough to break what
# can be broken, except where a line says otherwise.
usual='terms=2 restarts=1'
races='terms=2 restarts=0' # MarkRunning against MarkRunning: many states, and backends do not matter
if [[ -n ${MODEL_FULL:-} ]]; then usual='terms=3 restarts=2'; fi

said=$(mktemp -d)
trap 'rm -rf "$said" ${WORK:+"$WORK"}' EXIT

# says FILE WORDS... writes to a file what a search says.
says() {
  local file=$1
  shift
  verify "$@" || return
  if [[ $result == holds ]]; then invariant=holds; fi
  echo "$invariant" >"$file"
}

# without WHAT SWITCHES BOUNDS EXPECTED EXPECTED_WITH_EPOCHS_CHECKED
#
# The two searches go on beside each other, but for the full ones, of which one may fill the memory.
without() {
  local what=$1 switches=$2 bounds=$3 variant expected got
  local -a all=()
  rm -f "$said"/*
  for variant in '' checks_epoch; do
    # shellcheck disable=SC2086 # words
    says "$said/of.$variant" $switches $bounds $variant &
    if [[ -n ${MODEL_FULL:-} ]]; then wait $! || exit 1; fi
  done
  wait
  for variant in '' checks_epoch; do
    expected=$4
    if [[ -n $variant ]]; then expected=$5; fi
    [[ -f $said/of.$variant ]] || exit 1 # it has said why
    got=$(<"$said/of.$variant")
    if [[ $got == holds ]]; then redundant=$((redundant + 1)); else fails=$((fails + 1)); fi
    all+=("$got")
    if [[ $got != "$expected" ]]; then
      echo "FAILED  without $what${variant:+, $variant}: $got, where $expected is expected" >&2
      failed=1
    fi
  done
  printf '%-58s %-20s %-20s\n' "$what" "${all[@]}"
}

printf '%-58s %-20s %-20s\n' 'taken out' 'epochs not checked' 'epochs checked'

echo '-- what safety rests on'
without 'the check in MarkRunning'                     'same_name no_mark_check'                     "$usual" STATES_GO_ON STATES_GO_ON
without '  the same, states aside'                     'same_name no_mark_check STATES_GO_ON'        "$usual" FENCE_HELD FENCE_HELD
without 'the check of the slots in MarkRunning'        'no_slot_check'                               'terms=1 restarts=0' WITHIN_CAP WITHIN_CAP
without 'the latch'                                    'same_name no_latch'                          "$usual" OUTCOME_TRUE OUTCOME_TRUE
without 'ambiguous never sends: answer and recheck'    'same_name ambiguous_sends no_recheck_record' "$usual" OUTCOME_TRUE OUTCOME_TRUE
without '  the same, outcomes and fences aside'        'same_name ambiguous_sends no_recheck_record OUTCOME_TRUE FENCE_HELD SLOT_HELD ONE_WORKER_PER_NAME WITHIN_CAP' "$races" ONE_SEND ONE_SEND
without 'only the owner concludes that nothing was sent' 'same_name anybody_concludes'               "$usual" OUTCOME_TRUE OUTCOME_TRUE
without 'the window check'                             'same_name no_window'                         "$usual" SLOT_HELD holds
without 'the window check after the dial (one before it)' 'same_name no_window_after_dial'           "$usual" SLOT_HELD holds
without 'the second heartbeat'                         'same_name one_heartbeat'                     "$usual" SLOT_HELD holds
without 'heartbeats requested after the send ended'    'same_name no_after_send_ended'               'terms=2 restarts=2' SLOT_HELD SLOT_HELD
without 'the wait for inherited jobs'                  'same_name no_inherited_wait'                 "$usual" SLOT_HELD holds
without 'Quarantine'                                   'same_name no_quarantine'                     "$usual" ONE_SEND ONE_SEND
without 'Quarantine: PENDING becomes UNKNOWN'          'same_name no_quarantine_pending'             "$usual" ONE_SEND ONE_SEND
without 'Quarantine: the gate closes, dispatch pauses' 'same_name no_quarantine_pause'               "$usual" ONE_WORKER_PER_NAME ONE_WORKER_PER_NAME
without 'Quarantine: the jump of the next job id'      'same_name no_id_jump'                        "$usual" ID_GIVEN_ONCE ID_GIVEN_ONCE
without 're-opening: the old masters are stopped'      'same_name no_masters_stopped'                "$usual" SLOT_HELD SLOT_HELD
without 're-opening: the backends are restarted'       'same_name no_backends_restarted'             "$usual" OUTCOME_TRUE OUTCOME_TRUE

echo '-- what the backends are trusted with'
without 'a connection stays with one process (no proxy)' 'same_name proxy no_restore'                "$usual" SLOT_HELD holds
without 'what was refused never runs'                  'same_name refused_may_run no_restore'        "$usual" SLOT_HELD SLOT_HELD

echo '-- pairs of which either is enough'
without 'the match of a report, where an id is re-used' 'same_name no_report_match no_id_jump ID_GIVEN_ONCE' "$usual" OUTCOME_TRUE OUTCOME_TRUE
without '  the match alone'                            'same_name no_report_match'                   "$usual" holds holds
without '  the jump of ids alone, re-use itself aside' 'same_name no_id_jump ID_GIVEN_ONCE'          "$usual" holds holds
without 'both matches of a conclusion (dispatch, Complete)' 'same_name no_own_record no_report_match' 'terms=3 restarts=0' SLOT_HELD SLOT_HELD
without '  the owner looks whether it is its dispatch' 'same_name no_own_record'                     "$usual" holds holds
without 'ambiguous never sends: the answer alone'      'same_name ambiguous_sends'                   "$races" holds holds
without 'recheck: the record alone'                    'same_name no_recheck_record'                 "$usual" holds holds

echo '-- redundant in this model'
without 'recheck: the term'                            'same_name no_recheck_term'                   "$usual" holds holds
without 'one attempt at a job at a time in a process'  'same_name no_sends_table'                    "$races" holds holds
without 'the barrier at the start of a term'           'same_name no_term_barrier'                   "$usual" holds holds
without 'the barrier before a doubtful send is moot'   'same_name no_settle_barrier'                 "$races" holds holds
without 'Quarantine: RUNNING becomes UNKNOWN'          'same_name no_quarantine_running'             "$usual" holds holds
without 'the refusal of masters of an older incarnation' 'same_name no_incarnation'                  "$usual" holds holds
without 'the wait before a force release'              'same_name no_force_wait'                     "$usual" holds holds

echo
echo "model: of $((fails + redundant)) searches $fails end with a broken invariant and $redundant without, in $((SECONDS - began))s"
if ((failed)); then echo 'model: the table and the model disagree' >&2; fi
exit "$failed"
