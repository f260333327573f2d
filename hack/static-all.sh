#!/usr/bin/env bash
# Builds the static binary for this machine's architecture, and for the other of amd64 and arm64 where the
# toolchain can; otherwise says what is missing. Prints a line for each, this machine's first: the
# architecture, as images name it, and the path.
#
#   DWD_STATIC  a static binary for this machine, in place of building any
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case $(uname -m) in
  x86_64) here=amd64 other=arm64 prefix=aarch64-linux-gnu ;;
  aarch64) here=arm64 other=amd64 prefix=x86_64-linux-gnu ;;
  *) echo "static: nothing is shipped for $(uname -m)" >&2; exit 1 ;;
esac
binary=${DWD_STATIC:-$(hack/static.sh)}
echo "$here $binary"
# A binary that is given is of one architecture.
[[ -z ${DWD_STATIC:-} ]] || exit 0

target=${prefix/-/-unknown-}
missing=
[[ -d $(rustc --print target-libdir --target "$target") ]] ||
  missing+=": Rust's $target (rustup target add $target)"
command -v "$prefix-gcc" >/dev/null ||
  missing+=": $prefix-gcc (on Debian, apt-get install gcc-${prefix/_/-})"
if [[ -n $missing ]]; then
  echo "static: left out linux/$other, for lack of${missing#:}" | sed 's/): /) and /' >&2
  exit 0
fi
binary=$(TARGET=$target CC=$prefix-gcc hack/static.sh)
echo "$other $binary"
