#!/bin/sh
# Runs a subcommand of cargo at a pinned version, with the arguments given: `deny` for licences and
# sources, `cyclonedx` for what a release is made of. The first use builds it, which takes one to three
# minutes on two cores; later ones start at once.
#
#   hack/cargo-tool.sh deny|cyclonedx [ARGUMENT...]
#
# It is built without optimisation: it then needs a second for this repository, while the release
# profile, with fat LTO, takes many times as long to build. The binary is kept outside target/, so
# that `cargo clean` costs nothing: in $XDG_CACHE_HOME/dependency-watchdog, or ~/.cache/....
set -eu

case ${1:-} in
  deny) version=0.20.2 ;;
  cyclonedx) version=0.5.9 ;;
  *) echo "cargo-tool: give deny or cyclonedx, not '${1:-}'" >&2; exit 1 ;;
esac
tool=cargo-$1

# Each expects its own name first, as cargo gives it.
if [ "$("$tool" --version 2>/dev/null || true)" = "$tool $version" ]; then
  exec "$tool" "$@"
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/dependency-watchdog
home=$cache/$tool-$version
if [ ! -x "$home/bin/$tool" ]; then
  echo "$tool: building version $version, which takes a minute or more the first time" >&2
  mkdir -p "$cache"
  scratch=$(mktemp -d "$cache/building.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  trap 'exit 130' INT TERM
  CARGO_TARGET_DIR=$scratch/target CARGO_PROFILE_DEV_DEBUG=false \
    cargo install --locked --debug --quiet --version "$version" --root "$scratch/root" "$tool" \
    2>"$scratch/log" || {
    cat "$scratch/log" >&2
    echo "$tool: building version $version failed: see above" >&2
    exit 1
  }
  # A rename, so that nobody ever sees half of it; another run may have been faster.
  mv "$scratch/root" "$home" 2>/dev/null || [ -x "$home/bin/$tool" ]
  rm -rf "$scratch"
fi

exec "$home/bin/$tool" "$@"
