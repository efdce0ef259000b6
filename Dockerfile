# The same content as the image that the local seed packs from Go alone: one static program and a user that is not root.
FROM golang:1.26.8 AS builder

WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /gardener-extension-etcd-druid ./cmd/gardener-extension-etcd-druid

FROM gcr.io/distroless/static-debian13:nonroot

COPY --from=builder /gardener-extension-etcd-druid /gardener-extension-etcd-druid
USER 65532:65532
ENTRYPOINT ["/gardener-extension-etcd-druid"]
