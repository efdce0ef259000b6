// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("ValuesFor", func() {
	It("should leave the Etcd as it is", func() {
		in := inputOf(fixture.WithTLS(), fixture.WithStore("S3"))()
		before := in.Etcd.DeepCopy()
		values, err := etcd.ValuesFor(in)
		Expect(err).NotTo(HaveOccurred())
		values.Pod.Labels["changed"] = "yes"
		values.Labels["changed"] = "yes"
		_, err = etcd.Objects(values)
		Expect(err).NotTo(HaveOccurred())
		Expect(in.Etcd).To(Equal(before))
	})

	DescribeTable("the key of a CA",
		func(dataKey *string, known map[string]string, expected string) {
			in := inputOf(fixture.WithClientTLS())()
			in.Etcd.Spec.Etcd.ClientUrlTLS.TLSCASecretRef.DataKey = dataKey
			in.CADataKeys = known
			values, err := etcd.ValuesFor(in)
			Expect(err).NotTo(HaveOccurred())
			Expect(values.ClientTLS.CADataKey).To(Equal(expected))
		},
		Entry("should be that of the reference", new("own.crt"), map[string]string{"client-ca": "bundle.crt"}, "own.crt"),
		Entry("should be the one found in the Secret", nil, map[string]string{"client-ca": "bundle.crt"}, "bundle.crt"),
		Entry("should be the one found when the reference is empty", new(""), map[string]string{"client-ca": "bundle.crt"}, "bundle.crt"),
		Entry("should be ca.crt if the Secret was not read", nil, map[string]string{"other": "bundle.crt"}, "ca.crt"),
	)

	It("should let the sidecar serve with the secrets of clients when it has none of its own", func() {
		values, err := etcd.ValuesFor(inputOf(fixture.WithClientTLS())())
		Expect(err).NotTo(HaveOccurred())
		Expect(values.BackupTLS).To(Equal(&etcd.TLS{CASecretName: "client-ca", CADataKey: "ca.crt", ServerSecretName: "client-server", ClientSecretName: "client-client"}))
	})

	It("should serve plaintext when TLS is switched off, whatever is referenced", func() {
		values, err := etcd.ValuesFor(inputOf(fixture.WithTLS(), func(obj *druidv1alpha1.Etcd) { obj.Spec.Etcd.EnableTLS = new(false) })())
		Expect(err).NotTo(HaveOccurred())
		Expect(values.ClientTLS).To(BeNil())
		Expect(values.PeerTLS).To(BeNil())
		Expect(values.BackupTLS).To(BeNil())
	})

	DescribeTable("the initial cluster token",
		func(ofInput string, ofSpec *string, expected string) {
			in := inputOf()()
			in.InitialClusterToken = ofInput
			in.Etcd.Spec.Etcd.InitialClusterToken = ofSpec
			values, err := etcd.ValuesFor(in)
			Expect(err).NotTo(HaveOccurred())
			Expect(values.Etcd.InitialClusterToken).To(Equal(expected))
		},
		Entry("should be another for each Etcd", "", nil, "etcd-7a2c4c60-0c1f-4b52-9a8e-3f1f5d0a1b2c"),
		Entry("should be that of the spec", "", new("own"), "own"),
		Entry("should stay that of a cluster that runs", "etcd-cluster", new("own"), "etcd-cluster"),
	)

	DescribeTable("the leases",
		func(spec, replicas, size int32, expected []string) {
			in := inputOf(fixture.WithReplicas(spec))()
			in.Replicas, in.ClusterSize = replicas, size
			values, err := etcd.ValuesFor(in)
			Expect(err).NotTo(HaveOccurred())
			Expect(values.MemberLeaseNames).To(Equal(expected))
		},
		Entry("should be there before their members during a scale-up", int32(3), int32(1), int32(1), []string{"test-0", "test-1", "test-2"}),
		Entry("should stay while members are listed", int32(0), int32(1), int32(1), []string{"test-0"}),
		Entry("should stay of the recorded members of a hibernated cluster", int32(0), int32(0), int32(3), []string{"test-0", "test-1", "test-2"}),
		Entry("should stay while a pod runs", int32(0), int32(1), int32(0), []string{"test-0"}),
		Entry("should be none of a hibernated cluster", int32(0), int32(0), int32(0), []string{}),
	)

	It("should render the planned replicas, and not those of the spec", func() {
		in := inputOf(fixture.WithReplicas(3))()
		in.Replicas, in.ClusterSize = 2, 2
		values, err := etcd.ValuesFor(in)
		Expect(err).NotTo(HaveOccurred())
		Expect(values.Replicas).To(BeEquivalentTo(2))
		Expect(values.Members).To(HaveLen(2))
	})

	It("should list all members that are managed externally, whatever is planned", func() {
		in := inputOf(externallyManaged)()
		in.Replicas, in.ClusterSize = 1, 1
		values, err := etcd.ValuesFor(in)
		Expect(err).NotTo(HaveOccurred())
		Expect(values.Replicas).To(BeZero())
		Expect(values.Members).To(Equal([]etcd.Member{
			{Name: "test-192.168.0.1", Host: "192.168.0.1"}, {Name: "test-192.168.0.2", Host: "192.168.0.2"}, {Name: "test-192.168.0.3", Host: "192.168.0.3"},
		}))
	})

	It("annotates pods with the checksum of renewed certificates, which replaces an annotation of the spec", func() {
		in := inputOf(func(obj *druidv1alpha1.Etcd) {
			obj.Spec.Annotations = map[string]string{"etcd-druid.extensions.gardener.cloud/certificates": "spec", "b": "spec"}
		})()
		in.CertificatesChecksum = "renewed"
		values, err := etcd.ValuesFor(in)
		Expect(err).NotTo(HaveOccurred())
		Expect(values.Pod.Annotations).To(Equal(map[string]string{"etcd-druid.extensions.gardener.cloud/certificates": "renewed", "b": "spec"}))
	})
})

var _ = Describe("The defragmentation schedule of the sidecar", func() {
	schedule := func(configured *string, options ...func(*druidv1alpha1.Etcd)) string {
		GinkgoHelper()
		in := inputOf(append(options, func(obj *druidv1alpha1.Etcd) { obj.Spec.Etcd.DefragmentationSchedule = configured })...)()
		values, err := etcd.ValuesFor(in)
		Expect(err).NotTo(HaveOccurred())

		return values.Sidecar.DefragmentationSchedule
	}

	DescribeTable("is that of the spec for members that the operator does not defragment", func(option func(*druidv1alpha1.Etcd)) {
		Expect(schedule(new("0 3 * * *"), option)).To(Equal("0 3 * * *"))
	},
		Entry("because their pods are managed externally", externallyManaged),
		Entry("because it does not observe them", fixture.WithAnnotation("druid.gardener.cloud/disable-etcd-runtime-component-creation", "")),
	)

	It("is never due if the operator defragments the members", func() {
		for _, configured := range []*string{new("0 3 * * *"), nil} {
			never, err := cron.ParseStandard(schedule(configured))
			Expect(err).NotTo(HaveOccurred())
			Expect(never.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))).To(BeZero())
		}
	})
})

var _ = Describe("Defaults", func() {
	It("should keep their JSON, which is pinned in clusters", func() {
		defaults := state.Defaults{
			ImageSets:          map[string]state.Images{"3.4": {EtcdWrapper: "w", BackupRestore: "b", Init: "i"}},
			IPFamilies:         []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol},
			NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"b": "2", "a": "1"}}},
		}
		pinned := `{"imageSets":{"3.4":{"etcdWrapper":"w","backupRestore":"b","init":"i"}},"ipFamilies":["IPv6","IPv4"],"namespaceSelectors":[{"matchLabels":{"a":"1","b":"2"}}]}`

		encoded, err := json.Marshal(defaults)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(encoded)).To(Equal(pinned))

		var decoded state.Defaults
		Expect(json.Unmarshal([]byte(pinned), &decoded)).To(Succeed())
		Expect(decoded).To(Equal(defaults))
	})
})
