# Shared by run.sh and guards.sh: builds the verifier and runs it, one run at a time. Everything is made in
# a directory of its own under TMPDIR, which is removed.

# How long one run may take, in seconds, and how many megabytes; how deep a run may go.
: "${MODEL_TIMEOUT:=300}" "${MODEL_MEMORY:=4000}" "${MODEL_DEPTH:=20000}"

# build compiles the verifier, unless the caller has one already in PAN.
build() {
  if [[ -n ${PAN:-} ]]; then return; fi
  local here tool
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  for tool in spin gcc; do
    command -v "$tool" >/dev/null || {
      echo "model: $tool is missing; Debian has packages of that name (gcc wants libc6-dev as well)" >&2
      return 1
    }
  done
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK"' EXIT
  # No partial order reduction: there is one process. Nothing is hashed away: every state is stored whole.
  (cd "$WORK" && spin -a "$here/dispatch.pml" && gcc -O1 -w -DSAFETY -DNOREDUCE -DNOBOUNDCHECK \
    -DMEMLIM="$MODEL_MEMORY" -o pan pan.c)
  export PAN=$WORK/pan
}

# verify WORDS... explores every state of the model with these switches, and sets
#   result     holds, fails, or broken: the search was not complete
#   invariant  what fails
#   states     how many states there are, or were looked at before the failure
#   took       seconds
verify() {
  local out start=$SECONDS code=0 line
  out=$(cd "$(dirname "$PAN")" && MODEL="$*" timeout "$MODEL_TIMEOUT" "$PAN" "-m$MODEL_DEPTH" -E -n -w22 2>&1) || code=$?
  took=$((SECONDS - start))
  states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' <<<"$out")
  invariant=
  if ((code != 0)) || grep -qE 'max search depth too small|out of memory|MEMLIM|error:' <<<"$out" ||
    [[ -z $states ]]; then
    result=broken
    echo "model: the search with '$*' was not complete (exit code $code):" >&2
    tail -n 20 <<<"$out" >&2
    return 1
  fi
  if line=$(grep -m1 'assertion violated' <<<"$out"); then
    result=fails
    invariant=$(sed -n 's/.*||\([A-Z_]*\)) (at depth.*/\1/p; s/.*(reach==\([0-9]*\)).*/reach=\1/p' <<<"$line")
  elif grep -q 'errors: 0$' <<<"$out"; then
    result=holds
  else
    result=broken
    echo "model: the search with '$*' ended in a way that is not understood:" >&2
    echo "$out" >&2
    return 1
  fi
}
