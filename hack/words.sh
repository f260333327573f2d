#!/bin/sh
# Fails on words and long sentences that make the documentation hard to read, and says what to write instead.
# `make lint` runs it.
#
# Pages that are generated say what the code says.
set -eu
cd "$(dirname "$0")/.."

generated='docs/(api|flags)\.md'

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
documents() {
  git ls-files '*.md' ':!CHANGELOG.md' | grep -Ev "^$generated$"
}
# Without headings, to which others link, without the addresses of links, and without code.
documents | xargs awk '
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
# A sentence ends at a colon or semicolon, too. Tables are left out: their cells are lists.
documents | xargs awk '
  function judge(  count, i, sentences, words) {
    gsub(/\]\([^)]*\)/, "]", text)
    gsub(/`[^`]*`/, "code", text)
    count = split(text, sentences, /[.!?:;][)"*\]]* +/)
    for (i = 1; i <= count; i++)
      if (split(sentences[i], words, " ") > 30) print place ": " sentences[i] " → at most 25 words in a sentence"
    text = ""
  }
  FNR == 1 { judge(); fenced = 0 }
  /^ *```/ { judge(); fenced = !fenced; next }
  fenced || /^(#|\|| *$)/ { judge(); next }
  /^ *([-*]|[0-9]+\.) / { judge() }
  text == "" { place = FILENAME ":" FNR }
  { sub(/^ *([-*] |[0-9]+\. )?/, ""); text = text " " $0 }
  END { judge() }' >>"$scratch/found"
if [ -s "$scratch/found" ]; then
  cat "$scratch/found" >&2
  exit 1
fi
