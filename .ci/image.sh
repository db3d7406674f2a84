#!/usr/bin/env bash
# image.sh build|test CONTEXT
#
# build makes the image lancemaster:local from the folder CONTEXT with docker, else buildah. test makes
# it with buildah in a store of its own, which needs no daemon and no network, and runs its programs as
# the image's user and as another one.
set -euo pipefail

mode=$1 context=$(cd "$2" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source .ci/lib.sh
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
  missing image "buildah and root are needed; on Debian, apt-get install buildah"
fi

store=$(mktemp -d)
b() { buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs "$@"; }
container='' running='' pid=''
finish() {
  kill -KILL ${pid:+"$pid"} ${running:+"$running"} 2>/dev/null || true
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

# node prints the id of the program that runs in the container under the mark $1, if it does.
node() { grep -lzsFx "IMAGE_TEST=$1" /proc/[0-9]*/environ | sed 's|^/proc/||; s|/environ$||' | head -n 1 || true; }

# ended waits until the process $1 is gone, $2 seconds at the most.
ended() {
  local deadline=$((SECONDS + $2))
  while kill -0 "$1" 2>/dev/null; do
    ((SECONDS < deadline)) || return 1
    sleep 0.2
  done
}

container=$(b from lancemaster:test)
b run --isolation chroot "$container" -- /usr/bin/lanceworker-stub --version
# A file that is mounted has the last word.
shown() { b run --isolation chroot "$@" "$container" -- /usr/bin/lancemaster config show -o json | tr -d ' \n'; }
printf 'data_dir: /var/lib/lancemaster/own\nhttp: {listen: "127.0.0.1:8099"}\n' >"$store/own.yaml"
chmod 0644 "$store/own.yaml"
for want in '"value":"0.0.0.0:8030"' '"value":"/var/lib/lancemaster/data"'; do
  [[ $(shown) == *"$want"* ]] || { echo "image: without a file of its own a node's configuration has no $want" >&2; exit 1; }
done
for want in '"value":"127.0.0.1:8099"' '"value":"/var/lib/lancemaster/own"'; do
  [[ $(shown --volume "$store/own.yaml:/etc/lancemaster/lancemaster.yaml:ro") == *"$want"* ]] ||
    { echo "image: with a file of its own a node's configuration has no $want" >&2; exit 1; }
done
port=18930 # of the test's own, on this machine's loopback, which the container shares
for uid in 65532:65532 12345:0; do
  echo "image: as user $uid"
  b run --isolation chroot --user "$uid" "$container" -- /usr/bin/lancemaster version
  # A node that starts, says that it is alive, and ends when told.
  mark=$$-${uid%%:*}
  b run --isolation chroot --user "$uid" --env IMAGE_TEST="$mark" \
    --env LANCEMASTER_DATA_DIR="/var/lib/lancemaster/${uid%%:*}" --env LANCEMASTER_HTTP_LISTEN="127.0.0.1:$port" \
    --env LANCEMASTER_RAFT_LISTEN=127.0.0.1:0 --env LANCEMASTER_ADMIN_LISTEN=127.0.0.1:0 --env LANCEMASTER_REPORT_LISTEN=127.0.0.1:0 \
    "$container" -- /usr/bin/lancemaster serve </dev/null >"$store/log" 2>&1 &
  running=$!
  deadline=$((SECONDS + 30)) alive=
  while ((SECONDS < deadline)) && kill -0 "$running" 2>/dev/null; do
    if b run --isolation chroot --user "$uid" "$container" -- /usr/bin/lancemaster health --live --http "127.0.0.1:$port" >"$store/health" 2>&1; then
      alive=yes
      break
    fi
    sleep 0.3
  done
  # The program itself is told, not buildah, which would not let it finish.
  pid=$(node "$mark")
  if [[ -n $pid ]]; then kill -TERM "$pid" || true; fi
  if ! ended "$running" 20; then
    echo "image: the node did not end within 20 s of being told" >&2
    kill -KILL ${pid:+"$pid"} "$running" 2>/dev/null || true
    alive=
  fi
  code=0
  wait "$running" || code=$?
  if [[ -z $alive ]] || ((code != 0)); then
    cat "$store/log" "$store/health" >&2
    echo "image: the node did not live and end well as user $uid (exit status $code)" >&2
    exit 1
  fi
  running= pid=
  cat "$store/health"
done
echo "image: both programs run, as any user"
