// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1/validation"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/copybackups"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/netpol"
)

const restricted = standalone + "networkPolicies: {enabled: true, monitoring: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}, podSelector: {matchLabels: {app: prometheus}}}]"

const disabled = standalone + "networkPolicies: {enabled: false}"

// installation is what the chart and the operator create together for one Etcd.
type installation struct {
	policies              []*networkingv1.NetworkPolicy
	operator, member, job netpol.Endpoint
}

// install renders the chart with the values, and one Etcd with the configuration in the chart.
func install(values string, options ...func(*druidv1alpha1.Etcd)) installation {
	GinkgoHelper()

	rendered := objects(manifests(values))
	deployment := find[*appsv1.Deployment](rendered, "gardener-extension-etcd-druid")
	config, err := configv1alpha1.Decode([]byte(find[*corev1.ConfigMap](rendered, "gardener-extension-etcd-druid-config").Data["config.yaml"]))
	Expect(err).NotTo(HaveOccurred())
	Expect(validation.ValidateOperatorConfiguration(config)).To(BeEmpty())

	etcd, errs := helper.Canonical(fixture.Etcd(options...))
	Expect(errs).To(BeEmpty())
	input := componentetcd.Input{
		Etcd: etcd, Replicas: etcd.Spec.Replicas, ClusterSize: etcd.Spec.Replicas,
		Defaults: state.Defaults{NetworkPolicies: (*state.NetworkPolicies)(config.Rendering.NetworkPolicies)},
	}
	if etcd.Spec.Backup.Store != nil {
		store, errs := backupstore.FromSpec(*etcd.Spec.Backup.Store, etcd.Namespace, etcd.Name, field.NewPath("spec"))
		Expect(errs).To(BeEmpty())
		input.Store = &store
	}
	result := installation{operator: netpol.Endpoint{Namespace: deployment.Namespace, Labels: deployment.Spec.Template.Labels}}
	result.job = netpol.Endpoint{Namespace: etcd.Namespace, Labels: compaction.Job(compaction.Values{Etcd: etcd}).Spec.Template.Labels}

	componentValues, err := componentetcd.ValuesFor(input)
	Expect(err).NotTo(HaveOccurred())
	etcdObjects, err := componentetcd.Objects(componentValues)
	Expect(err).NotTo(HaveOccurred())
	for _, object := range append(append([]client.Object{}, rendered...), etcdObjects...) {
		switch typed := object.(type) {
		case *networkingv1.NetworkPolicy:
			result.policies = append(result.policies, typed)
		case *appsv1.StatefulSet:
			result.member = netpol.Endpoint{Namespace: typed.Namespace, Labels: typed.Spec.Template.Labels}
		}
	}

	return result
}

// check compares a table of connections with the policies. Each line has the two ends, the port, and yes or no.
func (i installation) check(table string) {
	GinkgoHelper()

	test := decode(renderWithHelm(standalone)["gardener-extension-etcd-druid/templates/test-network-policies.yaml"]).(*corev1.Pod)
	ends := map[string]netpol.Endpoint{
		"operator": i.operator, "member": i.member, "job": i.job,
		"test":       {Namespace: i.operator.Namespace, Labels: test.Labels},
		"copy":       {Namespace: i.member.Namespace, Labels: copybackups.Labels(&druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Name: "test"}})},
		"app":        {Namespace: i.member.Namespace, Labels: map[string]string{"app": "shop"}},
		"foreign":    {Namespace: "elsewhere", Labels: map[string]string{"app": "shop"}},
		"stranger":   {Namespace: "elsewhere", Labels: i.member.Labels},
		"monitoring": {Namespace: "monitoring", Labels: map[string]string{"app": "prometheus"}},
		"dns":        {Namespace: "kube-system", Labels: map[string]string{"k8s-app": "kube-dns"}},
		"apiserver":  {Address: "10.0.0.1"},
		"store":      {Address: "203.0.113.5"},
		"internet":   {Address: "198.51.100.1"},
	}
	for line := range strings.Lines(strings.TrimSpace(table)) {
		var from, to, protocol, allowed string
		var port int32
		_, err := fmt.Sscan(line, &from, &to, &port, &protocol, &allowed)
		Expect(err).NotTo(HaveOccurred(), line)
		Expect(ends).To(And(HaveKey(from), HaveKey(to)), line)
		Expect(allowed).To(BeElementOf("yes", "no"), line)

		connection := netpol.Connection{From: ends[from], To: ends[to], Port: port, Protocol: corev1.Protocol(protocol)}
		Expect(netpol.Allows(i.policies, connection)).To(Equal(allowed == "yes"), line)
	}
}

// needed are the connections that every cluster needs.
const needed = `
	operator   member     2379 TCP yes
	operator   member     8080 TCP yes
	operator   apiserver   443 TCP yes
	operator   apiserver  6443 TCP yes
	operator   dns          53 UDP yes
	operator   dns          53 TCP yes
	operator   dns        8053 UDP yes
	apiserver  operator   9443 TCP yes
	monitoring operator   8080 TCP yes
	monitoring member     2379 TCP yes
	monitoring member     8080 TCP yes
	monitoring job        8080 TCP yes
	member     member     2379 TCP yes
	member     member     2380 TCP yes
	member     member     8080 TCP yes
	member     apiserver   443 TCP yes
	member     apiserver  6443 TCP yes
	member     dns          53 UDP yes
	member     dns          53 TCP yes
	member     dns        8053 UDP yes
	member     dns        5353 TCP yes
	job        apiserver   443 TCP yes
	job        dns          53 UDP yes
`

var _ = Describe("the NetworkPolicies of the chart and of an Etcd", func() {
	It("are those in the golden file", func() {
		documents := slices.DeleteFunc(manifests(restricted+"}"), func(document string) bool { return !strings.Contains(document, "kind: NetworkPolicy\n") })
		Expect(documents).To(HaveLen(1))

		path := filepath.Join("testdata", "networkpolicy.golden.yaml")
		if os.Getenv("UPDATE_GOLDEN") != "" {
			Expect(os.WriteFile(path, []byte(documents[0]), 0o600)).To(Succeed())
		}
		want, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(documents[0]).To(Equal(string(want)), "run `make test-update-golden` if this is intended")
	})

	It("exist by default outside of Gardener only, and not if they are disabled", func() {
		Expect(install(standalone, fixture.WithStore("S3")).policies).To(HaveLen(3))
		Expect(install(disabled, fixture.WithStore("S3")).policies).To(BeEmpty())
		Expect(install("").policies).To(BeEmpty())
	})

	It("allow what a cluster with an object store needs, and refuse other connections to it", func() {
		i := install(restricted+"}", fixture.WithReplicas(3), fixture.WithStore("S3"))
		Expect(i.policies).To(HaveLen(3))
		i.check(needed)
		i.check(`
			app        member     2379 TCP yes
			app        member     2380 TCP no
			app        member     8080 TCP no
			app        member     9095 TCP no
			foreign    member     2379 TCP no
			foreign    member     2380 TCP no
			foreign    member     8080 TCP no
			stranger   member     2380 TCP no
			stranger   member     8080 TCP no
			internet   member     2379 TCP no
			job        member     8080 TCP no
			job        member     2380 TCP no
			operator   member    12379 TCP yes
			member     member    12380 TCP yes
			app        job        8080 TCP no
			member     store       443 TCP yes
			member     store      9000 TCP yes
			job        store       443 TCP yes
			app        operator   8080 TCP no
			foreign    operator   8081 TCP no
			operator   operator   8081 TCP no
			test       operator   9443 TCP yes
			test       operator   8080 TCP no
			operator   internet     80 TCP no
			operator   store      9000 TCP no
			operator   app        2379 TCP no
		`)
	})

	It("allow no member to connect to other addresses without an object store", func() {
		i := install(restricted+"}", fixture.WithReplicas(3))
		i.check(needed)
		i.check(`
			member     store      9000 TCP no
			member     internet     80 TCP no
			member     app        2379 TCP no
			job        internet     80 TCP no
			copy       store      9000 TCP yes
		`)
		install(restricted+"}", fixture.WithLocalStore()).check("member internet 80 TCP no")
	})

	It("allow the configured peers only", func() {
		i := install(restricted+`,
  clients: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: elsewhere}}}],
  dns: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}],
  apiServer: [{ipBlock: {cidr: 10.0.0.0/24}}],
  stores: [{ipBlock: {cidr: 203.0.113.0/24, except: [203.0.113.128/25]}}]}`, fixture.WithReplicas(3), fixture.WithStore("S3"))
		i.check(needed)
		i.check(`
			foreign    member     2379 TCP yes
			app        member     2379 TCP no
			member     store       443 TCP yes
			job        store       443 TCP yes
			member     internet    443 TCP no
			job        internet    443 TCP no
			operator   store       443 TCP no
			member     internet     53 UDP no
		`)
	})

	It("allow no application if the list is empty, and nothing else that has an empty list", func() {
		i := install(standalone+"networkPolicies: {enabled: true, clients: [], dns: [], apiServer: [], stores: []}", fixture.WithReplicas(3), fixture.WithStore("S3"))
		i.check(`
			app        member     2379 TCP no
			operator   member     2379 TCP yes
			member     member     2379 TCP yes
			monitoring member     2379 TCP no
			monitoring operator   8080 TCP no
			member     dns          53 UDP no
			member     apiserver   443 TCP no
			operator   apiserver   443 TCP no
			member     store       443 TCP no
		`)
	})

	It("allow members outside of the cluster to connect to the peer port, if the spec names them", func() {
		i := install(restricted+"}", fixture.WithReplicas(3), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{{MemberName: "test-0", URLs: []string{"https://test-0.example.com:2380"}}}
		})
		i.check(needed)
		i.check(`
			internet   member     2380 TCP yes
			internet   member     2379 TCP no
			internet   member     8080 TCP no
			member     internet   2380 TCP yes
		`)
	})

	It("follow the ports of the spec and of the configuration", func() {
		i := install(restricted+"}\nconfig: {server: {webhooks: {port: 10250}, metrics: {port: 9090}}}\n", func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.ClientPort, etcd.Spec.Etcd.ServerPort, etcd.Spec.Backup.Port = new(int32(12379)), new(int32(12380)), new(int32(18080))
		})
		i.check(`
			app        member    12379 TCP yes
			app        member     2379 TCP no
			member     member    12380 TCP yes
			operator   member    18080 TCP yes
			apiserver  operator  10250 TCP yes
			apiserver  operator   9443 TCP no
			monitoring operator   9090 TCP yes
			monitoring operator   8080 TCP no
		`)
	})

	It("let the operator reach members outside of the cluster, if the values name them", func() {
		install(restricted + "}").check("operator internet 2379 TCP no")
		install(restricted + ", externalMembers: [{ipBlock: {cidr: 198.51.100.0/24}}]}").check("operator internet 2379 TCP yes")
	})

	It("open no port for a webhook that does not exist", func() {
		i := install(restricted + "}\nprotection: {enabled: false}\nevictionWebhook: {enabled: false}\n")
		i.check("apiserver operator 9443 TCP no")
		install(standalone + "networkPolicies: {enabled: true}\nprotection: {enabled: false}\nevictionWebhook: {enabled: false}\n").check("monitoring operator 8080 TCP no")
	})

	It("are part of the values only, since the chart creates one of them", func() {
		_, err := render("config: {rendering: {networkPolicies: {operator: []}}}")
		Expect(err).To(MatchError(ContainSubstring("set networkPolicies")))
		_, err = render("networkPolicies: {clients: [{}]}")
		Expect(err).To(MatchError(ContainSubstring("clients")))
	})

	It("are rejected in a seed, where gardener-resource-manager creates them", func() {
		_, err := render("networkPolicies: {enabled: true}")
		Expect(err).To(MatchError(And(ContainSubstring("networkPolicies.enabled"), ContainSubstring("gardener.enabled=false"))))
	})

	It("come with the permissions that the operator needs for them", func() {
		verbsIn := func(values string) []string {
			role := find[*rbacv1.ClusterRole](objects(manifests(values)), "extensions.gardener.cloud:gardener-extension-etcd-druid")
			var verbs []string
			for _, rule := range role.Rules {
				if slices.Contains(rule.Resources, "networkpolicies") {
					verbs = append(verbs, rule.Verbs...)
				}
			}

			return verbs
		}
		reads := []string{"get", "list", "watch", "delete"}
		Expect(verbsIn(restricted + "}")).To(ConsistOf(append(reads, "create", "patch", "update")))

		By("granting no more than to delete them where they are disabled")
		Expect(verbsIn(disabled)).To(ConsistOf(reads))
		Expect(verbsIn("")).To(ConsistOf(reads))
	})
})
