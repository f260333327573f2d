#!/usr/bin/env bash
# Checks the alert rules in manifests/monitoring and runs their tests, by promtool.
#
# promtool knows Prometheus's own files alone, so the groups are taken out of the PrometheusRule. Its
# tests compare all annotations, which are words for people, so these are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source=manifests/monitoring
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

sed -n '/^spec:$/,$ { /^spec:$/d; s/^  //; p; }' "$source/prometheusrule.yaml" >"$scratch/whole.yaml"
hack/promtool.sh check rules --lint=all --lint-fatal "$scratch/whole.yaml"

# The annotations of a rule are its last key, and indented more deeply than it.
awk '/^ +annotations:$/ { skip = match($0, /[^ ]/); next }
  skip && match($0, /[^ ]/) > skip { next }
  { skip = 0; print }' "$scratch/whole.yaml" >"$scratch/rules.yaml"
cp "$source"/tests/*.yaml "$scratch"
hack/promtool.sh test rules "$scratch"/prober.yaml "$scratch"/weeder.yaml
