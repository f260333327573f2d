#!/usr/bin/env bash
# Gathers what a release consists of in dist/: for each architecture of hack/static-all.sh the static
# binary, the image as an OCI archive and the kubectl plugin, whose manifest is for krew; the chart,
# manifests and CustomResourceDefinitions each as one file, what the binary is made of (a CycloneDX
# SBOM), and the checksums of all. The same commit gives the same bytes.
#
#   IMAGE              the name and tag under which the image will be pushed, for install.yaml
#                      (default: dependency-watchdog and the version, as in manifests)
#   DWD_STATIC         a static binary for this machine, in place of building any
#   SOURCE_DATE_EPOCH  the time of all files (default: that of the last commit)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
name=dependency-watchdog
image=${IMAGE:-$name:$version}
[[ $image =~ ^[^[:space:]@]+:[A-Za-z0-9_][A-Za-z0-9._-]*$ ]] || {
  echo "dist: IMAGE='$image' is not NAME:TAG" >&2
  exit 1
}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

# Inside the repository, since kustomize takes no absolute path.
scratch=$(mktemp -d "$PWD/.dist.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
mkdir "$scratch/dist"
pack() { # OUTPUT DIRECTORY ENTRY
  tar --create --directory "$2" --format=ustar --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
    --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX "$3" | gzip -n -9 >"$1"
}

DIST=$scratch/dist hack/image.sh >/dev/null

# Each as it is, and as a plugin of kubectl in the form that krew asks for.
plugin=kubectl-dwd
cp hack/krew.yaml "$scratch/dist/dwd.yaml"
binaries=$(hack/static-all.sh 2>/dev/null)
# This machine's starts, and has what is in the repository.
read -r _ own <<<"$binaries"
"$own" --version >/dev/null
"$own" crd | cmp - <(cat crds/$name.*.yaml)
while read -r architecture static; do
  install -m 755 "$static" "$scratch/dist/$name-$version-linux-$architecture"
  mkdir -p "$scratch/$plugin"
  install -m 755 "$static" "$scratch/$plugin/$plugin"
  install -m 644 LICENSE "$scratch/$plugin/LICENSE"
  archive=$plugin-$version-linux-$architecture.tar.gz
  pack "$scratch/dist/$archive" "$scratch" $plugin
  checksum=$(sha256sum "$scratch/dist/$archive")
  sed -i "\\|/$archive\$|{n;s|\"0*\"|\"${checksum%% *}\"|;}" "$scratch/dist/dwd.yaml"
done <<<"$binaries"

hack/gitops.sh helm package charts/$name --destination "$scratch" >/dev/null
# Once more, without the time of packing.
mkdir "$scratch/chart"
tar --extract --directory "$scratch/chart" --file "$scratch/$name-$version.tgz"
pack "$scratch/dist/$name-$version.tgz" "$scratch/chart" $name

kubectl=$(e2e/controlplane/build.sh)/kubectl
mkdir "$scratch/install"
cat >"$scratch/install/kustomization.yaml" <<EOF
resources: [../../manifests]
images: [{name: $name, newName: "${image%:*}", newTag: "${image##*:}"}]
EOF
"$kubectl" kustomize "$scratch/install" >"$scratch/dist/install.yaml"
"$kubectl" kustomize crds >"$scratch/dist/crds.yaml"

# It writes beside each Cargo.toml, so in a copy of what the image is built of.
mkdir "$scratch/source"
sed -n 's/^!//p' .dockerignore | tar -c -f - -T - | tar -x -f - -C "$scratch/source"
(cd "$scratch/source" && "$OLDPWD/hack/cargo-tool.sh" cyclonedx --quiet --format json \
  --spec-version 1.5 --target "$(rustc -vV | sed -n 's/^host: //p')" --no-build-deps \
  --features jemalloc)
mv "$scratch/source/$name.cdx.json" "$scratch/dist/$name-$version.cdx.json"

(cd "$scratch/dist" && sha256sum -- * >SHA256SUMS)
rm -rf dist
mv "$scratch/dist" dist
ls -l dist
hack/placeholders.sh >&2 || true
