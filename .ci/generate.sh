#!/usr/bin/env bash
# Generates gen-go/ from idl/*.thrift.
#
#   generate.sh write   put the generated code into gen-go/, and remove what is stale there
#   generate.sh check   fail, showing the difference, unless gen-go/ is what idl/ generates
#   generate.sh have    succeed if the right compiler is installed; print nothing
#
# Exactly one compiler version is accepted: the output of two versions differs, and then CI would
# fail for whoever has the other one.
set -euo pipefail

readonly want="0.17.0"
readonly prefix="github.com/lancemaster/lancemaster/gen-go/"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

have_version() {
  local line
  line=$("${THRIFT:-thrift}" --version 2>/dev/null) || { echo none; return; }
  echo "${line##* }"
}

require_compiler() {
  local have
  have=$(have_version)
  [[ $have == "$want" ]] && return
  if [[ $have == none ]]; then
    echo "generate: the Thrift compiler is not installed; version $want is needed" >&2
  else
    echo "generate: the Thrift compiler here is version $have; exactly $want is needed" >&2
  fi
  echo "generate: on Debian 12, apt-get install thrift-compiler; or set THRIFT=/path/to/thrift" >&2
  exit 1
}

# generate_into DIR writes the formatted code for every file of idl/ into the empty directory DIR.
generate_into() {
  local dir=$1 file
  local -a files=(idl/*.thrift)
  if [[ ! -e ${files[0]} ]]; then
    echo "generate: idl/ has no .thrift file" >&2
    exit 1
  fi
  for file in "${files[@]}"; do
    if ! grep -qE '^namespace go [A-Za-z0-9_.]+' "$file"; then
      echo "generate: $file has no line 'namespace go NAME'; add one" >&2
      exit 1
    fi
    "${THRIFT:-thrift}" -out "$dir" --gen "go:package_prefix=$prefix,skip_remote" "$file"
  done
  # gofmt sits beside the go command that is asked for; it need not be in PATH.
  local gofmt
  gofmt="$("${GO:-go}" env GOROOT)/bin/gofmt"
  [[ -x $gofmt ]] || gofmt=gofmt
  "$gofmt" -w "$dir"
}

mode=${1:-}
case $mode in
  have)
    [[ $(have_version) == "$want" ]]
    exit
    ;;
  write | check) ;;
  *)
    echo "usage: generate.sh write|check|have" >&2
    exit 2
    ;;
esac

require_compiler
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fresh=$work/gen-go
mkdir "$fresh"
generate_into "$fresh"

if [[ $mode == write ]]; then
  rm -rf gen-go
  mkdir gen-go
  cp -R "$fresh"/. gen-go/
  echo "generate: gen-go/ written from idl/ by thrift $want"
  exit
fi

if ! diff -ru gen-go "$fresh" >"$work/diff"; then
  sed -n '1,80p' "$work/diff" >&2
  echo "generate: gen-go/ is not what idl/ generates; run make generate and commit the result" >&2
  exit 1
fi
echo "generate: gen-go/ is what idl/ generates"
