# The same program, user, labels and entrypoint as the image that `go run -C hack/seed . image` packs from Go alone; the base adds what
# every program may expect, such as certificates. Needs BuildKit, podman or buildah.
FROM --platform=$BUILDPLATFORM golang:1.26.8 AS builder

ENV GOCACHE=/go/cache
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .

# Go compiles for the other machine on this one; empty is this one's kind.
ARG TARGETOS
ARG TARGETARCH
# Empty is what the file VERSION says.
ARG EFFECTIVE_VERSION=
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/go/cache \
    GOOS=$TARGETOS GOARCH=$TARGETARCH EFFECTIVE_VERSION=$EFFECTIVE_VERSION \
    hack/build.sh -o /gardener-extension-etcd-druid ./cmd/gardener-extension-etcd-druid

FROM gcr.io/distroless/static-debian13:nonroot

LABEL org.opencontainers.image.title="gardener-extension-etcd-druid" \
      org.opencontainers.image.source="https://github.com/gardener/gardener-extension-etcd-druid" \
      org.opencontainers.image.licenses="Apache-2.0"

COPY --from=builder /gardener-extension-etcd-druid /gardener-extension-etcd-druid
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/gardener-extension-etcd-druid"]
