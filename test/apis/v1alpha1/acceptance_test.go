// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"

	upstreamcrds "github.com/gardener/etcd-druid/api/core/v1alpha1/crds"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
	"github.com/gardener/gardener-extension-etcd-druid/test/crdschema"
)

const (
	acceptanceRounds = 2000
	acceptanceSeed   = 38
)

// A difference is a rule in which a CustomResourceDefinition of this module deliberately differs from that of the
// etcd-druid API module. Every difference must occur in the corpus. No other difference may occur.
type difference struct {
	name, reason string
	// detail is part of the message of the side that refuses.
	detail string
}

// refusals are objects that the module accepts and this module rejects.
var refusals = []difference{
	{"an even size, or one above seven", "it tolerates no more failures than the odd size below it, and slows every write", "spec.replicas must be 0, 1, 3, 5 or 7"},
	{"a port or count outside of its bounds", "no pod can have the port, and nothing works with the count or the time limit", "should be"},
	{"one port for two servers of a pod", "the second one could never listen", "must differ: they are ports of one pod"},
	{"TLS of the sidecar without TLS of etcd, on creation", "pods would never be ready", "spec.backup.tls needs spec.etcd.clientUrlTls"},
	{"more than 32 members that other parties run", "no etcd cluster has as many, and each is connected to", "must have at most 32 items"},
	{"a value outside of its bounds", "no cluster works with it: 512m is less than one byte", "must be between"},
	{"user info in a URL", "it would be seen in flags, messages and member lists", "must not have user info"},
	{"a text above its bound", "no object can have a longer name", "may not be more than"},
	{"a name for which no Job can be created", "the Job could never be created", "metadata.name must have at most 56 characters"},
	{"a task without the name of an Etcd, on creation", "it could never do anything", "spec.etcdName must name the Etcd"},
	{"the name of an Etcd that is added to a task or removed from it", "the name is immutable in every other way already", "spec.etcdName must be neither added nor removed"},
}

// relaxations are objects that the module rejects and this module accepts.
var relaxations = []difference{
	{"further peer URLs of a hibernating cluster", "it could not hibernate otherwise", "member name index must be less than replicas"},
	{"fewer members than before", "the operator removes members", "Replicas can either be increased or be downscaled to 0"},
	{"another StorageClass of a multi-member cluster", "the operator replaces the volumes", "etcd.spec.storageClass"},
	{"a store without prefix", "it follows from the BackupEntry", "prefix: Required value"},
	{"cron lists, steps of ranges, and Sunday as 0", "the sidecar understands them", "Schedule"},
	{"periods that differ by less than a second", "they are compared exactly", "garbageCollectionPeriod must be greater"},
	{"the https URL of a cluster with TLS by spec.etcd.enableTLS", "no reference is needed for it", "must use http://"},
}

var _ = Describe("CustomResourceDefinitions compared to those of the etcd-druid API module", func() {
	DescribeTable("accept the same objects and changes, but for a list of differences",
		func(name string, corpus corpus, expected ...string) {
			c := newComparison(name)
			random := rand.New(rand.NewSource(randomSeed(acceptanceSeed)))
			for _, object := range corpus.cases {
				c.creation(object)
			}
			for range acceptanceRounds {
				old := corpus.object(random)
				c.creation(old)
				c.change(corpus.change(random, old), old)
			}

			Expect(c.unexpected).To(BeEmpty(), strings.Join(c.unexpected, "\n"))
			Expect(slices.Collect(maps.Keys(c.occurred))).To(ConsistOf(expected))
			Expect(c.accepted).To(BeNumerically(">", acceptanceRounds/4), "a corpus that is mostly refused shows nothing")
			Expect(c.refused).To(BeNumerically(">", acceptanceRounds/50), "a corpus that is always accepted shows nothing")
		},
		Entry("of Etcd", "etcds.druid.gardener.cloud", etcdCorpus,
			"an even size, or one above seven",
			"a port or count outside of its bounds",
			"a value outside of its bounds",
			"a text above its bound",
			"one port for two servers of a pod",
			"TLS of the sidecar without TLS of etcd, on creation",
			"more than 32 members that other parties run",
			"user info in a URL",
			"further peer URLs of a hibernating cluster",
			"fewer members than before",
			"another StorageClass of a multi-member cluster",
			"a store without prefix",
			"cron lists, steps of ranges, and Sunday as 0",
			"periods that differ by less than a second",
			"the https URL of a cluster with TLS by spec.etcd.enableTLS",
		),
		Entry("of EtcdCopyBackupsTask", "etcdcopybackupstasks.druid.gardener.cloud", copyBackupsTaskCorpus,
			"a text above its bound",
			"a name for which no Job can be created",
			"a store without prefix",
			"user info in a URL",
		),
		Entry("of EtcdOpsTask", "etcdopstasks.druid.gardener.cloud", opsTaskCorpus,
			"a port or count outside of its bounds",
			"a text above its bound",
			"a task without the name of an Etcd, on creation",
			"the name of an Etcd that is added to a task or removed from it",
		),
	)
})

// comparison evaluates objects with both CustomResourceDefinitions.
type comparison struct {
	ours, upstream    *crdschema.Schema
	occurred          map[string]struct{}
	unexpected        []string
	accepted, refused int
}

func newComparison(name string) *comparison {
	GinkgoHelper()
	upstreamYAML, err := upstreamcrds.GetAll("1.34")
	Expect(err).NotTo(HaveOccurred())
	upstream, err := crdschema.New(upstreamYAML[name])
	Expect(err).NotTo(HaveOccurred())
	ours, err := crdschema.New(crds.All()[name])
	Expect(err).NotTo(HaveOccurred())

	return &comparison{ours: ours, upstream: upstream, occurred: map[string]struct{}{}}
}

func (c *comparison) creation(object map[string]any) {
	c.compare(object, c.ours.Create(object), c.upstream.Create(object))
}

// change compares only where the older object could have been stored with the CustomResourceDefinition of the module.
func (c *comparison) change(object, old map[string]any) {
	if len(c.upstream.Create(old)) > 0 {
		return
	}
	c.compare(map[string]any{"new": object, "old": old}, c.ours.Update(object, old), c.upstream.Update(object, old))
}

func (c *comparison) compare(object map[string]any, ours, upstream field.ErrorList) {
	switch {
	case len(ours) == 0 && len(upstream) == 0:
		c.accepted++
	case len(ours) > 0 && len(upstream) > 0:
		c.refused++
	case len(ours) > 0:
		c.record("we refuse", object, ours, refusals)
	default:
		c.record("the module refuses", object, upstream, relaxations)
	}
}

func (c *comparison) record(who string, object map[string]any, errs field.ErrorList, known []difference) {
	for _, err := range errs {
		found := false
		for _, d := range known {
			if strings.Contains(err.Error(), d.detail) {
				c.occurred[d.name] = struct{}{}
				found = true
			}
		}
		if !found && len(c.unexpected) < 5 {
			data, _ := json.Marshal(object)
			c.unexpected = append(c.unexpected, fmt.Sprintf("%s: %v: %s", who, err, data))
		}
	}
}
