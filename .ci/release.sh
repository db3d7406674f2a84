#!/usr/bin/env bash
# release.sh build OUT      makes the release archives of this checkout in OUT, with SHA256SUMS
# release.sh sbom OUT       adds what each program is made of, in CycloneDX's JSON, to the archives in OUT
# release.sh check OUT      checks the archives in OUT: sums, contents, owners, the programs of this machine
# release.sh reproducible   builds for this machine twice, in clones in two folders, and compares
#
# Equal sources make equal archives: times are the commit's (or SOURCE_DATE_EPOCH), owners 0, the order
# sorted, and paths of this machine are in no program.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}
export LC_ALL=C TZ=UTC
umask 022
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export CGO_ENABLED=0 # also for the tools: one build of each package is enough
read -ra arches <<<"${RELEASE_ARCHES:-amd64 arm64}"
readonly arches

version() { echo "${VERSION:-$(git describe --tags --always --dirty)}"; }

build() {
  local out=$1 version epoch arch name tree vcs=-buildvcs=false
  version=$(version)
  epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
  if [[ $(git rev-parse --show-toplevel 2>/dev/null) == "$PWD" ]]; then vcs=-buildvcs=true; fi
  rm -rf "$out"
  mkdir -p "$out"
  out=$(cd "$out" && pwd)
  local stamp="-X github.com/lancemaster/lancemaster/internal/config.Version=$version"
  SOURCE_DATE_EPOCH=$epoch "$GO" run -trimpath -ldflags "$stamp" ./.ci/reference "$out/reference"
  for arch in "${arches[@]}"; do
    name=lancemaster-$version-linux-$arch
    tree=$out/$name
    mkdir -p "$tree/bin" "$tree/share/man"
    GOOS=linux GOARCH=$arch "$GO" build -trimpath "$vcs" -ldflags "-s -w $stamp" -o "$tree/bin/" \
      ./cmd/lancemaster ./cmd/lanceworker-stub
    cp LICENSE README.md CHANGELOG.md "$tree/"
    cp -r docs deploy idl "$tree/"
    cp -r "$out/reference/man1" "$tree/share/man/man1"
    cp -r "$out/reference/completions" "$tree/share/completions"
    tar -c -C "$out" --format=ustar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
      --mode='u=rwX,go=rX' "$name" | gzip -n -9 >"$out/$name.tar.gz"
    rm -r "$tree"
  done
  rm -r "$out/reference"
  sums "$out"
}

sums() { (cd "$1" && sha256sum -- *.tar.gz $(ls -- *.cdx.json 2>/dev/null) >SHA256SUMS); }

# The parts are read out of the programs themselves, so that the list is of what was linked.
sbom() {
  local out=$1 archive program
  for archive in "$out"/*.tar.gz; do
    tar -x -z -C "$work" -f "$archive"
    for program in "$work"/*/bin/*; do
      bin/tools/cyclonedx-gomod bin -json -noserial -notimestamp -output "$out/$(basename "$archive" .tar.gz)-$(basename "$program").cdx.json" -version "$(version)" "$program" >/dev/null 2>&1 || {
        echo "release: cyclonedx-gomod failed for $program" >&2
        return 1
      }
    done
    rm -rf "${work:?}"/*
  done
  sums "$out"
}

check() {
  local out=$1 arch name list version path program
  version=$(version)
  (cd "$out" && sha256sum --check --quiet SHA256SUMS)
  for arch in "${arches[@]}"; do
    name=lancemaster-$version-linux-$arch
    list=$(tar -t -z -f "$out/$name.tar.gz")
    for path in bin/lancemaster bin/lanceworker-stub LICENSE README.md CHANGELOG.md docs/getting-started.md docs/cli/README.md \
      deploy/systemd/lancemaster.service share/man/man1/lancemaster.1 share/man/man1/lanceworker-stub.1 \
      share/completions/lancemaster.bash share/completions/_lancemaster share/completions/lancemaster.fish; do
      grep -qxF "$name/$path" <<<"$list" || { echo "release: $name.tar.gz lacks $path" >&2; return 1; }
    done
    if tar -t -v -z --numeric-owner -f "$out/$name.tar.gz" | awk '{ print $2 }' | grep -qvxF 0/0; then
      echo "release: $name.tar.gz has files that do not belong to 0/0" >&2
      return 1
    fi
    tar -x -z -C "$work" -f "$out/$name.tar.gz"
    if grep -qF "$PWD" "$work/$name/bin/lancemaster"; then
      echo "release: a path of this machine is in $name's lancemaster" >&2
      return 1
    fi
    for program in lancemaster lanceworker-stub; do
      # A static program names no loader.
      if LC_ALL=C grep -qaF /ld-linux "$work/$name/bin/$program"; then
        echo "release: $name's $program is not static" >&2
        return 1
      fi
    done
    if [[ $("$GO" env GOHOSTARCH) == "$arch" ]]; then
      "$work/$name/bin/lancemaster" version | grep -F "$version"
    fi
  done
  if ls "$out"/*.cdx.json >/dev/null 2>&1; then
    for path in "$out"/*.cdx.json; do
      grep -q '"bomFormat": "CycloneDX"' "$path" && grep -q 'pkg:golang/go.etcd.io\|pkg:golang/github.com/apache/thrift' "$path" || {
        echo "release: $path is no list of parts" >&2
        return 1
      }
    done
  fi
  echo "release: $(cd "$out" && ls | wc -l) files in $out are sound"
}

reproducible() {
  local root=$PWD
  if [[ -n $(git status --porcelain) ]]; then
    echo "release: there are uncommitted changes; the last commit is built, without them"
  fi
  local n arch
  arch=$("$GO" env GOHOSTARCH)
  for n in one two/deeper; do
    mkdir -p "$work/$n"
    git clone -q --no-hardlinks "$root" "$work/$n/lancemaster"
    # The second build has a cache of its own, so that it does not get the first one's results.
    if [[ $n != one ]]; then export GOCACHE=$work/cache; fi
    (cd "$work/$n/lancemaster" && VERSION='' RELEASE_ARCHES="${RELEASE_ARCHES:-$arch}" bash .ci/release.sh build dist)
  done
  if ! diff "$work/one/lancemaster/dist/SHA256SUMS" "$work/two/deeper/lancemaster/dist/SHA256SUMS"; then
    echo "release: two builds of the same commit differ" >&2
    return 1
  fi
  cat "$work/one/lancemaster/dist/SHA256SUMS"
  echo "release: two builds in different folders are the same, byte for byte"
}

case ${1:-} in
  build | sbom | check) [[ -n ${2:-} ]] && "$1" "$2" ;;
  reproducible) reproducible ;;
  *) echo "usage: release.sh build|sbom|check OUT, or release.sh reproducible" >&2; exit 2 ;;
esac
