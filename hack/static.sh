#!/bin/sh
# Builds the operator as one static binary, for use, and prints its path. This is what goes into the
# image: the Dockerfile runs the same.
#
# The target is named, also where it is that of this machine: only then do the flags leave build
# scripts and macros alone. Static is the C library too, whose resolver then reads /etc/hosts and
# /etc/resolv.conf itself and needs nothing else. No path of this machine gets into it: elsewhere the
# same source and toolchain give the same bytes.
#
#   TARGET   another target than this machine's, with CC for its C compiler
set -eu
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
host=$(rustc -vV | sed -n 's/^host: //p')
target=${TARGET:-$host}
case $target in
  *-linux-*) ;;
  *) echo "static: $target is not Linux: build the image, or on Linux" >&2; exit 1 ;;
esac

# The allocator serves pages of the size that it was built for, or smaller. Those of an Arm machine may
# have 64 KiB, whatever those of the machine that builds have.
case $target in
  aarch64-*) export JEMALLOC_SYS_WITH_LG_PAGE=16 ;;
esac
linker=
if [ "$target" != "$host" ]; then
  linker="-C linker=${CC:?is not set: the C compiler for $target}"
fi

RUSTFLAGS="${RUSTFLAGS:+$RUSTFLAGS }-C target-feature=+crt-static $linker \
--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$PWD=/source" \
  "$cargo" build --locked --release --package dependency-watchdog --features jemalloc --target "$target" >&2
output=$("$cargo" metadata --locked --format-version 1 --no-deps |
  sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
echo "$output/$target/release/dependency-watchdog"
