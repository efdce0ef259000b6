// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package restrictions_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/restrictions"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

type (
	override = func(*druidv1alpha1.Etcd)
	allowed  = restrictions.Restrictions
)

// keys returns a map with these keys.
func keys(keys ...string) map[string]string {
	values := map[string]string{}
	for _, key := range keys {
		values[key] = "value"
	}

	return values
}

var (
	annotations = func(names ...string) override {
		return func(e *druidv1alpha1.Etcd) { e.Spec.Annotations = keys(names...) }
	}
	labels  = func(names ...string) override { return func(e *druidv1alpha1.Etcd) { e.Spec.Labels = keys(names...) } }
	service = func(annotations, labels map[string]string) override {
		return func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.ClientService = &druidv1alpha1.ClientService{Annotations: annotations, Labels: labels}
		}
	}
	class = func(name string) override {
		return func(e *druidv1alpha1.Etcd) { e.Spec.PriorityClassName = &name }
	}
	external = func(addresses ...string) override {
		return func(e *druidv1alpha1.Etcd) { e.Spec.ExternallyManagedMemberAddresses = addresses }
	}
	joins = func(endpoints ...string) override {
		return func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{ClientEndpoints: endpoints}
		}
	}
	none = allowed{AllowedAnnotations: []string{}, AllowedLabels: []string{}, AllowedPriorityClasses: []string{}, AllowedEndpoints: []string{}}
)

var _ = Describe("ValidateEtcd", func() {
	DescribeTable("accepts", func(r allowed, options ...override) {
		Expect(r.ValidateEtcd(fixture.Etcd(options...), nil)).To(BeEmpty())
	},
		Entry("everything without restrictions", allowed{}, annotations("a"), labels("b"), service(keys("c"), keys("d")), class("system-node-critical"),
			external("169.254.169.254"), joins("http://kubernetes.default.svc", "%")),
		Entry("an Etcd that selects nothing", none, labels()),
		Entry("an empty PriorityClass", none, labels(), class("")),
		Entry("a key", allowed{AllowedAnnotations: []string{"b", "example.com/a"}}, annotations("example.com/a")),
		Entry("keys with a prefix", allowed{AllowedAnnotations: []string{"example.com/*"}, AllowedLabels: []string{"team-*"}},
			annotations("example.com/a", "example.com/b"), labels("team-a"), service(keys("example.com/c"), keys("team-b"))),
		Entry("all keys", allowed{AllowedLabels: []string{"*"}}, labels("a", "example.com/b")),
		Entry("a PriorityClass", allowed{AllowedPriorityClasses: []string{"high"}}, class("high")),
		Entry("PriorityClasses with a prefix", allowed{AllowedPriorityClasses: []string{"team-*"}}, class("team-high")),
		Entry("an address", allowed{AllowedEndpoints: []string{"10.0.0.1", "fd00::1"}}, external("10.0.0.1"), joins("https://[fd00::1]:2379")),
		Entry("addresses of a range", allowed{AllowedEndpoints: []string{"10.0.0.0/8", "fd00::/8"}}, external("10.1.2.3"), joins("https://[fd00::1]:2379", "http://10.0.0.1")),
		Entry("a host", allowed{AllowedEndpoints: []string{"etcd.example.com"}}, external("etcd.example.com"), joins("https://ETCD.example.com:2379/path")),
		Entry("hosts of a domain", allowed{AllowedEndpoints: []string{"*.example.com"}}, external("a.example.com", "a.b.example.com")),
		Entry("URLs to which only pods connect", allowed{AllowedEndpoints: []string{"etcd"}}, joins("http://etcd:2379"), func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{{MemberName: "test-0", URLs: []string{"http://other:2380"}}}
			e.Spec.Etcd.BootstrapWithExistingCluster.Members = []druidv1alpha1.BootstrapExistingMember{{Name: "old-0", PeerURLs: []string{"http://other:2380"}}}
		}),
	)

	DescribeTable("refuses, and names the field, the list and the values", func(r allowed, path, message string, options ...override) {
		errs := r.ValidateEtcd(fixture.Etcd(options...), nil)
		Expect(errs).To(HaveLen(1))
		Expect(errs[0].Field).To(Equal(path))
		Expect(errs[0].Detail).To(Equal(message))
	},
		Entry("an annotation of pods", allowed{AllowedAnnotations: []string{"prometheus.io/*", "example.com/a"}}, "spec.annotations",
			`restrictions.allowedAnnotations of the operator's configuration does not allow "iam.amazonaws.com/role" (allowed: prometheus.io/*, example.com/a): remove it from the spec, or add it to the configuration`,
			annotations("prometheus.io/port", "iam.amazonaws.com/role")),
		Entry("many annotations", allowed{AllowedAnnotations: []string{}}, "spec.annotations",
			`restrictions.allowedAnnotations of the operator's configuration does not allow "a", "b", "c" and 2 more (allowed: none): remove them from the spec, or add them to the configuration`,
			annotations("e", "d", "c", "b", "a")),
		Entry("an annotation of the client Service", allowed{AllowedAnnotations: []string{}}, "spec.etcd.clientService.annotations",
			`restrictions.allowedAnnotations of the operator's configuration does not allow "external-dns.alpha.kubernetes.io/hostname" (allowed: none): remove it from the spec, or add it to the configuration`,
			service(keys("external-dns.alpha.kubernetes.io/hostname"), keys("a"))),
		Entry("two labels of pods", allowed{AllowedLabels: []string{"app"}}, "spec.labels",
			`restrictions.allowedLabels of the operator's configuration does not allow "a", "b" (allowed: app): remove them from the spec, or add them to the configuration`, labels("app", "b", "a")),
		Entry("a label of the client Service", allowed{AllowedLabels: []string{"app"}}, "spec.etcd.clientService.labels",
			`restrictions.allowedLabels of the operator's configuration does not allow "a" (allowed: app): remove it from the spec, or add it to the configuration`, labels(), service(keys("b"), keys("a"))),
		Entry("a PriorityClass", allowed{AllowedPriorityClasses: []string{"team-*"}}, "spec.priorityClassName",
			`restrictions.allowedPriorityClasses of the operator's configuration does not allow "system-node-critical" (allowed: team-*): remove it from the spec, or add it to the configuration`,
			class("system-node-critical")),
		Entry("addresses of members", allowed{AllowedEndpoints: []string{"10.0.0.0/30"}}, "spec.externallyManagedMemberAddresses",
			`restrictions.allowedEndpoints of the operator's configuration does not allow "10.0.0.4", "localhost" (allowed: 10.0.0.0/30): remove them from the spec, or add them to the configuration`,
			external("10.0.0.1", "10.0.0.4", "localhost")),
		Entry("an endpoint of the existing cluster", allowed{AllowedEndpoints: []string{}}, "spec.etcd.bootstrapWithExistingCluster.clientEndpoints",
			`restrictions.allowedEndpoints of the operator's configuration does not allow "http://10.0.0.1:2379" (allowed: none): remove it from the spec, or add it to the configuration`, joins("http://10.0.0.1:2379")),
	)

	DescribeTable("does not allow similar hosts", func(entry, url string) {
		r := allowed{AllowedEndpoints: []string{entry}}
		Expect(r.AllowsURL(url)).To(BeFalse())
		Expect(r.ValidateEndpoints(fixture.Etcd(joins(url)), nil)).To(HaveLen(1))
	},
		Entry("the domain itself", "*.example.com", "http://example.com"),
		Entry("a host that ends with the domain", "*.example.com", "http://badexample.com"),
		Entry("a host below a host", "example.com", "http://a.example.com"),
		Entry("a host with the digits of an address", "10.0.0.0/8", "http://10.0.0.1.example.com"),
		Entry("another notation of an address", "127.0.0.1", "http://2130706433"),
		Entry("an IPv4 address in IPv6", "10.0.0.0/8", "http://[::ffff:10.0.0.1]"),
		Entry("an address with a zone", "fe80::/10", "http://[fe80::1%25eth0]"),
		Entry("a host in the user info", "example.com", "http://example.com@bad.com"),
		Entry("a host in the path", "example.com", "http://bad.com/example.com"),
		Entry("no URL", "example.com", "%"),
		Entry("no host", "example.com", "example.com"),
	)

	It("accepts what the known spec has, and not more", func() {
		everything := []override{
			annotations("a"), labels("b"), service(keys("c"), keys("d")), class("high"), external("10.0.0.1"), joins("http://etcd:2379"),
		}
		known := fixture.Etcd(everything...).Spec
		Expect(none.ValidateEtcd(fixture.Etcd(everything...), &known)).To(BeEmpty())
		Expect(none.ValidateEtcd(fixture.Etcd(everything...), nil)).To(HaveLen(7))
		for _, change := range []override{
			annotations("a", "b"), labels("a"), service(nil, keys("c")), service(keys("d"), nil), class("low"), external("10.0.0.1", "10.0.0.2"), joins("http://etcd:2380"),
			func(e *druidv1alpha1.Etcd) { e.Spec.Annotations["a"] = "another value" },
		} {
			Expect(none.ValidateEtcd(fixture.Etcd(append(everything, change)...), &known)).To(HaveLen(1))
		}
	})

	It("has errors of limited length", func() {
		errs := none.ValidateEtcd(fixture.Etcd(labels(), annotations(string(make([]byte, 100_000)))), nil)
		Expect(errs).To(HaveLen(1))
		Expect(len(errs.ToAggregate().Error())).To(BeNumerically("<", 2000))
	})
})

var _ = DescribeTable("ValidateCopyBackupsTask", func(r allowed, podLabels map[string]string, expected ...string) {
	task := &druidv1alpha1.EtcdCopyBackupsTask{Spec: druidv1alpha1.EtcdCopyBackupsTaskSpec{PodLabels: podLabels}}
	var paths []string
	for _, err := range r.ValidateCopyBackupsTask(task) {
		paths = append(paths, err.Field)
	}
	Expect(paths).To(ConsistOf(expected))
},
	Entry("accepts everything without restrictions", allowed{}, keys("a")),
	Entry("accepts allowed labels", allowed{AllowedLabels: []string{"a"}}, keys("a")),
	Entry("refuses other labels", allowed{AllowedLabels: []string{"a"}}, keys("a", "b"), "spec.podLabels"),
)
