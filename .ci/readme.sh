#!/usr/bin/env bash
# Runs the commands of README.md exactly as they stand there, in a fresh clone of the commit that
# is checked out.
#
# Every block fenced as ```sh is run, in order, all in one shell, which stops at the first command
# that fails. A block is only shown, not run, when the last line before it that is not empty is
#   <!-- example -->
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

if git rev-parse --verify -q HEAD >/dev/null 2>&1; then
  if [[ -n $(git status --porcelain) ]]; then
    echo "readme: there are uncommitted changes; the commands run on the last commit, without them"
  fi
  git clone -q --no-hardlinks "$root" "$work/lancemaster"
else
  echo "readme: no git history here; the commands run in a copy"
  mkdir "$work/lancemaster"
  tar -c --exclude=./bin --exclude=./lancemaster-data . | tar -x -C "$work/lancemaster"
fi
cd "$work/lancemaster"

if [[ ! -f README.md ]]; then
  echo "readme: there is no README.md" >&2
  exit 1
fi

# One shell script of all blocks; each begins by saying where it comes from.
awk '
  !inside && /^```sh[ \t]*$/ {
    inside = 1; shown = (last ~ /^<!-- example -->[ \t]*$/)
    if (shown) skipped++
    else { ran++; printf "echo \"readme: the commands at README.md:%d\"\nset -x\n", NR }
    next
  }
  inside && /^```[ \t]*$/ {
    inside = 0; last = ""
    if (!shown) print "{ set +x; } 2>/dev/null"
    next
  }
  inside {
    if (!shown && /^\$ /) {
      printf "readme: README.md:%d begins with a prompt; write the command alone\n", NR > "/dev/stderr"
      bad = 1
    }
    if (!shown) print
    next
  }
  NF { last = $0 }
  END {
    if (inside) { print "readme: the last block is not closed" > "/dev/stderr"; bad = 1 }
    if (!ran) { print "readme: README.md has no block of commands to run" > "/dev/stderr"; bad = 1 }
    printf "echo \"readme: %d blocks of commands ran, %d are only examples\"\n", ran, skipped
    exit bad
  }
' README.md >"$work/commands.sh"

# A newcomer is not inside a make.
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS bash -e -o pipefail "$work/commands.sh"
