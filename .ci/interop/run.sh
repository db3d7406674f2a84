#!/usr/bin/env bash
# Another language against the real master: what `make interop` runs.
#
# The Python code is generated from idl/ into a temporary folder; the programs are those in bin/.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# Debian's, whatever else is first in PATH: its package python3-thrift belongs to this one.
readonly python=/usr/bin/python3 thrift=${THRIFT:-thrift}
# All of it ends within this many seconds, by SIGTERM, upon which the tests end what they started.
readonly limit=160

missing=()
"$python" -c 'import thrift.protocol.TCompactProtocol' 2>/dev/null || missing+=(python3-thrift)
command -v "$thrift" >/dev/null || missing+=(thrift-compiler)
if ((${#missing[@]})); then
  echo "interop: this needs Debian's ${missing[*]}, for $python; run: apt-get install ${missing[*]}" >&2
  exit 1
fi
for program in lancemaster lanceworker-stub; do
  [[ -x bin/$program ]] || { echo "interop: bin/$program is missing; run: make interop" >&2; exit 1; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/gen-py"
for file in idl/{shared,backend,report,admin}.thrift; do
  "$thrift" -out "$work/gen-py" --gen py "$file"
done

code=0
PYTHONPATH="$work/gen-py" PYTHONDONTWRITEBYTECODE=1 INTEROP_WORK="$work" GO="${GO:-go}" \
  timeout --kill-after=20 "$limit" "$python" -m unittest discover -v -s .ci/interop -p 'test_*.py' || code=$?
if ((code == 124)); then echo "interop: it did not end within ${limit}s" >&2; fi
exit "$code"
