#!/bin/sh
# Builds the documentation as a book in target/book. SOURCE is the address of the repository's files, to which links
# that leave docs/ lead there.
set -eu
cd "$(dirname "$0")/.."

source=${SOURCE:-https://dependency-watchdog.example.com/source}
copy=target/book-source
rm -rf "$copy" target/book
mkdir -p "$copy"
cp -R docs book.toml "$copy"
# ](../charts/…), from docs, and ](../../charts/…), from a folder of docs, leave it; ](../policy.md) does not.
find "$copy/docs" -name '*.md' -exec sed -i.bak -E \
  "s#\]\((\.\./)+((charts|crds|e2e|hack|manifests|src|tests)/[^)]*|(CHANGELOG|CONTRIBUTING|README)\.md[^)]*|LICENSE)\)#](${source}/\2)#g" {} +
find "$copy" -name '*.bak' -delete

PATH=$(hack/tool.sh --where mdbook-mermaid):$PATH
export PATH
mdbook-mermaid install "$copy" 2>/dev/null
hack/tool.sh mdbook build --dest-dir "$PWD/target/book" "$copy"
