#!/usr/bin/env bash
# Checks the syntax of each query of the dashboard in manifests/monitoring, by promtool. What they
# name is checked by tests/it/files/monitoring.rs, and that each query has a line of its own, by which they are
# found here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# As recording rules, the one form in which promtool takes many. Grafana puts in its variables before
# it asks: durations for those that begin with two underscores, expressions of names for others.
sed -n 's/^ *"expr": "\(.*\)",\{0,1\}$/\1/p' manifests/monitoring/dashboard.json |
  sed 's/\\"/"/g; s/\\\\/\\/g; s/\$__[a-z_]*/5m/g; s/\$[a-z]*/.+/g' |
  awk 'BEGIN { print "groups:\n  - name: dashboard\n    rules:" }
    { printf "      - record: dashboard:query_%d\n        expr: |\n          %s\n", NR, $0 }' \
    >"$scratch/queries.yaml"
hack/promtool.sh check rules --lint=all --lint-fatal "$scratch/queries.yaml"
