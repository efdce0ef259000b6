// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Texts of a spec", func() {
	DescribeTable("should reach the processes of a member as they are", func(provider backupstore.Provider, options ...func(*druidv1alpha1.Etcd)) {
		podWith := func(text string) (pod corev1.PodSpec) {
			in := inputOf(options...)()
			fixture.FillTexts(&in.Etcd.Spec, text)
			for i := range in.Etcd.Spec.Etcd.AdditionalAdvertisePeerURLs {
				in.Etcd.Spec.Etcd.AdditionalAdvertisePeerURLs[i].MemberName = helper.MemberName(in.Etcd, 0)
			}
			in.Existing = nil // the sidecar of a member that joins a cluster restores nothing
			in.Store = &backupstore.Store{Provider: provider, Container: text, Prefix: text, EndpointOverride: text, SecretName: text, HostPath: text}
			values, err := etcd.ValuesFor(in)
			Expect(err).NotTo(HaveOccurred())
			objects, err := etcd.Objects(values)
			Expect(err).NotTo(HaveOccurred())
			for _, object := range objects {
				if statefulSet, is := object.(*appsv1.StatefulSet); is {
					pod = statefulSet.Spec.Template.Spec
				}
			}

			return pod
		}
		var expected []string
		for _, text := range fixture.ProcessTexts(podWith(fixture.Plain)) {
			expected = append(expected, strings.ReplaceAll(text, fixture.Plain, fixture.Reference))
		}
		pod := podWith(fixture.Reference)
		Expect(fixture.ProcessTexts(pod)).To(Equal(expected))
		Expect(expected).To(ContainElement("backup-restore: --store-prefix=" + fixture.Reference))
		Expect(etcdcluster.StoreLocationOf(pod)).To(ContainSubstring("prefix %q", fixture.Reference))
	},
		Entry("with a store", backupstore.ProviderS3, fixture.WithReplicas(3), fixture.WithTLS(), fixture.WithStore("S3"), everySetting),
		Entry("with a Local store", backupstore.ProviderLocal, fixture.WithLocalStore()),
		Entry("managed externally", backupstore.ProviderS3, fixture.WithStore("S3"), externallyManaged),
	)

	It("should not escape the references of the operator", func() {
		values, err := etcd.ValuesFor(inputOf(fixture.WithStore("S3"))())
		Expect(err).NotTo(HaveOccurred())
		objects, err := etcd.Objects(values)
		Expect(err).NotTo(HaveOccurred())
		for _, object := range objects {
			if statefulSet, is := object.(*appsv1.StatefulSet); is {
				Expect(fixture.ProcessTexts(statefulSet.Spec.Template.Spec)).To(ContainElement("backup-restore: --initial-cluster-token=value of POD_UID"))
			}
		}
	})
})
