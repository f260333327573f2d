#!/bin/sh
# Fails on words that make the documentation hard to read, and says what to write instead. `make lint` runs it.
#
# Pages that are generated say what the code says.
set -eu
cd "$(dirname "$0")/.."

generated='docs/(api|flags)\.md'

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Without headings, to which others link, without the addresses of links, and without code.
git ls-files '*.md' ':!CHANGELOG.md' | grep -Ev "^$generated$" | xargs awk '
  /^ *```/ { fenced = !fenced }
  !fenced && !/^#/ { gsub(/\]\([^)]*\)/, "]"); gsub(/`[^`]*`/, "`"); print FILENAME ":" FNR ": " $0 }' >"$scratch/text"
# A word, as an extended regular expression, and what is better.
while IFS=: read -r word better; do
  grep -Ei ": .*\b($word)\b" "$scratch/text" | sed "s|$| → $better|" >>"$scratch/found" || true
done <<'WORDS'
told:reported
tells?:says, shows, report
all else:everything else
whoever:those who, users who
comes? about:happens, takes effect
likelier:more likely
at once:immediately, or at the same time
mend(s|ed)?:fix
hear(s|d)? (of|from)?:receive, report
is heard|are heard:report
played:simulated
tak(e|es|en) [a-z]+( [a-z]+)? for (one|a|an|the|lost):treat as
as ever:as before
belongs? into:belongs in
amiss:wrong
beside:in addition to, next to
WORDS
if [ -s "$scratch/found" ]; then
  cat "$scratch/found" >&2
  exit 1
fi
