# What the demonstrations share; sourced by them, from the repository's root.
#
# Everything a demonstration starts writes into a folder of its own under $work, and is
# stopped, by its process id, when the demonstration ends, however it does.
# shellcheck shell=bash

readonly master=$PWD/bin/lancemaster
readonly dataset=$PWD/testdata/lance/typed.lance
# How long a process may take to start, and to stop, in seconds.
readonly start_limit=30 stop_limit=15

work=$(mktemp -d "${TMPDIR:-/tmp}/lancemaster-demo.XXXXXX")
declare -A pids=() # of what runs, by name

finish() {
  local code=$? name
  trap - EXIT
  for name in "${!pids[@]}"; do
    stop "$name" || code=1
  done
  rm -rf "$work"
  if ((code == 0)); then
    printf '\nEverything is stopped and cleaned up.\n'
  fi
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

fail() {
  echo "demo: $*" >&2
  exit 1
}

# start NAME COMMAND... runs a command in the background.
start() {
  local name=$1
  shift
  "$@" >"$work/$name.out" 2>&1 &
  pids[$name]=$!
}

# stop NAME ends what start began; it fails, showing the output, unless that ends well.
stop() {
  local name=$1 pid=${pids[$1]} code=0 deadline=$((SECONDS + stop_limit))
  unset "pids[$name]"
  kill -TERM "$pid" 2>/dev/null || true
  while kill -0 "$pid" 2>/dev/null; do
    if ((SECONDS >= deadline)); then
      kill -KILL "$pid" 2>/dev/null || true
      break
    fi
    sleep 0.05
  done
  wait "$pid" || code=$?
  if ((code != 0)); then
    echo "demo: $name did not stop cleanly (exit $code); its output:" >&2
    cat "$work/$name.out" >&2
  fi
  return "$code"
}

# printed NAME EXPRESSION waits until what NAME printed has a line that the sed expression
# prints something of, and answers with that in $REPLY.
printed() {
  local name=$1 deadline=$((SECONDS + start_limit))
  while REPLY=$(sed -n "$2" "$work/$name.out" | head -n 1) && [[ -z $REPLY ]]; do
    if ! kill -0 "${pids[$name]}" 2>/dev/null; then
      cat "$work/$name.out" >&2
      unset "pids[$name]"
      fail "$name ended while starting"
    fi
    if ((SECONDS >= deadline)); then
      cat "$work/$name.out" >&2
      fail "$name did not start within $start_limit s"
    fi
    sleep 0.1
  done
}

# say prints what is about to be shown.
say() {
  if [[ -t 1 ]]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi
}

# run prints a command as a person would type it, then runs it.
run() {
  local word
  printf '$ lancemaster'
  for word in "$@"; do
    [[ $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]] || word=${word@Q}
    printf ' %s' "${word//$dataset/\$PWD/testdata/lance/typed.lance}"
  done
  printf '\n'
  "$master" "$@"
}

# ends CODE COMMAND... runs a command that must exit with CODE.
ends() {
  local want=$1 code=0
  shift
  run "$@" || code=$?
  ((code == want)) || fail "expected exit code $want from $1 $2, got $code"
}

# refuses CODE COMMAND... runs a command that the master must refuse for that reason.
refuses() {
  local reason=$1 code=0
  shift
  run "$@" 2>"$work/refusal" || code=$?
  cat "$work/refusal" >&2
  if ((code != 1)) || ! grep -q "^lancemaster: $reason: " "$work/refusal"; then
    fail "expected $1 $2 to be refused with $reason (exit code 1), got exit code $code"
  fi
}
