#!/usr/bin/env bash
# Builds the image that the Dockerfile describes, without a container engine and without a base to pull:
# an OCI archive per architecture in dist/. Prints their paths.
#
# The user, the entrypoint, the ports and the labels are read from the Dockerfile, the binaries are those
# of hack/static-all.sh.
#
#   DWD_STATIC         a static binary for this machine, in place of building any
#   SOURCE_DATE_EPOCH  the time of all that is in it (default: that of the last commit)
#   REVISION           the commit that is named in it (default: the last one)
#   DIST               where to put it (default: dist)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'image: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
# What follows an instruction of the Dockerfile.
dockerfile() { sed -n "s/^$1 //p" Dockerfile; }
# A label of the Dockerfile, all of which are of org.opencontainers.image.
label() { sed -n "s/.*org\.opencontainers\.image\.$1=\"\([^\"]*\)\".*/\1/p" Dockerfile; }

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
revision=${REVISION:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
dist=${DIST:-dist}
program=$(dockerfile ENTRYPOINT | tr -d '[]"')

labels='{'
for key in title description licenses; do
  value=$(label $key)
  [[ -n $value ]] || die "the Dockerfile has no label $key"
  labels+="\"org.opencontainers.image.$key\":\"$value\","
done
labels+="\"org.opencontainers.image.version\":\"$version\",\"org.opencontainers.image.revision\":\"$revision\"}"
ports=$(dockerfile EXPOSE | sed 's,\([0-9]*\) *,"\1/tcp":{}\,,g; s/,$//')
config="{\"User\":\"$(dockerfile USER)\",\"ExposedPorts\":{$ports},\"Env\":[\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"],\"Entrypoint\":[\"$program\"],\"WorkingDir\":\"/\",\"Labels\":$labels}"

archive() { # ARCHITECTURE BINARY
  local root=$scratch/$1 output=$dist/dependency-watchdog-$version-linux-$1.oci.tar
  mkdir -p "$root$(dirname "$program")" "$dist"
  install -m 755 "$2" "$root$program"
  hack/oci-archive.sh "$output" "dependency-watchdog:$version" "$1" "$root" "$config" "$labels"
  echo "$output"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
binaries=$(hack/static-all.sh)
while read -r architecture binary; do
  archive "$architecture" "$binary"
done <<<"$binaries"
