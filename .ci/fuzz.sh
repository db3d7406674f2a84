#!/usr/bin/env bash
# Runs every fuzz target of the module, one after another, for the time given.
#
#   fuzz.sh [TIME]   TIME as go test -fuzztime takes it, default 10s
#
# A failing input is printed whole, so that a run on a machine that is thrown away is not lost.
set -euo pipefail

time=${1:-10s}
go=${GO:-go}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Prints "PACKAGE TARGET" for each fuzz target, of the packages that have any: each one that is asked is built.
# `go test -list` prints a package's targets and then its "ok" line.
targets() {
  local -a packages
  mapfile -t packages < <(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -r dirname | sort -u)
  ((${#packages[@]})) || return 0
  "$go" test -list '^Fuzz' "${packages[@]}" |
    awk '/^Fuzz/ { names[++n] = $1 }
         /^ok/   { for (i = 1; i <= n; i++) print $2, names[i]; n = 0 }'
}

run() {
  "$go" test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 10x "$1" 2>&1 | tee "$log"
}

# The Go tool sometimes reports its own end of time as a failure: "context deadline exceeded",
# with no failing input. That, and nothing else, is tried a second time.
only_deadline() {
  grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written to' "$log"
}

list=$(targets)
if [[ -z $list ]]; then
  echo "fuzz: no fuzz target found" >&2
  exit 1
fi

failed=0 count=0
while read -r package target; do
  count=$((count + 1))
  echo "fuzz: $package $target for $time"
  run "$package" "$target" && continue
  if only_deadline; then
    echo "fuzz: $target ended on the Go tool's own deadline with no failing input; once more"
    run "$package" "$target" && continue
  fi
  failed=$((failed + 1))
  input=$(sed -n 's/^ *Failing input written to //p' "$log" | head -n 1)
  directory=$("$go" list -f '{{.Dir}}' "$package")
  if [[ -n $input && -f $directory/$input ]]; then
    echo "fuzz: the failing input, $directory/$input:"
    cat "$directory/$input"
  fi
done <<<"$list"

echo "fuzz: $count targets, $failed failed"
[[ $failed == 0 ]]
