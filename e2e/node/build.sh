#!/usr/bin/env bash
# Builds containerd, kubelet, kube-scheduler and kube-proxy at the versions in go.mod, and prints the
# directory that holds them as the last line on stdout. Progress goes to stderr.
#
# The first run takes minutes; later ones find the binaries and return immediately. They are kept in
# DWD_E2E_CACHE (default: ~/.cache/dependency-watchdog). A change of go.mod, go.sum or this script builds
# into a new directory.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binaries=(containerd containerd-shim-runc-v2 ctr kube-proxy kube-scheduler kubelet)

say() { printf 'node: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
pinned() { sed -n "s,^.*$2 \(v[0-9.]*\).*\$,\1,p" "$1/go.mod"; }

kubernetes=$(pinned "$here" k8s.io/kubernetes)
# A kubelet must not be newer than its API server.
[[ $kubernetes == "$(pinned "$here/../controlplane" k8s.io/kubernetes)" ]] ||
  die "e2e/node/go.mod and e2e/controlplane/go.mod pin different versions of k8s.io/kubernetes"

cache=${DWD_E2E_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dependency-watchdog}
built=$cache/node-$(cat "$here/go.mod" "$here/go.sum" "$here/build.sh" | sha256sum | cut -c1-12)
if [[ ! -d $built ]]; then
  go=$(sed -n 's/^go //p' "$here/go.mod")
  command -v go >/dev/null || die "Go is missing: install Go $go or newer"
  mkdir -p "$cache"
  exec 9>"$cache/node.lock"
  flock 9
fi
if [[ ! -d $built ]]; then
  say "building ${binaries[*]}, which takes minutes the first time"
  scratch=$(mktemp -d "$cache/building.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  trap 'exit 130' INT TERM
  ldflags="-s -w -X github.com/containerd/containerd/v2/version.Version=$(pinned "$here" containerd/v2)"
  ldflags+=" -X k8s.io/component-base/version.gitVersion=$kubernetes"
  ldflags+=" -X k8s.io/client-go/pkg/version.gitVersion=$kubernetes"
  # Without the snapshotters and tracing that no pod here needs.
  (cd "$here" && CGO_ENABLED=0 GOWORK=off GOBIN="$scratch/bin" go install -mod=readonly -trimpath \
    -buildvcs=false -tags no_btrfs,no_devmapper,no_zfs,no_tracing -ldflags "$ldflags" tool) >&2 ||
    die "go install failed: see its messages above"
  # A rename: another run never sees half of it.
  mv "$scratch/bin" "$built"
  say "built in ${SECONDS}s"
fi
for binary in "${binaries[@]}"; do
  [[ -x $built/$binary ]] || die "$built lacks $binary: delete that directory, and run this again"
done
echo "$built"
