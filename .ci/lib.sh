# Functions that the scripts beside this file share; it is sourced, not run.

# missing STEP WHAT ends the script because the machine lacks what the step needs: CI fails, everybody
# else is told loudly that the step was left out.
missing() {
  if [[ -n ${CI:-} ]]; then
    echo "$1: $2" >&2
    exit 1
  fi
  echo "$1: SKIPPED: $2; CI runs it"
  exit 0
}
