module github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/pause

go 1.26.0
