#!/usr/bin/env bash
# Runs promtool, with the arguments given: the one in PATH if it is of version 2.42 or newer, as distributions have it,
# else one of the version in promtool/go.mod. The first use of that builds it, which takes minutes on two cores; later
# ones start immediately.
#
# It is kept in $XDG_CACHE_HOME/dependency-watchdog, or ~/.cache/..., outside target/. A change of
# go.mod, go.sum or this script builds into a new directory.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf 'promtool: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
digest() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c1-12; }

found=$(promtool --version 2>&1 | sed -n 's/^promtool, version \([0-9]*\.[0-9]*\)\..*/\1/p' || true)
if [[ -n $found && $(printf '%s\n' 2.42 "$found" | sort -V | head -n 1) == 2.42 ]]; then
  exec promtool "$@"
fi

source=$here/promtool
cache=${XDG_CACHE_HOME:-$HOME/.cache}/dependency-watchdog
built=$cache/promtool-$(cat "$source/go.mod" "$source/go.sum" "$here/promtool.sh" | digest)
if [[ ! -x $built/promtool ]]; then
  version=$(sed -n 's/^.*github.com\/prometheus\/prometheus \(v[0-9.]*\).*$/\1/p' "$source/go.mod")
  go=$(sed -n 's/^go //p' "$source/go.mod")
  command -v go >/dev/null ||
    die "Go is missing: install Go $go or newer, or promtool 2.42 or newer"
  say "building $version, which takes minutes the first time"
  mkdir -p "$built"
  scratch=$(mktemp -d "$cache/building.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  trap 'exit 130' INT TERM
  # Without the clients of two dozen clouds, by which Prometheus finds what to scrape.
  (cd "$source" && CGO_ENABLED=0 GOWORK=off go build -mod=readonly -trimpath -buildvcs=false \
    -tags remove_all_sd -ldflags "-s -w" -o "$scratch/promtool" \
    github.com/prometheus/prometheus/cmd/promtool) >&2 ||
    die "go build of $version failed: see its messages above"
  # A rename, so that nobody ever sees half of it.
  mv -f "$scratch/promtool" "$built/promtool"
  rm -rf "$scratch"
  say "built in ${SECONDS}s"
fi

exec "$built/promtool" "$@"
