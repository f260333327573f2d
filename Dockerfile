# syntax=docker/dockerfile:1
#
# One static binary, and nothing else: `docker build --tag dependency-watchdog .`. It is what
# `make release` builds, and `make node` runs in a container.
#
# There are no certificate authorities in it: those of the seed come with the ServiceAccount, those
# of a shoot stand in its kubeconfig.

# The version is that of rust-toolchain.toml, so that no toolchain is downloaded. Slim has a C compiler
# and the static C library besides; make is for the allocator. To pin it for good, give it with its
# digest: --build-arg RUST_IMAGE=rust:...@sha256:...
ARG RUST_IMAGE=docker.io/library/rust:1.95.0-slim-bookworm

FROM ${RUST_IMAGE} AS build
RUN apt-get update && apt-get install --yes --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /source
# What is not copied cannot make a layer stale: .dockerignore names all that is.
COPY . .
# The caches outlive the layer, so a change of the source compiles the source alone. Cargo goes by
# time stamps, and those of another checkout may be older than what was built of this one, hence the
# touch. The output is in a cache, hence the copy.
RUN --mount=type=cache,id=dependency-watchdog-registry,target=/usr/local/cargo/registry \
    --mount=type=cache,id=dependency-watchdog-target,target=/source/target,sharing=locked \
    find src -type f -exec touch {} + && cp "$(hack/static.sh)" /dependency-watchdog

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="dependency-watchdog" \
      org.opencontainers.image.description="Protects hosted Kubernetes control planes from cascading failure, and says why it acted" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /dependency-watchdog /usr/local/bin/dependency-watchdog
USER 65532:65532
# As in the manifests.
EXPOSE 9643 9644
ENTRYPOINT ["/usr/local/bin/dependency-watchdog"]
