#!/bin/sh
# Lists what a publisher has to fill in before a release, and fails while anything is left. `hack/placeholders.sh fill`
# first replaces each in every file of the repository, by these variables:
#
#   BOOK      address at which the book (`make book`) is published, without a slash at the end
#   SOURCE    address of the repository's files: https://github.com/OWNER/NAME/blob/main
#   RELEASES  address of the files of a release, before its tag: https://github.com/OWNER/NAME/releases/download
#   OWNERS    who reviews changes: @OWNER/TEAM
#
# registry.example.com and git.example.com stay: they stand for a user's own.
set -eu
cd "$(dirname "$0")/.."

book='https://dependency-watchdog\.example\.com'
owners='@dependency-watchdog/maintainers'
holding() { # PATTERN
  git grep --files-with-matches -e "$1" -- ':!CONTRIBUTING.md' ':!hack/placeholders.sh'
}

if [ "${1-}" = fill ]; then
  : "${BOOK:?is not set}" "${SOURCE:?is not set}" "${RELEASES:?is not set}" "${OWNERS:?is not set}"
  for file in $(holding "$book\|$owners"); do
    # The longer ones first. In place of sed -i, which is not the same everywhere.
    sed -e "s|$book/source|$SOURCE|g" -e "s|$book/releases|$RELEASES|g" -e "s|$book|$BOOK|g" \
      -e "s|$owners|$OWNERS|g" "$file" >"$file.filled"
    cat "$file.filled" >"$file"
    rm "$file.filled"
  done
fi

left=0
named() { # VARIABLE WHAT PATTERN
  files=$(holding "$3" | tr '\n' ' ')
  [ -z "$files" ] || { left=1 && printf '%-9s %s: %s\n' "$1" "$2" "$files"; }
}
named BOOK 'address of the book' "$book\(/alerts\|[^/]\|\$\)"
named SOURCE "address of the repository's files" "$book/source"
named RELEASES 'address of the files of a release' "$book/releases"
named OWNERS 'who reviews changes' "$owners"
[ "$left" = 0 ] || echo 'placeholders: not filled in yet. CONTRIBUTING.md, Releasing, says how' >&2
exit "$left"
