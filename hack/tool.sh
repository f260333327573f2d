#!/bin/sh
# Runs a tool of the documentation and of the workflows at its pinned version, with the arguments given:
# mdbook or mdbook-mermaid, from crates.io, or actionlint, from the Go module proxy. The first use builds
# it, in one to four minutes on two cores; later uses start immediately.
#
#   hack/tool.sh NAME [ARGUMENT...]
#   hack/tool.sh --where NAME      # prints the folder that it is in
#
# Crates are built without optimisation: they then need seconds for this repository, while a release
# profile takes many times as long to build. Binaries are kept outside target/, so that `cargo clean`
# costs nothing: in $XDG_CACHE_HOME/dependency-watchdog, or ~/.cache/....
set -eu

where=
[ "${1:-}" != --where ] || { where=yes && shift; }
name=${1:?give the name of a tool}
shift

case $name in
  mdbook) version=0.5.4 features="--no-default-features --features search" ;;
  mdbook-mermaid) version=0.17.1 features='' ;;
  actionlint) version=v1.7.12 features='' module=github.com/rhysd/actionlint/cmd/actionlint ;;
  *) echo "tool.sh: $name is not known here" >&2 && exit 2 ;;
esac

cache=${XDG_CACHE_HOME:-$HOME/.cache}/dependency-watchdog
home=$cache/$name-$version
if [ ! -x "$home/bin/$name" ]; then
  echo "$name: building version $version, which takes minutes the first time" >&2
  mkdir -p "$cache"
  scratch=$(mktemp -d "$cache/building.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  trap 'exit 130' INT TERM
  case $name in
    actionlint) CGO_ENABLED=0 GOWORK=off GOBIN=$scratch/root/bin go install -trimpath "$module@$version" ;;
    *) CARGO_TARGET_DIR=$scratch/target CARGO_PROFILE_DEV_DEBUG=false \
      cargo install --locked --debug --quiet --version "$version" $features --root "$scratch/root" "$name" ;;
  esac >"$scratch/log" 2>&1 || {
    cat "$scratch/log" >&2
    echo "$name: building version $version failed: see above" >&2
    exit 1
  }
  # A rename, so that nobody ever sees half of it; another run may have been faster.
  mv "$scratch/root" "$home" 2>/dev/null || [ -x "$home/bin/$name" ]
  rm -rf "$scratch"
fi

[ -z "$where" ] || { echo "$home/bin" && exit; }
exec "$home/bin/$name" "$@"
