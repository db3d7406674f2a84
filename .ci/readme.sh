#!/usr/bin/env bash
# Runs the commands of README.md and docs/getting-started.md exactly as they stand there, in a fresh clone of
# the commit that is checked out, and compares what they print with what the pages show; see .ci/docs.
#
#   readme.sh               makes the clone, and removes it afterwards
#   readme.sh clone DIR     makes the clone, DIR/lancemaster, and the folder DIR/tmp; DIR must not be there
#   readme.sh run DIR       runs the commands in that clone, with DIR/tmp as TMPDIR
#
# CI makes the clone first and runs make test in it, with the same TMPDIR. The Go tool knows results of tests
# by the folder and the environment that they ran in, so the README's own make test finds those that still
# hold. Tests leave nothing in a clone, so it is as fresh afterwards; that is checked.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

clone() {
  mkdir "$1" "$1/tmp"
  if git rev-parse --verify -q HEAD >/dev/null 2>&1; then
    if [[ -n $(git status --porcelain) ]]; then
      echo "readme: there are uncommitted changes; the commands run on the last commit, without them"
    fi
    git clone -q --no-hardlinks "$root" "$1/lancemaster"
  else
    echo "readme: no git history here; the commands run in a copy"
    mkdir "$1/lancemaster"
    tar -c --exclude=./bin --exclude=./lancemaster-data . | tar -x -C "$1/lancemaster"
  fi
}

run() {
  local page left
  cd "$1/lancemaster"
  left=$(git status --porcelain --ignored 2>/dev/null || true)
  if [[ -n $left ]]; then
    printf 'readme: this is no fresh clone any more:\n%s\n' "$left" >&2
    return 1
  fi
  # Built, not `go run`: that would change the PATH of the commands.
  "${GO:-go}" build -o "$1/docs" ./.ci/docs
  # What a block is, and which are only shown, is said there.
  for page in README.md docs/getting-started.md; do
    "$1/docs" -tmp "$1/tmp" "$page"
  done
}

case ${1:-} in
  clone | run) [[ -n ${2:-} ]] && "$1" "$2" ;;
  '')
    work=$(mktemp -d)
    trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
    clone "$work/fresh"
    run "$work/fresh"
    ;;
  *) echo "usage: readme.sh [clone DIR | run DIR]" >&2; exit 2 ;;
esac
