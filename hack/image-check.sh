#!/usr/bin/env bash
# Checks what the Dockerfile puts into the image, without a container engine: builds the binary as it
# does, of what it copies and nothing else; then runs it in an empty root, also against real API
# servers. Builds for use, which takes minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
locked=${CI:+--locked}
# In one the prober acts and restores, in the other the weeder acts.
scenarios=(
  e2e_an_outage_is_survived_with_every_count_restored
  e2e_a_control_plane_is_weeded_minutes_before_its_back_off_ends
)
# More than this is something that was not meant to be in it.
most_bytes=$((24 << 20))

die() { printf 'image-check: %s\n' "$*" >&2; exit 1; }

# What is copied into the build, as .dockerignore has it: exceptions from everything. The time stamps
# are kept, and so is the place: only then does Cargo know what it has built already.
target=$("$cargo" metadata --locked --format-version 1 --no-deps |
  sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
context=$target/image-context
rm -rf "$context"
mkdir -p "$context"
[[ $(sed '/^#/d' .dockerignore | head -n 1) == '*' ]] || die ".dockerignore does not begin with *"
sed -n 's/^!//p' .dockerignore | tar -c -f - -T - | tar -x -f - -C "$context"

binary=$(cd "$context" && CARGO_TARGET_DIR=$target hack/static.sh)

linked=$(readelf --wide --program-headers --dynamic "$binary" | grep -E 'INTERP|NEEDED' || true)
[[ -z $linked ]] || die "$binary is not static: $linked"
bytes=$(wc -c <"$binary")
printf 'static: %s, %s bytes\n' "$binary" "$bytes"
((bytes <= most_bytes)) || die "it is larger than $most_bytes bytes"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export DWD_STATIC=$binary
hack/empty-root.sh --version
hack/empty-root.sh crd >"$scratch/printed.yaml"
cat crds/dependency-watchdog.*.yaml >"$scratch/kept.yaml"
cmp "$scratch/printed.yaml" "$scratch/kept.yaml" || die "crd prints other than what is in crds/"

for scenario in "${scenarios[@]}"; do
  DWD_BIN=$PWD/hack/empty-root.sh \
    "$cargo" test $locked --workspace --test e2e -- --exact "$scenario" | tee "$scratch/log"
  # None of that name is no failure to the test binary.
  grep -q '^test result: ok. 1 passed' "$scratch/log" || die "$scenario did not run"
done
