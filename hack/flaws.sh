#!/usr/bin/env bash
# Tries the tests: applies each deliberate flaw of tests/flaws to a copy of the sources, one at a time, and expects the
# tests to fail. Prints which test found it. Fails if one is not found, does not apply or does not compile.
#
#   hack/flaws.sh [NAME...] [-- COMMAND...]
#
# NAME is a patch of tests/flaws, without `.patch`; all of them if none is given. A patch begins with the line of the
# README that it breaks, the flaw in words, and the test that finds it: a test binary, or `lib`, and a part of the names
# of its tests, if not all are to be run. COMMAND is run instead of these tests, whatever a patch names. Without a flaw
# it must pass, which is tried first.
#
# The output of each run is kept in target/flaws. The copy is in ~/.cache/dependency-watchdog/flaws: within the sources
# Cargo would take their configuration twice, and build all dependencies again. What Cargo makes of it is beside what it
# makes of the sources, and other than that, since without debug information; dependencies have none anyway.
set -euo pipefail
cd "$(dirname "$0")/.."

names=()
while [[ $# -gt 0 && $1 != -- ]]; do
  names+=("$1")
  shift
done
given=("${@:2}")
if [[ ${#names[@]} -eq 0 ]]; then
  for patch in tests/flaws/*.patch; do
    names+=("$(basename "$patch" .patch)")
  done
fi

patches=$PWD/tests/flaws
work=$PWD/target/flaws
tree=${XDG_CACHE_HOME:-$HOME/.cache}/dependency-watchdog/flaws
mkdir -p "$work" "$(dirname "$tree")"
git worktree prune
# With what has not been committed.
commit=$(git stash create)
commit=${commit:-HEAD}
if [[ -e $tree/.git ]]; then
  git -C "$tree" checkout --quiet --force --detach "$(git rev-parse "$commit")"
else
  git worktree add --quiet --force --detach "$tree" "$commit"
fi

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target} CARGO_PROFILE_DEV_DEBUG=none
# The same is drawn with each flaw and without, one failure is enough, and it need not be reduced.
export CAMPAIGN=first CAMPAIGN_SEED=${CAMPAIGN_SEED:-1} PROPTEST_MAX_SHRINK_ITERS=0

header() { # FIELD NAME
  sed -n "s/^# $1: //p" "$patches/$2.patch"
}

# Runs the tests for a flaw: those of COMMAND, or those that the patch names.
try() { # TEST LOG
  local suite part=() command
  read -r suite part <<<"$1"
  command=(cargo test --locked --workspace --test "$suite" -- ${part:+"$part"})
  [[ $suite == lib ]] && command=(cargo test --locked --workspace --lib -- ${part:+"$part"})
  [[ ${#given[@]} -gt 0 ]] && command=("${given[@]}")
  (cd "$tree" && timeout 1200 "${command[@]}") >"$2" 2>&1
}

clean() {
  git -C "$tree" reset --quiet --hard
  git -C "$tree" clean --quiet --force -d
}

clean
tests=()
for name in "${names[@]}"; do
  tests+=("$(header Test "$name")")
done
# So that what is found is the flaw.
while read -r test; do
  echo "without a flaw: $test" >&2
  log=$work/none-${test// /-}.log
  try "$test" "$log" || { echo "$test fails without a flaw: $log" >&2; exit 1; }
  if [[ ${#given[@]} -gt 0 ]]; then break; fi
done < <(printf '%s\n' "${tests[@]}" | sort -u)

failed=0
table=$work/table.md
printf '| README | flaw | what failed |\n|---|---|---|\n' >"$table"
for place in "${!names[@]}"; do
  name=${names[$place]}
  log=$work/$name.log
  clean
  begun=$SECONDS
  if ! git -C "$tree" apply "$patches/$name.patch"; then
    found='**does not apply**'
  elif try "${tests[$place]}" "$log"; then
    found='**nothing**'
  elif grep -q '^error: could not compile' "$log"; then
    found='**does not compile**'
  else
    # A test may not end, either.
    mapfile -t found_by < <(sed -nE 's/^test (.*) (\.\.\. FAILED|has been running for .*)$/\1/p' "$log" | awk '!seen[$0]++')
    found=${found_by[0]:+\`${found_by[0]}\`}
    found=${found:-'**no test**'}
    [[ ${#found_by[@]} -gt 1 ]] && found+=" and $((${#found_by[@]} - 1)) more"
  fi
  [[ $found == '**'* ]] && failed=1
  echo "| $(header README "$name") | $name: $(header Flaw "$name") | $found |" >>"$table"
  echo "$name: $found, $((SECONDS - begun)) s" >&2
done
clean
cat "$table"
exit "$failed"
