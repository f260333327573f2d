#!/bin/sh
# Runs `cargo test` commands, and ends with what ran: the result line of each test binary, what failed and why, and the
# total. All but the first run one after the other beside it, in what it leaves of the cores, and are printed after it.
#
#   hack/test.sh COMMAND [COMMAND...]
set -eu

dir=$(mktemp -d)
log=$dir/log
trap 'rm -rf "$dir"' EXIT
first=$1
shift

run() { # COMMAND
  sh -c "$1" 2>&1 || echo "$?" >"$dir/status"
}
run_all() {
  for command; do run "nice -n 10 $command"; done
}

# One pipeline, though nothing is passed on: an interrupt does not reach what runs in the background.
run_all "$@" >"$dir/beside" | run "$first" | tee "$log"
tee -a "$log" <"$dir/beside"

awk '
  /^ +(Running|Doc-tests) / {
    name = $0
    sub(/^ +(Running )?/, "", name)
    # "(target/debug/deps/CRATE-0123456789abcdef)": of the path, the crate is what tells.
    gsub(/\([^)]*\/|-[0-9a-f]+\)$/, "", name)
  }
  /^test .* \.\.\. FAILED/ { failed[++failures] = name ": " $2 }
  # What a test prints last says why it failed.
  function tell(  i) {
    for (i = lines > 40 ? lines - 39 : 1; i <= lines; i++) reasons[++said] = "  " line[i]
    lines = 0
  }
  /^failures:$/ { tell(); why = 0 }
  /^---- .* ----$/ { tell(); reasons[++said] = $0; why = 1; next }
  why && NF { line[++lines] = substr($0, 1, 500) }
  /^test result: / {
    results[++binaries] = $0 "  [" name "]"
    for (i = 2; i <= NF; i++) {
      if ($i == "passed;") passed += $(i - 1)
      if ($i == "failed;") failed_tests += $(i - 1)
      if ($i == "ignored;") ignored += $(i - 1)
    }
  }
  END {
    print ""
    print "What ran:"
    for (i = 1; i <= binaries; i++) print results[i]
    for (i = 1; i <= failures; i++) print "FAILED " failed[i]
    for (i = 1; i <= said; i++) print reasons[i]
    printf "total: %d passed, %d failed, %d ignored, %d test binaries\n",
      passed, failed_tests, ignored, binaries
  }
' "$log"

[ ! -e "$dir/status" ] || exit "$(cat "$dir/status")"
