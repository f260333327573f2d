#!/usr/bin/env bash
# Runs a tool that tests the chart and the GitOps examples, with the arguments given: `helm`, or `health`,
# which prints how Flux and Argo CD judge an object. Or prints the `definitions` of the kinds of Flux, Argo CD
# and the Prometheus operator that manifests/ uses. The first use builds the tools, of the versions in
# gitops/go.mod, which takes minutes on two cores; later ones start immediately.
#
#   hack/gitops.sh helm|health|definitions|build [ARGUMENT...]
#
# They are kept in $XDG_CACHE_HOME/dependency-watchdog, or ~/.cache/..., outside target/. A change of
# what is in gitops/ or of this script builds into a new directory.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf 'gitops: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
digest() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c1-12; }

# Where the definitions are published: modules, of which nothing is built, and files in them.
definitions=(
  github.com/fluxcd/source-controller@v1.9.6
  config/crd/bases/source.toolkit.fluxcd.io_gitrepositories.yaml
  github.com/fluxcd/source-controller@v1.9.6
  config/crd/bases/source.toolkit.fluxcd.io_ocirepositories.yaml
  github.com/fluxcd/kustomize-controller@v1.9.6
  config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml
  github.com/fluxcd/helm-controller@v1.6.4
  config/crd/bases/helm.toolkit.fluxcd.io_helmreleases.yaml
  github.com/argoproj/argo-cd/v3@v3.5.7
  manifests/crds/application-crd.yaml
  github.com/prometheus-operator/prometheus-operator@v0.85.0
  example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml
  github.com/prometheus-operator/prometheus-operator@v0.85.0
  example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml
)

tool=${1:-}
[[ $tool =~ ^(helm|health|definitions|build)$ ]] ||
  die "give helm, health, definitions or build, not '$tool'"
shift

source=$here/gitops
cache=${XDG_CACHE_HOME:-$HOME/.cache}/dependency-watchdog
built=$cache/gitops-$(cat "$source"/go.{mod,sum} "$source"/health/*.go "$here/gitops.sh" | digest)
if [[ ! -x $built/helm ]]; then
  version=$(sed -n 's/^.*helm.sh\/helm\/v4 \(v[0-9.]*\).*$/\1/p' "$source/go.mod")
  go=$(sed -n 's/^go //p' "$source/go.mod")
  command -v go >/dev/null || die "Go is missing: install Go $go or newer"
  say "building helm $version, which takes minutes the first time"
  mkdir -p "$built"
  scratch=$(mktemp -d "$cache/building.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  trap 'exit 130' INT TERM
  (cd "$source" && CGO_ENABLED=0 GOWORK=off GOBIN="$scratch" go install -mod=readonly -trimpath \
    -buildvcs=false -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$version" \
    helm.sh/helm/v4/cmd/helm ./health) >&2 ||
    die "go install of helm $version failed: see its messages above"
  for ((i = 0; i < ${#definitions[@]}; i += 2)); do
    module=${definitions[i]}
    folder=$(cd "$scratch" && GOWORK=off go mod download -json "$module" |
      sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') && [[ -n $folder ]] ||
      die "cannot download $module: try \`go mod download -json $module\`"
    printf -- '---\n' && cat "$folder/${definitions[i + 1]}"
  done >"$scratch/definitions.yaml"
  # Renames, so that nobody ever sees half of it; helm last, by which it is known to be there.
  mv -f "$scratch/definitions.yaml" "$built/definitions.yaml"
  mv -f "$scratch/health" "$built/health"
  mv -f "$scratch/helm" "$built/helm"
  rm -rf "$scratch"
  say "built in ${SECONDS}s"
fi

case $tool in
  build) exit 0 ;;
  definitions) exec cat "$built/definitions.yaml" ;;
esac
exec "$built/$tool" "$@"
