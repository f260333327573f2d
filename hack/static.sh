#!/bin/sh
# Builds the operator as one static binary, for use, and prints its path. This is what goes into the
# image: the Dockerfile runs the same.
#
# The target is named, although it is that of this machine: only then do the flags leave build
# scripts and macros alone, and the output, in a directory of the target's own, is shared with no
# other build. Static is the C library too, whose resolver then reads /etc/hosts and /etc/resolv.conf
# itself and needs nothing else.
set -eu
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
case $target in
  *-linux-*) ;;
  *) echo "static: $target is not Linux: build the image, or on Linux" >&2; exit 1 ;;
esac

# The allocator serves pages of the size that it was built for, or smaller. Those of an Arm machine may
# have 64 KiB, whatever those of the machine that builds have.
case $target in
  aarch64-*) export JEMALLOC_SYS_WITH_LG_PAGE=16 ;;
esac

RUSTFLAGS="${RUSTFLAGS:+$RUSTFLAGS }-C target-feature=+crt-static" \
  "${CARGO:-cargo}" build --locked --release --package dependency-watchdog --target "$target" >&2
output=$("${CARGO:-cargo}" metadata --locked --format-version 1 --no-deps |
  sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
echo "$output/$target/release/dependency-watchdog"
