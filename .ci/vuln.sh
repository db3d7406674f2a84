#!/usr/bin/env bash
# vuln.sh GOVULNCHECK looks for known vulnerabilities in what the programs call. Where the database
# cannot be reached it says so and passes: a machine without a network cannot know.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
database=${GOVULNDB:-https://vuln.go.dev}
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

case $database in
  file://*) ;;
  *)
    if ! curl -sSf --max-time 20 -o "$answer" "$database/index/db.json" 2>"$answer.err"; then
      echo "################################################################################"
      echo "vuln: SKIPPED: $database cannot be reached, so nothing was checked:"
      echo "      $(cat "$answer.err")"
      echo "      Run make vuln where it can be reached before a release."
      echo "################################################################################"
      rm -f "$answer.err"
      exit 0
    fi
    rm -f "$answer.err"
    ;;
esac
exec "$1" -db "$database" ./...
