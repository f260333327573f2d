#!/bin/sh
# Runs cargo-deny at a pinned version, with the arguments given. The first use builds it, which
# takes one to three minutes on two cores; later ones start at once.
#
# It is built without optimisation: it then needs a second for this repository, while the release
# profile, with fat LTO, takes many times as long to build. The binary is kept outside target/, so
# that `cargo clean` costs nothing: in $XDG_CACHE_HOME/dependency-watchdog, or ~/.cache/....
set -eu

version=0.20.2

if [ "$(cargo-deny --version 2>/dev/null || true)" = "cargo-deny $version" ]; then
  exec cargo-deny "$@"
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/dependency-watchdog
home=$cache/cargo-deny-$version
if [ ! -x "$home/bin/cargo-deny" ]; then
  echo "cargo-deny: building version $version, which takes a minute or more the first time" >&2
  mkdir -p "$cache"
  scratch=$(mktemp -d "$cache/building.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  trap 'exit 130' INT TERM
  CARGO_TARGET_DIR=$scratch/target CARGO_PROFILE_DEV_DEBUG=false \
    cargo install --locked --debug --quiet --version "$version" --root "$scratch/root" cargo-deny \
    2>"$scratch/log" || {
    cat "$scratch/log" >&2
    echo "cargo-deny: building version $version failed: see above" >&2
    exit 1
  }
  # A rename, so that nobody ever sees half of it; another run may have been faster.
  mv "$scratch/root" "$home" 2>/dev/null || [ -x "$home/bin/cargo-deny" ]
  rm -rf "$scratch"
fi

exec "$home/bin/cargo-deny" "$@"
