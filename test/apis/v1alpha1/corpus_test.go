// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// corpus generates objects: a base, of which a few fields take a value out of a list. Most values are valid, so that most
// objects are; nil removes the field. Cases are objects that chance would hardly meet.
type corpus struct {
	base   map[string]any
	values map[string][]any
	cases  []map[string]any
}

// object returns a random object.
func (c corpus) object(random *rand.Rand) map[string]any { return c.change(random, c.base) }

// change returns a copy of the object with up to four fields changed.
func (c corpus) change(random *rand.Rand, object map[string]any) map[string]any {
	changed := runtime.DeepCopyJSON(object)
	for range random.Intn(5) {
		path := c.paths()[random.Intn(len(c.values))]
		set(changed, path, c.values[path][random.Intn(len(c.values[path]))])
	}

	return changed
}

func (c corpus) paths() []string {
	paths := make([]string, 0, len(c.values))
	for path := range c.values {
		paths = append(paths, path)
	}
	slices.Sort(paths)

	return paths
}

func set(object map[string]any, path string, value any) {
	fields := strings.Split(path, ".")
	if value == nil {
		unstructured.RemoveNestedField(object, fields...)
		return
	}
	// A parent that is not an object any more stays as it is.
	_ = unstructured.SetNestedField(object, runtime.DeepCopyJSONValue(value), fields...)
}

var (
	durations = []any{"10s", "1m30s", "1.5h", "300ms", "1us", "0s", "1d", "-1s", "0", "s", int64(5), nil}
	crons     = []any{
		"0 */24 * * *", "*/30 * * * *", "5 1 1 1 1", "10-20 1-5 1-31 1-12 1-7", "59/60 23/24 30/31 12/12 6/7",
		"0 0 * * 0", "0,30 * * * *", "0 8-18/2 * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8",
		"* * * *", "@daily", "* * * * * *", "", nil,
	}
	quantities = []any{"8Gi", "1e3", "0.5", "100m", int64(5), "8GB", "", nil}
	switches   = []any{true, false, "true", nil}
	texts      = []any{"a", "", nil}
	ports      = []any{int64(2379), int64(2380), int64(8080), int64(9095), int64(1), int64(65535), int64(0), int64(-1), int64(70000), nil}
	stringMaps = []any{map[string]any{}, map[string]any{"a": "b"}, map[string]any{"a": int64(1)}, nil}
	secretRef  = map[string]any{"name": "a", "namespace": "b"}
	tlsConfigs = []any{
		map[string]any{"tlsCASecretRef": map[string]any{"name": "a", "dataKey": "b"}, "serverTLSSecretRef": secretRef, "clientTLSSecretRef": secretRef},
		map[string]any{"tlsCASecretRef": map[string]any{}, "serverTLSSecretRef": map[string]any{}},
		map[string]any{"tlsCASecretRef": map[string]any{}},
		nil,
	}
	resources = []any{
		map[string]any{"requests": map[string]any{"cpu": "1", "memory": "1Gi"}, "limits": map[string]any{"memory": int64(5)}},
		map[string]any{"requests": map[string]any{"cpu": "x y"}},
		nil,
	}
	stores = []any{
		map[string]any{"prefix": "ns/test", "provider": "aws", "container": "my-bucket", "secretRef": secretRef, "endpointOverride": "https://s3.example.com"},
		map[string]any{"prefix": "", "provider": "anything"},
		map[string]any{"prefix": "p", "container": "a"},
		map[string]any{"prefix": "p", "container": "a/b/c"},
		map[string]any{"prefix": "p", "provider": strings.Repeat("p", 65)},
		map[string]any{"prefix": "p", "endpointOverride": "no url"},
		map[string]any{"prefix": "p", "endpointOverride": "https://user:password@s3.example.com"},
		map[string]any{"provider": "aws"},
		map[string]any{},
		nil,
	}
)

func peerURLs(member string, urls ...any) []any {
	return []any{map[string]any{"memberName": member, "urls": urls}}
}

func bootstrap(name string, peerURL, clientURL any) map[string]any {
	return map[string]any{
		"members":         []any{map[string]any{"name": name, "peerUrls": []any{peerURL}}},
		"clientEndpoints": []any{clientURL},
	}
}

func etcdWith(etcd, backup map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "Etcd",
		"metadata": map[string]any{"name": "test", "namespace": "ns"},
		"spec": map[string]any{
			"labels": map[string]any{"app": "test"}, "replicas": int64(3), "etcd": etcd, "backup": backup,
		},
	}
}

func hibernating(etcd map[string]any) map[string]any {
	etcd["spec"].(map[string]any)["replicas"] = int64(0)

	return etcd
}

func withManyAddresses(etcd map[string]any) map[string]any {
	const count = 33
	var addresses []any
	for i := range count {
		addresses = append(addresses, fmt.Sprintf("10.0.0.%d", i))
	}
	spec := etcd["spec"].(map[string]any)
	spec["replicas"], spec["externallyManagedMemberAddresses"] = int64(count), addresses

	return etcd
}

var etcdCorpus = corpus{
	base: etcdWith(map[string]any{}, map[string]any{}),
	cases: []map[string]any{
		etcdWith(map[string]any{}, map[string]any{"garbageCollectionPeriod": "10s500ms", "deltaSnapshotPeriod": "10s"}),
		hibernating(etcdWith(map[string]any{"additionalAdvertisePeerURLs": peerURLs("test-0", "http://a")}, map[string]any{})),
		withManyAddresses(etcdWith(map[string]any{}, map[string]any{})),
		etcdWith(map[string]any{"bootstrapWithExistingCluster": bootstrap("source-0", "http://a:2380", "http://user:password@a:2379")}, map[string]any{}),
		etcdWith(map[string]any{"bootstrapWithExistingCluster": bootstrap("source-0", "http://user:password@a:2380", "http://a:2379")}, map[string]any{}),
		etcdWith(map[string]any{"enableTLS": true, "additionalAdvertisePeerURLs": peerURLs("test-0", "https://a")}, map[string]any{}),
	},
	values: map[string][]any{
		"spec.labels":                           stringMaps,
		"spec.annotations":                      stringMaps,
		"spec.selector":                         {map[string]any{"matchLabels": map[string]any{"a": "b"}}, nil},
		"spec.replicas":                         {int64(0), int64(0), int64(1), int64(2), int64(3), int64(5), int64(7), int64(9), "3", nil},
		"spec.memberNamePrefix":                 {"eu", "eu-1", "-eu", "EU", strings.Repeat("a", 63), strings.Repeat("a", 64), "", nil},
		"spec.priorityClassName":                texts,
		"spec.storageClass":                     {"a", "b", "", nil},
		"spec.storageCapacity":                  quantities,
		"spec.volumeClaimTemplate":              {"a", "b", nil},
		"spec.runAsRoot":                        switches,
		"spec.externallyManagedMemberAddresses": {[]any{"10.0.0.1", "10.0.0.2", "::1"}, []any{"a"}, []any{"a", "a", "a"}, []any{}, nil},
		"spec.schedulingConstraints": {
			map[string]any{
				"affinity":                  map[string]any{"podAntiAffinity": map[string]any{}},
				"tolerations":               []any{map[string]any{"key": "a", "operator": "Exists"}},
				"topologySpreadConstraints": []any{map[string]any{"maxSkew": int64(1), "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}},
			},
			map[string]any{"topologySpreadConstraints": []any{map[string]any{"maxSkew": int64(1)}}},
			nil,
		},
		"spec.sharedConfig": {
			map[string]any{"autoCompactionMode": "periodic", "autoCompactionRetention": "anything"},
			map[string]any{"autoCompactionMode": "revision"}, map[string]any{"autoCompactionMode": "none"}, map[string]any{}, nil,
		},
		"spec.etcd":                         {map[string]any{}, nil},
		"spec.etcd.quota":                   quantities,
		"spec.etcd.snapshotCount":           {int64(1), int64(-1), "1", nil},
		"spec.etcd.enableGRPCGateway":       switches,
		"spec.etcd.defragmentationSchedule": crons,
		"spec.etcd.serverPort":              ports,
		"spec.etcd.clientPort":              ports,
		"spec.etcd.wrapperPort":             ports,
		"spec.etcd.image":                   texts,
		"spec.etcd.authSecretRef":           {secretRef, nil},
		"spec.etcd.metrics":                 {"basic", "extensive", "none", nil},
		"spec.etcd.resources":               resources,
		"spec.etcd.clientUrlTls":            tlsConfigs,
		"spec.etcd.peerUrlTls":              tlsConfigs,
		"spec.etcd.additionalAdvertisePeerURLs": {
			peerURLs("test-0", "http://10.0.0.1:2380"), peerURLs("test-2", "http://a", "http://b"), peerURLs("eu-test-0", "http://a"),
			peerURLs("test-0", "https://10.0.0.1:2380"), peerURLs("test-3", "http://a"), peerURLs("other-0", "http://a"),
			peerURLs("test-x", "http://a"), peerURLs("test-0"), peerURLs("test-0", "http://a", "http://a"), peerURLs("test-0", "10.0.0.1"), peerURLs("test-0", "http://user:password@a"),
			peerURLs("test-99999999999999999999", "http://a"), []any{}, nil,
		},
		"spec.etcd.etcdDefragTimeout": durations,
		"spec.etcd.heartbeatDuration": durations,
		"spec.etcd.clientService": {
			map[string]any{"annotations": map[string]any{"a": "b"}, "labels": map[string]any{"a": "b"}, "trafficDistribution": "PreferClose"},
			map[string]any{"trafficDistribution": "PreferSameNode"}, map[string]any{"trafficDistribution": "None"}, nil,
		},
		"spec.etcd.backendBboltFreelistType": {"array", "map", "list", nil},
		"spec.etcd.bootstrapWithExistingCluster": {
			bootstrap("source-0", "http://a:2380", "http://a:2379"), bootstrap("source-1", "http://a:2380", "http://a:2379"),
			bootstrap("source-0", "https://a:2380", "https://a:2379"), bootstrap("test-0", "http://a:2380", "http://a:2379"),
			bootstrap("source-0", "http://a:2380", "a:2379"), bootstrap("", "http://a:2380", "http://a:2379"),
			map[string]any{"members": []any{}, "clientEndpoints": []any{"http://a"}},
			map[string]any{
				"members": []any{
					map[string]any{"name": "a", "peerUrls": []any{"http://a"}}, map[string]any{"name": "a", "peerUrls": []any{"http://b"}},
				},
				"clientEndpoints": []any{"http://a"},
			},
			nil,
		},
		"spec.backup":                              {map[string]any{}, nil},
		"spec.backup.port":                         ports,
		"spec.backup.tls":                          tlsConfigs,
		"spec.backup.image":                        texts,
		"spec.backup.store":                        stores,
		"spec.backup.resources":                    resources,
		"spec.backup.snapshotCompaction":           {map[string]any{"eventsThreshold": int64(5), "triggerFullSnapshotThreshold": int64(-1)}, nil},
		"spec.backup.fullSnapshotSchedule":         crons,
		"spec.backup.garbageCollectionPolicy":      {"Exponential", "LimitBased", "None", nil},
		"spec.backup.maxBackupsLimitBasedGC":       {int64(7), int64(0), int64(-1), nil},
		"spec.backup.garbageCollectionPeriod":      append([]any{"10s500ms", "20s"}, durations...),
		"spec.backup.deltaSnapshotPeriod":          append([]any{"10s", "20s"}, durations...),
		"spec.backup.deltaSnapshotMemoryLimit":     quantities,
		"spec.backup.deltaSnapshotRetentionPeriod": durations,
		"spec.backup.compression": {
			map[string]any{"enabled": true, "policy": "gzip"}, map[string]any{"policy": "lzw"}, map[string]any{"policy": "zip"}, nil,
		},
		"spec.backup.enableProfiling":     switches,
		"spec.backup.etcdSnapshotTimeout": durations,
		"spec.backup.leaderElection": {
			map[string]any{"reelectionPeriod": "5s", "etcdConnectionTimeout": "5s"}, map[string]any{"reelectionPeriod": "x"}, nil,
		},
		"status.conditions": {
			[]any{map[string]any{
				"type": "BootstrappedWithExistingCluster", "status": "False", "reason": "BootstrapInProgress", "message": "",
				"lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z",
			}},
			[]any{map[string]any{"type": "Ready"}},
			nil,
		},
	},
}

var copyBackupsTaskCorpus = corpus{
	base: map[string]any{
		"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "EtcdCopyBackupsTask",
		"metadata": map[string]any{"name": "copy", "namespace": "ns"},
		"spec": map[string]any{
			"sourceStore": map[string]any{"prefix": "source"}, "targetStore": map[string]any{"prefix": "target"},
		},
	},
	values: map[string][]any{
		"metadata.name":     {"copy", strings.Repeat("c", 56), strings.Repeat("c", 57)},
		"spec.sourceStore":  stores,
		"spec.targetStore":  stores,
		"spec.podLabels":    stringMaps,
		"spec.maxBackupAge": {int64(0), int64(5), int64(-1), int64(36501), "5", nil},
		"spec.maxBackups":   {int64(0), int64(5), int64(-1), int64(1000001), nil},
		"spec.waitForFinalSnapshot": {
			map[string]any{"enabled": true, "timeout": "10m"}, map[string]any{"enabled": false, "timeout": "0"},
			map[string]any{"enabled": true, "timeout": "10"}, map[string]any{}, nil,
		},
	},
}

var opsTaskCorpus = corpus{
	base: map[string]any{
		"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "EtcdOpsTask",
		"metadata": map[string]any{"name": "task", "namespace": "ns"},
		"spec": map[string]any{
			"etcdName": "test", "config": map[string]any{"onDemandSnapshot": map[string]any{"type": "full"}},
		},
	},
	values: map[string][]any{
		"spec.etcdName":                {"test", "other", "", strings.Repeat("e", 254), nil},
		"spec.ttlSecondsAfterFinished": {int64(1), int64(3600), int64(0), int64(-1), int64(315360001), "1", nil},
		"spec.config":                  {map[string]any{}, nil},
		"spec.config.onDemandSnapshot": {
			map[string]any{"type": "delta", "timeoutSecondsDelta": int64(10)}, map[string]any{"type": "delta", "isFinal": false},
			map[string]any{"type": "delta", "isFinal": true}, map[string]any{"type": "full", "isFinal": true, "timeoutSecondsFull": int64(120)},
			map[string]any{"type": "full", "timeoutSecondsFull": int64(119)}, map[string]any{"type": "full", "timeoutSecondsDelta": int64(9)},
			map[string]any{"type": "full", "timeoutSecondsFull": int64(86401)},
			map[string]any{"type": "other"}, map[string]any{}, nil,
		},
		"status.state": {"Pending", "InProgress", "Succeeded", "Failed", "Rejected", "Done", nil},
	},
}
