#!/bin/sh
# Writes an OCI archive of a directory, as one layer, without a container engine: what `skopeo copy
# oci-archive:FILE`, `podman load` and `ctr images import` take.
#
#   hack/oci-archive.sh OUTPUT NAME:TAG ARCHITECTURE ROOT CONFIG [ANNOTATIONS]
#
# CONFIG is the JSON of the image's configuration (User, Entrypoint and the like), ANNOTATIONS that of the
# manifest's. Everything in it belongs to root and is as old as SOURCE_DATE_EPOCH (1970 otherwise), so
# the same files give the same bytes. Needs GNU tar.
set -eu

output=$1 name=$2 architecture=$3 root=$4 config=$5 annotations=${6:-"{}"}
epoch=${SOURCE_DATE_EPOCH:-0}
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
blobs=$scratch/layout/blobs/sha256
mkdir -p "$blobs"

pack() { # FILE DIRECTORY
  tar --create --file "$1" --directory "$2" --format=ustar --sort=name --mtime="@$epoch" \
    --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX .
}
digest() { sha256sum "$1" | cut -d ' ' -f 1; }
# Moves a file among the blobs, and prints its descriptor, with more fields if given.
blob() { # FILE MEDIA-TYPE [FIELDS]
  sum=$(digest "$1")
  printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%s%s}' \
    "$2" "$sum" "$(($(wc -c <"$1")))" "${3:-}"
  mv "$1" "$blobs/$sum"
}

pack "$scratch/layer.tar" "$root"
unpacked=$(digest "$scratch/layer.tar")
gzip -n -9 "$scratch/layer.tar"
layer=$(blob "$scratch/layer.tar.gz" layer.v1.tar+gzip)

printf '{"created":"%s","architecture":"%s","os":"linux","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"%s"}]}' \
  "$created" "$architecture" "$config" "$unpacked" "$created" >"$scratch/config.json"
configuration=$(blob "$scratch/config.json" config.v1+json)

printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s],"annotations":%s}' \
  "$configuration" "$layer" "$annotations" >"$scratch/manifest.json"
# containerd goes by a name of its own, which is the one that a pod's image is completed to.
manifest=$(blob "$scratch/manifest.json" manifest.v1+json ",\"platform\":{\"architecture\":\"$architecture\",\"os\":\"linux\"},\"annotations\":{\"io.containerd.image.name\":\"docker.io/library/$name\",\"org.opencontainers.image.ref.name\":\"${name##*:}\"}")

printf '{"imageLayoutVersion":"1.0.0"}' >"$scratch/layout/oci-layout"
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' \
  "$manifest" >"$scratch/layout/index.json"
pack "$scratch/archive.tar" "$scratch/layout"
# In its own directory first: a rename, so that nobody ever sees half of it.
mv "$scratch/archive.tar" "$output.new.$$"
mv "$output.new.$$" "$output"
