#!/usr/bin/env bash
# Runs the commands of README.md and docs/getting-started.md exactly as they stand there, in a fresh clone of
# the commit that is checked out, and compares what they print with what the pages show; see .ci/docs.
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

# What a block is, and which are only shown, is said there.
for page in README.md docs/getting-started.md; do
  "${GO:-go}" run ./.ci/docs "$page"
done
