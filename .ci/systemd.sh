#!/usr/bin/env bash
# systemd.sh BIN checks the units of deploy/systemd with systemd-analyze verify, with the programs of
# the folder BIN in place of the installed ones, and bounds how exposed a master is.
set -euo pipefail

bin=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source .ci/lib.sh

if ! command -v systemd-analyze >/dev/null; then
  missing systemd "systemd-analyze is not installed; on Debian, apt-get install systemd"
fi

units=$(mktemp -d)
trap 'rm -rf "$units"' EXIT
for unit in deploy/systemd/*.service; do
  sed "s|/usr/bin/lance|$bin/lance|g" "$unit" >"$units/$(basename "$unit")"
done
systemd-analyze verify --man=no "$units"/*.service
echo "systemd: $(ls "$units" | wc -l) units are valid"

# The number is systemd's own, 0 (closed) to 10; what a master is allowed must not grow unnoticed.
if ! systemd-analyze security --offline=true --threshold=20 "$units/lancemaster.service" >"$units/report"; then
  cat "$units/report"
  echo "systemd: lancemaster.service is more exposed than 2.0" >&2
  exit 1
fi
tail -n 1 "$units/report"
