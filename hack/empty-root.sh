#!/bin/sh
# Runs the operator as a container without anything in it does: DWD_STATIC, the path of a static
# binary, in a root that holds nothing else, as the user of the image. It stands for the operator in
# scenarios: DWD_BIN=hack/empty-root.sh. Needs Linux with user namespaces, and no rights.
#
# The seed is reached by a name, and /etc/hosts has it, as a kubelet would write that file: so the
# resolver is tried. The name is one for which an API server signs itself a certificate. The root
# is left beside the kubeconfig, for whoever made that to remove.
set -eu
: "${DWD_STATIC:?is not set: the path of a static binary}"

name=kubernetes.default.svc
if [ -z "${DWD_KUBECONFIG:-}" ]; then
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
else
  root=$(mktemp -d "$(dirname "$DWD_KUBECONFIG")/root.XXXXXX")
  mkdir "$root/etc"
  echo "127.0.0.1 $name" >"$root/etc/hosts"
  sed "s,https://127\.0\.0\.1:,https://$name:," "$DWD_KUBECONFIG" >"$root/kubeconfig"
  grep -q "https://$name:" "$root/kubeconfig" || {
    echo "empty-root: $DWD_KUBECONFIG names no server https://127.0.0.1:PORT" >&2
    exit 1
  }
  export DWD_KUBECONFIG=/kubeconfig
fi
mkdir -p "$root/usr/local/bin"
cp "$DWD_STATIC" "$root/usr/local/bin/dependency-watchdog"

set -- unshare --map-user=65532 --map-group=65532 --root="$root" --wd=/ \
  /usr/local/bin/dependency-watchdog "$@"
if [ -z "${DWD_KUBECONFIG:-}" ]; then
  "$@"
else
  # In place of this shell, so that signals and exit codes are the operator's.
  exec "$@"
fi
