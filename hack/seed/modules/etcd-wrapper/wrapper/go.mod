module github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/wrapper

go 1.26.0
