#!/usr/bin/env bash
# Lines of code of what is shipped, by folder: no blank lines, no comments, no tests. And the public types of
# a folder, with --types FOLDER.
set -euo pipefail
cd "$(dirname "$0")/.."

# The code of these files, one line each, with the file before it.
code() {
    awk '
        FNR == 1 { tests = 0; block = 0 }
        /^#\[cfg\(test\)\]$/ { tests = 1 }
        # A module of tests in a file of its own is no end of this one.
        tests == 1 && /^(pub(\([a-z]*\))? )?mod [a-z_]+;$/ { tests = 0; next }
        tests { next }
        /^[[:space:]]*$/ || /^[[:space:]]*\/\// { next }
        { print FILENAME ": " $0 }
    ' "$@"
}

shipped() {
    find "$@" -name '*.rs' -not -name tests.rs -not -name fixtures.rs \
        -not -path '*/tests/*' -not -path '*/fixtures/*' -not -path 'src/bin/*' | sort
}

if [[ ${1-} == --types ]]; then
    # shellcheck disable=SC2046 # no path of a source file has a space
    code $(shipped "${2:?which folder?}") |
        sed -nE 's/^([^:]+): pub (struct|enum|trait|type) ([A-Za-z0-9]+).*/\3 \1/p' | sort
    exit
fi

for folder in src/*/; do
    [[ $folder == src/bin/ ]] && continue
    # shellcheck disable=SC2046
    lines=$(code $(shipped "$folder") | wc -l)
    printf '%6d %s\n' "$lines" "$folder"
done | sort -rn
# shellcheck disable=SC2046
printf '%6d %s\n' "$(code $(shipped src) | wc -l)" all
