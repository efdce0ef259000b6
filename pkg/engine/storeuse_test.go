// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Reconcile with a store that another object uses", func() {
	var (
		etcd    *druidv1alpha1.Etcd
		cluster *simulator.Cluster
		o       *simulator.Operator
	)
	owner := etcdcluster.StoreUser{Namespace: "tenant", Name: "owner", Started: true, Store: state.Store{
		Provider: "Local", Container: "test-bucket", Prefix: "test-ns/test", HostPath: backupstore.DefaultHostPath, VerifiedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}}
	// reconcile reconciles for five minutes and returns the last result.
	reconcile := func() engine.Result {
		var result engine.Result
		for range 300 {
			result = o.Reconcile()
			cluster.Tick()
		}

		return result
	}

	BeforeEach(func() {
		etcd = fixture.Etcd(fixture.WithReplicas(3), fixture.WithLocalStore(), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(false) })
		cluster = simulator.New(etcd, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		o = simulator.NewOperator(cluster, target.Config{LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath}, Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {
			EtcdWrapper: "registry.example.com/etcd-wrapper:v1", BackupRestore: "registry.example.com/etcdbrctl:v1", Init: "registry.example.com/init:v1",
		}}}})
	})

	It("renders nothing before the other Etcd is gone, and reconciles again each minute", func() {
		cluster.Objects.StoreUsers = []etcdcluster.StoreUser{owner}
		result := reconcile()
		Expect(result.Description).To(And(ContainSubstring("an Etcd of another namespace"), Not(ContainSubstring("tenant"))))
		Expect(result.Errors).To(ConsistOf(HaveField("Code", BeEquivalentTo("ERR_RESOLVE_STORE"))))
		Expect(result.RequeueAfter).To(BeNumerically("<=", time.Minute))
		Expect(cluster.Objects.ManagedResource.Exists).To(BeFalse())
		Expect(cluster.Objects.Pods).To(BeEmpty())

		cluster.Objects.StoreUsers = nil
		reconcile()
		Expect(cluster.Objects.Pods).To(HaveLen(3))
		Expect(cluster.Objects.State.Store).To(HaveValue(HaveField("HostPath", backupstore.DefaultHostPath)))
	})

	It("does not wait for a copy of another namespace without a Job", func() {
		task := owner
		task.IsCopy, task.Started = true, false
		cluster.Objects.StoreUsers = []etcdcluster.StoreUser{task}
		Expect(reconcile().State).To(BeEquivalentTo("Succeeded"))
		Expect(cluster.Objects.Pods).To(HaveLen(3))
	})

	It("waits for a copy before the members start, and not afterwards", func() {
		task := owner
		task.IsCopy = true
		cluster.Objects.StoreUsers = []etcdcluster.StoreUser{task}
		result := reconcile()
		Expect(result.State).To(BeEquivalentTo("Requeue"))
		Expect(result.Description).To(ContainSubstring("the members start when the copy has ended"))
		Expect(cluster.Objects.Pods).To(BeEmpty())

		cluster.Objects.StoreUsers = nil
		reconcile()
		cluster.Objects.StoreUsers = []etcdcluster.StoreUser{task}
		Expect(reconcile().State).To(BeEquivalentTo("Succeeded"))
	})

	It("continues with a cluster that runs in it already", func() {
		reconcile()
		cluster.Objects.StoreUsers = []etcdcluster.StoreUser{owner}
		etcd.Generation++
		etcd.Spec.Labels = map[string]string{"changed": "true"}
		etcd.Annotations = map[string]string{"druid.gardener.cloud/operation": "reconcile"}
		result := reconcile()
		Expect(result.Errors).To(ContainElement(HaveField("Code", BeEquivalentTo("ERR_RESOLVE_STORE"))))
		Expect(result.Accepted).NotTo(BeNil(), "the last accepted generation is reconciled")
		Expect(result.Accepted.Target.StoreResolution).To(HaveField("Reason", "StoreInUse"))
		Expect(cluster.Objects.Pods).To(HaveLen(3))
		Expect(cluster.Incidents).To(BeEmpty())
	})
})
