// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"time"

	upstreamconfigv1alpha1 "github.com/gardener/etcd-druid/api/config/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
)

const header = "apiVersion: config.druid.gardener.cloud/v1alpha1\nkind: OperatorConfiguration\n"

var _ = Describe("Decode", func() {
	It("should give every default for a file that sets nothing", func() {
		config, err := configv1alpha1.Decode([]byte(header))
		Expect(err).NotTo(HaveOccurred())

		Expect(config.ClientConnection.QPS).To(BeEquivalentTo(500))
		Expect(config.ClientConnection.Burst).To(Equal(1000))
		Expect(config.LeaderElection.Enabled).To(HaveValue(BeTrue()))
		Expect(config.LeaderElection.ResourceName).To(Equal("druid-leader-election"))
		Expect(config.LeaderElection.LeaseDuration.Duration).To(Equal(15 * time.Second))
		Expect(config.Server.Metrics.Port).To(Equal(8080))
		Expect(config.Server.HealthProbes.Port).To(Equal(8081))
		Expect(config.Server.Webhooks.Port).To(Equal(9443))
		Expect(config.Controllers.Etcd.ConcurrentSyncs).To(HaveValue(Equal(3)))
		Expect(config.Controllers.Etcd.EnableEtcdSpecAutoReconcile).To(BeFalse())
		Expect(config.Controllers.Etcd.EtcdStatusSyncPeriod.Duration).To(Equal(15 * time.Second))
		Expect(config.Controllers.Etcd.EtcdMember.NotReadyThreshold.Duration).To(Equal(5 * time.Minute))
		Expect(config.Controllers.Etcd.EtcdMember.UnknownThreshold.Duration).To(Equal(time.Minute))
		Expect(config.Controllers.Etcd.StoreTimeout.Duration).To(Equal(30 * time.Minute))
		Expect(config.Controllers.Etcd.DataComparisonPeriod.Duration).To(Equal(6 * time.Hour))
		Expect(config.Controllers.Etcd.Recovery.DwellTime.Duration).To(Equal(10 * time.Minute))
		Expect(config.Controllers.Etcd.Recovery.MaxClusters).To(HaveValue(Equal(3)))
		Expect(config.Controllers.Etcd.Rollout.Enabled).To(HaveValue(BeTrue()), "only an explicit false turns the limits off")
		Expect(config.Controllers.Etcd.Rollout.Total).To(HaveValue(Equal(configv1alpha1.RolloutLimit{Number: new(20), Percentage: new(10)})))
		Expect(config.Controllers.Etcd.DefaultUpdateStrategy).To(BeEquivalentTo("Restart"))
		Expect(config.Controllers.Etcd.Defragmentation.Window.Duration).To(Equal(time.Hour))
		Expect(config.Controllers.Etcd.Defragmentation.MinReclaimableSize.String()).To(Equal("200Mi"))
		Expect(config.Controllers.Etcd.Defragmentation.StallBudget.Duration).To(BeZero())
		Expect(config.Controllers.Compaction.EventsThreshold).To(BeEquivalentTo(1000000))
		Expect(config.Controllers.Compaction.ActiveDeadlineDuration.Duration).To(Equal(3 * time.Hour))
		Expect(config.Controllers.Secret.ConcurrentSyncs).To(HaveValue(Equal(10)))
		Expect(config.Logging.LogLevel).To(BeEquivalentTo("info"))
		Expect(config.Logging.LogFormat).To(BeEquivalentTo("json"))
		Expect(config.ResourceManager.Embedded).To(BeFalse())
		Expect(config.Webhooks.Eviction.Enabled).To(HaveValue(BeTrue()))
	})

	It("should keep the webhook for evictions disabled", func() {
		config, err := configv1alpha1.Decode([]byte(header + "webhooks: {eviction: {enabled: false}}\n"))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Webhooks.Eviction.Enabled).To(HaveValue(BeFalse()))
	})

	It("should take the zeros that gardenlet writes where compaction is off for nothing said", func() {
		config, err := configv1alpha1.Decode([]byte(header + "controllers: {compaction: {enabled: false, activeDeadlineDuration: 0s}}\n"))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Controllers.Compaction.ActiveDeadlineDuration.Duration).To(Equal(3 * time.Hour))

		config, err = configv1alpha1.Decode([]byte(header + "controllers: {compaction: {enabled: true, activeDeadlineDuration: 0s}}\n"))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Controllers.Compaction.ActiveDeadlineDuration.Duration).To(BeZero(), "which is refused")
	})

	It("should keep a timeout of the store of zero, which means no limit, and a period of zero, which disables the comparison", func() {
		config, err := configv1alpha1.Decode([]byte(header + "controllers: {etcd: {storeTimeout: 0s, dataComparisonPeriod: 0s}}\n"))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Controllers.Etcd.StoreTimeout.Duration).To(BeZero())
		Expect(config.Controllers.Etcd.DataComparisonPeriod.Duration).To(BeZero())
	})

	It("should distinguish unset directories of Local stores from an empty list", func() {
		config, err := configv1alpha1.Decode([]byte(header))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.LocalStore.Roots).To(BeNil())

		config, err = configv1alpha1.Decode([]byte(header + "localStore: {roots: []}\n"))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.LocalStore.Roots).To(And(Not(BeNil()), BeEmpty()))
	})

	It("should distinguish unset restrictions from an empty list", func() {
		config, err := configv1alpha1.Decode([]byte(header + "restrictions: {allowedLabels: []}\n"))
		Expect(err).NotTo(HaveOccurred())
		restrictions := config.DeepCopy().Restrictions
		Expect(restrictions.AllowedAnnotations).To(BeNil())
		Expect(restrictions.AllowedLabels).To(And(Not(BeNil()), BeEmpty()))
	})

	It("should distinguish unset peers of NetworkPolicies from an empty list", func() {
		config, err := configv1alpha1.Decode([]byte(header + "rendering: {networkPolicies: {operator: [{podSelector: {}}], clients: [], dns: null}}\n"))
		Expect(err).NotTo(HaveOccurred())
		policies := config.Rendering.NetworkPolicies.DeepCopy()
		Expect(policies.Clients).To(And(Not(BeNil()), BeEmpty()))
		Expect(policies.DNS).To(BeNil())
		Expect(policies.Stores).To(BeNil())
	})

	It("should keep an election that is switched off", func() {
		config, err := configv1alpha1.Decode([]byte(header + "leaderElection: {enabled: false}\n"))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.LeaderElection.Enabled).To(HaveValue(BeFalse()))
	})

	DescribeTable("files that are refused",
		func(data string, parts ...string) {
			_, err := configv1alpha1.Decode([]byte(data))
			Expect(err).To(HaveOccurred())
			for _, part := range parts {
				Expect(err).To(MatchError(ContainSubstring(part)))
			}
		},
		Entry("every unknown key is named with its path",
			header+"controllers:\n  etcd:\n    workers: 3\nloging: {}\n", `"controllers.etcd.workers"`, `"loging"`),
		Entry("a key of the wrong case is unknown",
			header+"controllers: {etcd: {concurrentsyncs: 3}}\n", `"controllers.etcd.concurrentsyncs"`),
		Entry("a key that is given twice is named",
			header+"logging: {}\nlogging: {}\n", `"logging"`),
		Entry("a value of the wrong type names its field",
			header+"controllers: {etcd: {concurrentSyncs: many}}\n", "concurrentSyncs"),
		Entry("an empty file has no kind", "", "Kind"),
		Entry("a file of another kind",
			"apiVersion: config.druid.gardener.cloud/v1alpha1\nkind: Config\n", `"Config"`),
		Entry("a file of another version",
			"apiVersion: config.druid.gardener.cloud/v1\nkind: OperatorConfiguration\n", "config.druid.gardener.cloud/v1"),
	)

	It("should accept a configuration of etcd-druid in which every field is set", func() {
		scheme := runtime.NewScheme()
		Expect(upstreamconfigv1alpha1.AddToScheme(scheme)).To(Succeed())
		upstream := &upstreamconfigv1alpha1.OperatorConfiguration{}
		upstream.APIVersion, upstream.Kind = "config.druid.gardener.cloud/v1alpha1", "OperatorConfiguration"
		upstream.LeaderElection.Enabled = true
		upstream.Controllers.Compaction.Enabled = true
		upstream.Controllers.EtcdCopyBackupsTask.Enabled = true
		upstream.Webhooks.EtcdComponentProtection.ServiceAccountInfo = &upstreamconfigv1alpha1.ServiceAccountInfo{Name: "druid", Namespace: "garden"}
		upstream.Webhooks.EtcdComponentProtection.ReconcilerServiceAccountFQDN = new("system:serviceaccount:garden:druid")
		upstream.FeatureGates = map[string]bool{"UpgradeEtcdVersion": true}
		scheme.Default(upstream)

		data, err := yaml.Marshal(upstream)
		Expect(err).NotTo(HaveOccurred())
		config, err := configv1alpha1.Decode(data)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Webhooks.EtcdComponentProtection.ServiceAccountInfo.Namespace).To(Equal("garden"))
		Expect(config.Controllers.Compaction.TriggerFullSnapshotThreshold).To(BeEquivalentTo(3000000))
	})
})
