#!/usr/bin/env bash
# Runs a command, unless it has succeeded before with the same files.
#
#   hack/unless-unchanged.sh PATH... -- COMMAND...
#
# What succeeded is kept in $XDG_CACHE_HOME/dependency-watchdog, or ~/.cache/..., as an empty file named by the digest of
# the command and of these files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

paths=()
while [[ $1 != -- ]]; do
  paths+=("$1")
  shift
done
shift

done=${XDG_CACHE_HOME:-$HOME/.cache}/dependency-watchdog/unchanged
digest=$({ printf '%s\n' "$@" && find "${paths[@]}" -type f -exec cksum {} + | sort; } | git hash-object --stdin)
if [[ -e $done/$digest ]]; then
  echo "unchanged, so not run again: $*"
  exit
fi
"$@"
mkdir -p "$done"
touch "$done/$digest"
