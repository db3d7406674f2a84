#!/usr/bin/env bash
# image.sh build|test CONTEXT
#
# build makes the image lancemaster:local from the folder CONTEXT with docker, else buildah. test makes
# it with buildah in a store of its own, which needs no daemon and no network, and runs its programs as
# the image's user and as another one.
set -euo pipefail

mode=$1 context=$(cd "$2" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
file=deploy/docker/Dockerfile

case $mode in
  build)
    if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
      exec docker build -t lancemaster:local -f "$file" "$context"
    elif command -v buildah >/dev/null; then
      exec buildah build --isolation chroot -t lancemaster:local -f "$file" "$context"
    fi
    echo "image: neither a docker engine nor buildah is here; on Debian, apt-get install buildah" >&2
    exit 1
    ;;
  test) ;;
  *) echo "usage: image.sh build|test CONTEXT" >&2; exit 2 ;;
esac

if ! command -v buildah >/dev/null || ((EUID != 0)); then
  if [[ -n ${CI:-} ]]; then
    echo "image: buildah and root are needed; on Debian, apt-get install buildah" >&2
    exit 1
  fi
  echo "image: SKIPPED: it wants buildah and root; CI runs it"
  exit 0
fi

store=$(mktemp -d)
b() { buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs "$@"; }
container=
finish() {
  if [[ -n $container ]]; then b rm "$container" >/dev/null 2>&1 || true; fi
  rm -rf "$store"
}
trap finish EXIT

# docker's format, since the other one has no health check.
b build --isolation chroot --format docker --quiet -t lancemaster:test -f "$file" "$context" >/dev/null
user=$(b inspect --type image --format '{{.Docker.Config.User}}' lancemaster:test)
health=$(b inspect --type image --format '{{.Docker.Config.Healthcheck}}' lancemaster:test)
[[ $user == 65532:65532 ]] || { echo "image: runs as user '$user', not 65532:65532" >&2; exit 1; }
[[ $health == *--live* ]] || { echo "image: has no health check: $health" >&2; exit 1; }

container=$(b from lancemaster:test)
port=18930 # of the test's own, on this machine's loopback, which the container shares
for uid in 65532:65532 12345:0; do
  echo "image: as user $uid"
  b run --isolation chroot --user "$uid" "$container" -- /usr/bin/lancemaster version
  # A node that starts, says that it is alive, and ends when told. It gets a process group of its own, to
  # end it by: the program is a grandchild.
  setsid buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs run --isolation chroot --user "$uid" \
    --env LANCEMASTER_DATA_DIR="/var/lib/lancemaster/${uid%%:*}" --env LANCEMASTER_HTTP_LISTEN="127.0.0.1:$port" \
    --env LANCEMASTER_RAFT_LISTEN=127.0.0.1:0 --env LANCEMASTER_ADMIN_LISTEN=127.0.0.1:0 --env LANCEMASTER_REPORT_LISTEN=127.0.0.1:0 \
    "$container" -- /usr/bin/lancemaster serve </dev/null &
  pid=$!
  deadline=$((SECONDS + 30)) alive=
  while ((SECONDS < deadline)) && kill -0 "$pid" 2>/dev/null; do
    if b run --isolation chroot --user "$uid" "$container" -- /usr/bin/lancemaster health --live --http "127.0.0.1:$port" 2>/dev/null; then
      alive=yes
      break
    fi
    sleep 0.3
  done
  kill -TERM -- "-$pid" 2>/dev/null || true
  wait "$pid" || true
  [[ -n $alive ]] || { echo "image: the node did not come to life as user $uid" >&2; exit 1; }
done
echo "image: both programs run, as any user"
