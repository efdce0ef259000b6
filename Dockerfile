# Builds an image with the same binaries, user, labels and entrypoint as `go run -C hack/seed . image`. The base image adds common files,
# for example CA certificates. The build requires BuildKit, podman or buildah.
FROM --platform=$BUILDPLATFORM golang:1.26.8 AS builder

ENV GOCACHE=/go/cache
WORKDIR /src
COPY go.mod go.sum ./
COPY pkg/apis/druid/go.mod pkg/apis/druid/go.sum pkg/apis/druid/
COPY cmd/etcd-helper/go.mod cmd/etcd-helper/go.sum cmd/etcd-helper/
RUN --mount=type=cache,target=/go/pkg/mod go mod download && go -C cmd/etcd-helper mod download
COPY . .

# Go cross-compiles for this operating system and architecture. Empty: those of the build machine.
ARG TARGETOS
ARG TARGETARCH
# Version of the operator. Empty: the content of the file VERSION.
ARG EFFECTIVE_VERSION=
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/go/cache \
    GOOS=$TARGETOS GOARCH=$TARGETARCH EFFECTIVE_VERSION=$EFFECTIVE_VERSION \
    hack/build.sh -o /gardener-extension-etcd-druid ./cmd/gardener-extension-etcd-druid
# A module of its own, which Jobs of the operator run.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/go/cache \
    GOOS=$TARGETOS GOARCH=$TARGETARCH EFFECTIVE_VERSION=$EFFECTIVE_VERSION \
    hack/build.sh -C cmd/etcd-helper -o /etcd-helper .

FROM gcr.io/distroless/static-debian13:nonroot

LABEL org.opencontainers.image.title="gardener-extension-etcd-druid" \
      org.opencontainers.image.source="https://github.com/gardener/gardener-extension-etcd-druid" \
      org.opencontainers.image.licenses="Apache-2.0"

COPY --from=builder /gardener-extension-etcd-druid /gardener-extension-etcd-druid
COPY --from=builder /etcd-helper /etcd-helper
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/gardener-extension-etcd-druid"]
