#!/usr/bin/env bash
# Counts what this repository holds, and compares it with hack/lines.budget.
#
#   hack/lines.sh                  each area, its lines and its budget; fails if one is above its budget
#   hack/lines.sh --lower          writes the figures that have fallen to the budget, which never rises
#   hack/lines.sh --types FOLDER   public types of a folder of src
#   hack/lines.sh --fields PATH…   fields of structs and payloads of enums in these files and folders of src
#
# Rust is counted without blank lines and comments, each line in one area: what is shipped by folder of src,
# and what is not (tests in src, tests/, benches/, fake/ and e2e/) by group. Snapshots, documents, chart with
# monitoring are counted raw. `crates` is the number of crates in the binary on Linux.
set -euo pipefail
cd "$(dirname "$0")/.."
budget=hack/lines.budget

# Prints the code of these files that is not in a test, one line each, with the file before it.
code() {
    awk '
        FNR == 1 { tests = 0 }
        /^#\[cfg\(test\)\]$/ { tests = 1 }
        # A module of tests in a file of its own does not end this one.
        tests == 1 && /^(pub(\([a-z]*\))? )?mod [a-z_]+;$/ { tests = 0; next }
        tests { next }
        /^[[:space:]]*$/ || /^[[:space:]]*\/\// { next }
        { print FILENAME ": " $0 }
    ' "$@" /dev/null
}

# Lists the files of a folder of src that are shipped, in whole or in part.
shipped() {
    find "$@" -name '*.rs' -not -name tests.rs -not -name fixtures.rs \
        -not -path '*/tests/*' -not -path '*/fixtures/*' | sort
}

if [[ ${1-} == --types ]]; then
    # shellcheck disable=SC2046 # no path of a source file has a space
    code $(shipped "${2:?which folder?}") |
        sed -nE 's/^([^:]+): pub (struct|enum|trait|type) ([A-Za-z0-9]+).*/\3 \1/p' | sort
    exit
fi

if [[ ${1-} == --fields ]]; then
    # shellcheck disable=SC2046
    code $(shipped "${@:2}") | awk '
        { file = $1; sub(/:$/, "", file); sub(/^[^:]*: /, ""); gsub(/pub(\([^)]*\))? /, "") }
        /^(struct|enum) / { inside = 1 }
        inside && /^ +(r#)?[a-z_0-9]+: / { fields[file]++; sum++ }
        inside && /^(struct |    )[A-Z][A-Za-z0-9]*\(/ {
            while (gsub(/<[^<>]*>/, "")) { }
            sub(/^[^(]*\(/, "")
            payload = gsub(/, /, "") + 1
            fields[file] += payload; sum += payload
        }
        /^}|;$/ { inside = 0 }
        END { for (file in fields) print fields[file], file | "sort -k2"; close("sort -k2"); print sum, "all" }
    '
    exit
fi

# Counts the lines of Rust below these paths.
rust() {
    find "$@" -name '*.rs' -exec cat {} + | awk '!/^[[:space:]]*(\/\/|$)/' | wc -l
}

# Prints each area with its figure.
areas() {
    local file folder product=0 lines conformance
    for folder in src/*/; do
        # shellcheck disable=SC2046
        lines=$(code $(shipped "$folder") | wc -l)
        product=$((product + lines))
        echo "src ${folder%/} $lines"
    done
    # shellcheck disable=SC2046
    lines=$(code $(find src -maxdepth 1 -name '*.rs') | wc -l)
    product=$((product + lines))
    echo "src src/*.rs $lines"
    echo "not-shipped tests-in-src $(($(rust src) - product))"
    echo "not-shipped tests/it/campaign+world $(rust tests/it/{campaign,world} tests/it/{campaign,stories,world}.rs)"
    for file in tests/it/*.rs; do
        folder=${file%.rs}
        [[ $folder =~ /(campaign|stories|world)$ ]] && continue
        [[ -d $folder ]] || folder=
        echo "not-shipped ${file%.rs} $(rust "$file" $folder)"
    done
    echo "not-shipped benches $(rust benches)"
    conformance=$(rust e2e/tests/scenarios/conformance.rs e2e/tests/scenarios/conformance)
    echo "not-shipped fake+conformance $(($(rust fake) + conformance))"
    for folder in e2e/src/*/; do
        echo "not-shipped ${folder%/} $(rust "$folder")"
    done
    echo "not-shipped e2e/src/*.rs $(rust e2e/src/*.rs)"
    echo "not-shipped e2e/tests $(($(rust e2e/tests) - conformance))"
    echo "snapshots snapshots $(find . -name '*.snap' -not -path './target/*' -exec cat {} + | wc -l)"
    echo "docs docs $(find docs -name '*.md' -exec cat {} + | wc -l)"
    echo "chart charts+manifests/monitoring $(find charts manifests/monitoring -type f -exec cat {} + | wc -l)"
    echo "crates crates $(${CARGO:-cargo} tree --locked --edges normal --prefix none \
        --target x86_64-unknown-linux-gnu --package dependency-watchdog --features jemalloc | awk '!seen[$1, $2]++' | wc -l)"
}

figures=$(areas)
touch "$budget"

if [[ ${1-} == --lower ]]; then
    # An area that is new takes what it has; its lines have to fall elsewhere.
    awk -v budget="$budget" 'FILENAME == budget { if ($1 !~ /^#/ && NF) most[$2] = $1; next }
         { printf "%6d %s\n", ($2 in most && most[$2] < $3) ? most[$2] : $3, $2 }' \
        "$budget" - <<<"$figures" >"$budget.new"
    { grep '^#' "$budget" || true; cat "$budget.new"; } >"$budget.next"
    rm "$budget.new"
    mv "$budget.next" "$budget"
fi

awk -v budget="$budget" '
    FILENAME == budget { if ($1 !~ /^#/ && NF) most[$2] = $1; next }
    $1 != part { total(); part = $1 }
    {
        known[$2] = 1; sum += $3; rows++
        if (!($2 in most)) { note = "  has no budget"; bad = 1 }
        else if ($3 > most[$2]) { note = "  is above its budget"; bad = 1 }
        else note = ""
        if ($2 in most) limit += most[$2]
        printf "%7d of %6s  %s%s\n", $3, ($2 in most) ? most[$2] : "-", $2, note
    }
    function total() {
        if (rows > 1) printf "%7d of %6d  %s, all\n", sum, limit, part
        if (rows) print ""
        sum = limit = rows = 0
    }
    END {
        total()
        for (area in most) if (!(area in known)) { print area " is in the budget and nowhere else"; bad = 1 }
        if (bad) print "lines: what is above its budget has to shrink; a budget never rises (hack/lines.budget)"
        exit bad
    }
' "$budget" - <<<"$figures"
