#!/usr/bin/env bash
# Builds etcd, kube-apiserver, kube-controller-manager and kubectl at the versions in go.mod, and
# prints the directory that holds all four as the last line on stdout. Progress goes to stderr.
#
# The first run takes minutes; later ones find the binaries and return at once. A change of go.mod,
# go.sum or this script builds into a new directory.
#
#   KUBEBUILDER_ASSETS  a directory with such binaries; only what it lacks is built
#   DWD_E2E_CACHE       where to keep the result (default: ~/.cache/dependency-watchdog)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binaries=(etcd kube-apiserver kube-controller-manager kubectl)

say() { printf 'controlplane: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
digest() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c1-12; }

package_of() {
  case $1 in
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    *) echo "k8s.io/kubernetes/cmd/$1" ;;
  esac
}

# What KUBEBUILDER_ASSETS offers is taken as it is.
wanted=()
for name in "${binaries[@]}"; do
  [[ -n ${KUBEBUILDER_ASSETS:-} && -x $KUBEBUILDER_ASSETS/$name ]] || wanted+=("$name")
done
if ((${#wanted[@]} == 0)); then
  echo "$KUBEBUILDER_ASSETS"
  exit 0
fi

cache=${DWD_E2E_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dependency-watchdog}
built=$cache/controlplane-$(cat "$here/go.mod" "$here/go.sum" "$here/build.sh" | digest)
mkdir -p "$built"

missing() {
  local name
  for name in "${wanted[@]}"; do [[ -x $built/$name ]] || echo "$name"; done
}

build() { # name number total
  local started=$SECONDS beat=$SECONDS pid interval=20
  [[ -t 2 ]] && interval=1
  say "building $1 ($2 of $3; the first time takes some minutes)"
  (cd "$here" && CGO_ENABLED=0 GOWORK=off exec go build -mod=readonly -trimpath -buildvcs=false \
    -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/client-go/pkg/version.gitVersion=$version" \
    -o "$scratch/$1" "$(package_of "$1")") >&2 &
  pid=$!
  builder=$pid
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS - beat >= interval)); then
      beat=$SECONDS
      if [[ -t 2 ]]; then
        printf '\rcontrolplane: building %s, %ds \r' "$1" $((SECONDS - started)) >&2
      else
        say "still building $1, $((SECONDS - started))s"
      fi
    fi
  done
  wait "$pid" || die "go build of $1 failed: see its messages above"
  builder=
  # A rename, so that nobody ever sees half a binary.
  mv -f "$scratch/$1" "$built/$1"
  say "built $1 in $((SECONDS - started))s"
}

if [[ -n $(missing) ]]; then
  go=$(sed -n 's/^go //p' "$here/go.mod")
  command -v go >/dev/null || die "Go is missing: install Go $go or newer, or point KUBEBUILDER_ASSETS at a directory with: ${binaries[*]}"

  # Two runs at once: the second waits, then finds everything there. Where flock is missing both
  # build, each in a directory of its own, which costs time only.
  exec 9>"$cache/controlplane.lock"
  if command -v flock >/dev/null && ! flock -n 9; then
    say "waiting for another build to end"
    flock 9
  fi

  builder=
  scratch=$(mktemp -d "$cache/building.XXXXXX")
  trap '[[ -z $builder ]] || kill "$builder" 2>/dev/null || true; rm -rf "$scratch"' EXIT
  trap 'exit 130' INT TERM
  # The version that go.mod pins: without it the API server calls itself v0.0.0-master.
  version=$(sed -n 's/^.*k8s.io\/kubernetes \(v[0-9.]*\).*$/\1/p' "$here/go.mod")
  read -r -d "" -a todo < <(missing) || true
  count=0
  for name in "${todo[@]}"; do build "$name" $((count += 1)) "${#todo[@]}"; done
  ((count == 0)) || say "all built in ${SECONDS}s"
fi

if [[ -z ${KUBEBUILDER_ASSETS:-} ]]; then
  echo "$built"
  exit 0
fi

# One directory for the caller: the binaries given, and ours for the rest.
joined=$built/with-$(printf %s "$KUBEBUILDER_ASSETS" | digest)
mkdir -p "$joined"
for name in "${binaries[@]}"; do
  source=$KUBEBUILDER_ASSETS/$name
  [[ -x $source ]] || source=$built/$name
  ln -sfn "$source" "$joined/$name"
done
echo "$joined"
