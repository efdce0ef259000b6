// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Objects", func() {
	render := func(in etcd.Input) []client.Object {
		values, err := etcd.ValuesFor(in)
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		objects, err := etcd.Objects(values)
		ExpectWithOffset(1, err).NotTo(HaveOccurred())

		return objects
	}
	configOf := func(objects []client.Object) map[string]any {
		config := map[string]any{}
		Expect(yaml.UnmarshalStrict([]byte(only[*corev1.ConfigMap](objects).Data["etcd.conf.yaml"]), &config)).To(Succeed())

		return config
	}
	container := func(objects []client.Object, name string) corev1.Container {
		for _, container := range only[*appsv1.StatefulSet](objects).Spec.Template.Spec.Containers {
			if container.Name == name {
				return container
			}
		}
		Fail("no container " + name)

		return corev1.Container{}
	}
	service := func(objects []client.Object, name string) *corev1.Service {
		for _, service := range all[*corev1.Service](objects) {
			if service.Name == name {
				return service
			}
		}
		Fail("no Service " + name)

		return nil
	}

	DescribeTable("the readiness probe asks the wrapper by the scheme of etcd's clients",
		func(option func(*druidv1alpha1.Etcd), expected corev1.URIScheme) {
			Expect(container(render(inputOf(option)()), "etcd").ReadinessProbe.HTTPGet.Scheme).To(Equal(expected))
		},
		Entry("https with client TLS alone", fixture.WithClientTLS(), corev1.URISchemeHTTPS),
		Entry("http with TLS of the sidecar alone", fixture.WithBackupTLS(), corev1.URISchemeHTTP),
		Entry("http with TLS between members alone", fixture.WithPeerTLS(), corev1.URISchemeHTTP),
	)

	It("should not probe what takes as long as a restoration takes", func() {
		objects := render(inputOf()())
		for _, name := range []string{"etcd", "backup-restore"} {
			Expect(container(objects, name).LivenessProbe).To(BeNil())
			Expect(container(objects, name).StartupProbe).To(BeNil())
		}
	})

	DescribeTable("a pod listens on all of its IP families",
		func(families []corev1.IPFamily, listen, loopback string, policy *corev1.IPFamilyPolicy) {
			in := inputOf()()
			in.Defaults.IPFamilies = families
			objects := render(in)
			Expect(configOf(objects)).To(SatisfyAll(
				HaveKeyWithValue("listen-client-urls", "http://"+listen+":2379"),
				HaveKeyWithValue("listen-peer-urls", "http://"+listen+":2380"),
			))
			Expect(only[*appsv1.StatefulSet](objects).Spec.Template.Spec.HostAliases).To(Equal([]corev1.HostAlias{{IP: loopback, Hostnames: []string{"test-local"}}}))
			Expect(service(objects, "test-client").Spec.IPFamilyPolicy).To(Equal(policy))
			Expect(service(objects, "test-peer").Spec.IPFamilyPolicy).To(Equal(policy))
		},
		Entry("IPv4 where nothing is said", nil, "0.0.0.0", "127.0.0.1", nil),
		Entry("IPv6", []corev1.IPFamily{"IPv6"}, "[::]", "::1", nil),
		Entry("both", []corev1.IPFamily{"IPv4", "IPv6"}, "[::]", "127.0.0.1", new(corev1.IPFamilyPolicyPreferDualStack)),
	)

	It("should find additional peer URLs by the name of the member, and none by the name of the pod", func() {
		config := configOf(render(inputOf(func(obj *druidv1alpha1.Etcd) {
			obj.Spec.MemberNamePrefix = new("p")
			obj.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{
				{MemberName: "test-0", URLs: []string{"http://pod.example.com"}},
				{MemberName: "p-test-0", URLs: []string{"http://one.example.com", "http://two.example.com"}},
			}
		})()))
		Expect(config).To(HaveKeyWithValue("initial-cluster",
			"p-test-0=http://test-0.test-peer.test-ns.svc:2380,p-test-0=http://one.example.com,p-test-0=http://two.example.com"))
		Expect(config).To(HaveKeyWithValue("initial-advertise-peer-urls", map[string]any{
			"p-test-0": []any{"http://test-0.test-peer.test-ns.svc:2380", "http://one.example.com", "http://two.example.com"},
		}))
		Expect(config).To(HaveKeyWithValue("member-name-prefix", "p"))
	})

	It("should restore a member with its own name and all its peer URLs, in a cluster of its own", func() {
		objects := render(inputOf(fixture.WithReplicas(3), fixture.WithStore("S3"), func(obj *druidv1alpha1.Etcd) {
			obj.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{{MemberName: "test-0", URLs: []string{"http://one.example.com"}}}
		})())
		config, sidecar := configOf(objects), container(objects, "backup-restore")
		urls := config["initial-advertise-peer-urls"].(map[string]any)["test-0"].([]any)
		Expect(urls).To(HaveLen(2))
		Expect(sidecar.Args).To(ContainElements("--name=test-0", "--initial-cluster-token=$(POD_UID)",
			fmt.Sprintf("--initial-advertise-peer-urls=%s", urls[0]), fmt.Sprintf("--initial-advertise-peer-urls=%s", urls[1]),
			fmt.Sprintf("--initial-cluster=test-0=%s,test-0=%s", urls...)))
		Expect(sidecar.Env).To(ContainElement(And(HaveField("Name", "POD_UID"), HaveField("ValueFrom.FieldRef.FieldPath", "metadata.uid"))))
	})

	It("should list each peer URL once, because etcd refuses to start with duplicates", func() {
		own := "http://test-0.test-peer.test-ns.svc:2380"
		objects := render(inputOf(fixture.WithStore("S3"), func(obj *druidv1alpha1.Etcd) {
			obj.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{{
				MemberName: "test-0", URLs: []string{"http://one.example.com", own, "http://one.example.com"},
			}}
		})())
		config, sidecar := configOf(objects), container(objects, "backup-restore")
		Expect(config["initial-advertise-peer-urls"]).To(HaveKeyWithValue("test-0", []any{own, "http://one.example.com"}))
		Expect(config).To(HaveKeyWithValue("initial-cluster", "test-0="+own+",test-0=http://one.example.com"))
		Expect(sidecar.Args).To(ContainElement("--initial-cluster=test-0=" + own + ",test-0=http://one.example.com"))
	})

	It("should use every port of the spec everywhere", func() {
		objects := render(inputOf(func(obj *druidv1alpha1.Etcd) {
			obj.Spec.Etcd.ClientPort, obj.Spec.Etcd.ServerPort, obj.Spec.Backup.Port = new(int32(12379)), new(int32(12380)), new(int32(18080))
		})())
		config := configOf(objects)
		Expect(config).To(HaveKeyWithValue("listen-client-urls", "http://0.0.0.0:12379"))
		Expect(config).To(HaveKeyWithValue("initial-cluster", "test-0=http://test-0.test-peer.test-ns.svc:12380"))
		Expect(config).To(HaveKeyWithValue("advertise-client-urls", map[string]any{"test-0": []any{"http://test-0.test-peer.test-ns.svc:12379"}}))
		Expect(container(objects, "etcd").Args).To(ContainElements("--backup-restore-host-port=test-local:18080", "--etcd-client-port=12379", "--etcd-wrapper-port=9095"))
		Expect(container(objects, "backup-restore").Args).To(ContainElements("--server-port=18080", "--endpoints=http://test-local:12379", "--service-endpoints=http://test-client:12379"))
		ports := map[string]int32{}
		for _, port := range append(service(objects, "test-client").Spec.Ports, service(objects, "test-peer").Spec.Ports...) {
			ports[port.Name] = port.Port
			Expect(port.TargetPort.IntVal).To(Equal(port.Port))
		}
		Expect(ports).To(Equal(map[string]int32{"client": 12379, "server": 12380, "backuprestore": 18080, "peer": 12380}))
	})

	DescribeTable("the PodDisruptionBudget keeps a quorum",
		func(replicas, expected int) {
			budget := only[*policyv1.PodDisruptionBudget](render(inputOf(fixture.WithReplicas(int32(replicas)))()))
			Expect(budget.Spec.MinAvailable.IntValue()).To(Equal(expected))
			Expect(budget.Spec.UnhealthyPodEvictionPolicy).To(BeNil())
		},
		Entry("none while hibernated", 0, 0),
		Entry("none of a single member, which could never be drained", 1, 0),
		Entry("both of two, during a scale-up", 2, 2),
		Entry("two of three", 3, 2),
		Entry("three of five", 5, 3),
	)

	It("should name the ports of the pod differently, because the API server warns otherwise", func() {
		var names []string
		for _, container := range only[*appsv1.StatefulSet](render(inputOf()())).Spec.Template.Spec.Containers {
			for _, port := range container.Ports {
				names = append(names, port.Name)
			}
		}
		Expect(names).To(ConsistOf("server", "client", "backuprestore"))
	})

	DescribeTable("should have metadata that the API server accepts for all objects", func(options ...func(*druidv1alpha1.Etcd)) {
		in := inputOf(append(options, fixture.WithStore("S3"))...)()
		values, err := etcd.ValuesFor(in)
		Expect(err).NotTo(HaveOccurred())
		objects := render(in)
		for _, lease := range append(etcd.MemberLeases(values), etcd.SnapshotLeases(values)...) {
			objects = append(objects, lease)
		}
		Expect(etcd.CheckMetadata(objects...)).To(Succeed())
	},
		Entry("of the longest name", fixture.WithName(strings.Repeat("n", 52))),
		Entry("of the longest prefix of member names", fixture.WithName(strings.Repeat("n", 52)), func(e *druidv1alpha1.Etcd) { e.Spec.MemberNamePrefix = new(strings.Repeat("p", 63)) }),
		Entry("of a long address", func(e *druidv1alpha1.Etcd) {
			e.Spec.ExternallyManagedMemberAddresses = []string{"machine-0.control-plane.europe-west1-b.c.example-project-123456.internal"}
		}),
	)

	It("should name the object and the field that the API server rejects", func() {
		objects := render(inputOf(func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.ClientService = &druidv1alpha1.ClientService{Labels: map[string]string{"a": "b c"}}
		})())
		Expect(etcd.CheckMetadata(objects...)).To(MatchError(And(HavePrefix("Service test-client: metadata.labels: "), ContainSubstring("b c"))))
	})

	It("should let unhealthy pods be evicted when the annotation says so", func() {
		budget := only[*policyv1.PodDisruptionBudget](render(inputOf(fixture.WithAnnotation("resources.druid.gardener.cloud/allow-unhealthy-pod-eviction", ""))()))
		Expect(budget.Spec.UnhealthyPodEvictionPolicy).To(HaveValue(Equal(policyv1.AlwaysAllow)))
	})

	It("should give no right on leases where there are none", func() {
		role := only[*rbacv1.Role](render(inputOf(fixture.WithReplicas(0))()))
		Expect(role.Rules).To(Equal([]rbacv1.PolicyRule{{APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}, ResourceNames: []string{"test"}, Verbs: []string{"get"}}}))
	})

	It("should not let the spec overwrite the operator's labels", func() {
		own := map[string]string{"app.kubernetes.io/managed-by": "x", "app.kubernetes.io/part-of": "x", "app.kubernetes.io/component": "x", "app.kubernetes.io/name": "x", "own": "yes"}
		objects := render(inputOf(func(obj *druidv1alpha1.Etcd) {
			obj.Spec.Labels = own
			obj.Spec.Etcd.ClientService = &druidv1alpha1.ClientService{Labels: own}
		})())
		Expect(only[*appsv1.StatefulSet](objects).Spec.Template.Labels).To(Equal(map[string]string{
			"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "test", "app.kubernetes.io/component": "etcd-statefulset", "app.kubernetes.io/name": "test", "own": "yes",
		}))
		Expect(service(objects, "test-client").Labels).To(Equal(map[string]string{
			"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "test", "app.kubernetes.io/component": "etcd-client-service", "app.kubernetes.io/name": "test-client", "own": "yes",
		}))
	})

	DescribeTable("the namespaces from which network policies let traffic in",
		func(existing *string, selectors []metav1.LabelSelector, matcher OmegaMatcher) {
			in := inputOf(func(obj *druidv1alpha1.Etcd) {
				obj.Spec.Etcd.ClientService = &druidv1alpha1.ClientService{Annotations: map[string]string{"other": "annotation"}}
				if existing != nil {
					obj.Spec.Etcd.ClientService.Annotations["networking.resources.gardener.cloud/namespace-selectors"] = *existing
				}
			})()
			in.Defaults.NamespaceSelectors = selectors
			Expect(service(render(in), "test-client").Annotations).To(SatisfyAll(HaveKeyWithValue("other", "annotation"), matcher))
		},
		Entry("should stay unsaid without any", nil, nil, Not(HaveKey("networking.resources.gardener.cloud/namespace-selectors"))),
		Entry("should stay what the spec says", new(`[{"matchLabels":{"a":"1"}}]`), nil,
			HaveKeyWithValue("networking.resources.gardener.cloud/namespace-selectors", `[{"matchLabels":{"a":"1"}}]`)),
		Entry("should stay what the spec says, even where that is no list, when there is nothing to add", new("garden"), nil,
			HaveKeyWithValue("networking.resources.gardener.cloud/namespace-selectors", "garden")),
		Entry("should be the operator's", nil, []metav1.LabelSelector{{MatchLabels: map[string]string{"b": "2"}}},
			HaveKeyWithValue("networking.resources.gardener.cloud/namespace-selectors", `[{"matchLabels":{"b":"2"}}]`)),
		Entry("should be both, each once", new(`[{"matchLabels":{"a":"1"}},{"matchLabels":{"b":"2"}}]`),
			[]metav1.LabelSelector{{MatchLabels: map[string]string{"b": "2"}}, {MatchLabels: map[string]string{"c": "3"}}},
			HaveKeyWithValue("networking.resources.gardener.cloud/namespace-selectors", `[{"matchLabels":{"a":"1"}},{"matchLabels":{"b":"2"}},{"matchLabels":{"c":"3"}}]`)),
	)

	It("should name the annotation that is no list of selectors", func() {
		in := inputOf(func(obj *druidv1alpha1.Etcd) {
			obj.Spec.Etcd.ClientService = &druidv1alpha1.ClientService{Annotations: map[string]string{"networking.resources.gardener.cloud/namespace-selectors": "garden"}}
		})()
		in.Defaults.NamespaceSelectors = []metav1.LabelSelector{{}}
		_, err := etcd.ValuesFor(in)
		Expect(err).To(MatchError(ContainSubstring("spec.etcd.clientService.annotations[networking.resources.gardener.cloud/namespace-selectors]: Invalid value: \"garden\": must be a JSON list")))
	})

	It("should restart the first member when others join it, and no member when more join", func() {
		checksum := func(size int32, change ...func(*druidv1alpha1.Etcd)) string {
			GinkgoHelper()
			in := etcd.Input{Etcd: fixture.Etcd(append(change, fixture.WithReplicas(size))...), Replicas: size, ClusterSize: size}

			return only[*appsv1.StatefulSet](render(in)).Spec.Template.Annotations["checksum/etcd-configmap"]
		}
		withURL := func(member, url string) func(*druidv1alpha1.Etcd) {
			return func(e *druidv1alpha1.Etcd) {
				e.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{{MemberName: member, URLs: []string{url}}}
			}
		}
		Expect(checksum(1)).NotTo(Equal(checksum(3)))
		Expect(checksum(5)).To(Equal(checksum(3)))
		Expect(checksum(7)).To(Equal(checksum(3)))
		Expect(checksum(5, fixture.WithPeerTLS())).NotTo(Equal(checksum(5)))
		Expect(checksum(5, withURL("test-4", "http://a:1"))).NotTo(Equal(checksum(5)))
		Expect(checksum(5, withURL("test-4", "http://a:1"))).NotTo(Equal(checksum(5, withURL("test-4", "http://b:1"))))
	})

	It("should annotate pods with the checksum of the configuration", func() {
		objects := render(inputOf()())
		data, err := json.Marshal(only[*corev1.ConfigMap](objects).Data)
		Expect(err).NotTo(HaveOccurred())
		sum := sha256.Sum256(data)
		Expect(only[*appsv1.StatefulSet](objects).Spec.Template.Annotations).To(HaveKeyWithValue("checksum/etcd-configmap", hex.EncodeToString(sum[:])))
	})

	It("should render the pod template of a single member during a surge", func() {
		template := func(change func(*etcd.Input)) (corev1.PodTemplateSpec, string, map[string]string) {
			GinkgoHelper()
			in := inputOf(fixture.WithStore("S3"))()
			change(&in)
			objects := render(in)
			service := objects[slices.IndexFunc(objects, func(o client.Object) bool { return o.GetName() == "test-client" })].(*corev1.Service)

			return only[*appsv1.StatefulSet](objects).Spec.Template, only[*corev1.ConfigMap](objects).Data["etcd.conf.yaml"], service.Spec.Selector
		}
		single, configuration, selector := template(func(*etcd.Input) {})
		Expect(configuration).NotTo(ContainSubstring("test-1"))
		Expect(selector).NotTo(HaveKey("statefulset.kubernetes.io/pod-name"))

		during, configuration, selector := template(func(in *etcd.Input) {
			in.Replicas, in.ClusterSize, in.PodSize, in.Withdrawn, in.ServiceMember = 2, 2, 1, new(int32(0)), new(int32(1))
		})
		Expect(during).To(Equal(single))
		Expect(configuration).To(ContainSubstring("initial-cluster: test-0=http://test-0.test-peer.test-ns.svc:2380,test-1=http://test-1.test-peer.test-ns.svc:2380"))
		Expect(configuration).To(ContainSubstring("initial-advertise-peer-urls:\n  test-1:\n"), "without the URLs of the first member")
		Expect(selector).To(HaveKeyWithValue("statefulset.kubernetes.io/pod-name", "test-1"))
	})

	It("should not select excluded pods for clients, and keep the pod template", func() {
		rendered := func(excludes bool) (appsv1.StatefulSetSpec, map[string]string, map[string]string) {
			GinkgoHelper()
			in := inputOf()()
			in.ExcludesPods = excludes
			objects := render(in)
			service := func(name string) *corev1.Service {
				return objects[slices.IndexFunc(objects, func(o client.Object) bool { return o.GetName() == name })].(*corev1.Service)
			}

			return only[*appsv1.StatefulSet](objects).Spec, service("test-client").Spec.Selector, service("test-peer").Spec.Selector
		}
		before, selector, peers := rendered(false)
		Expect(selector).To(Equal(peers))
		excluding, selector, peersThen := rendered(true)
		Expect(excluding).To(Equal(before))
		Expect(peersThen).To(Equal(peers), "members need the host name of an excluded pod")
		Expect(selector).To(HaveLen(len(peers) + 1))
		Expect(selector).To(HaveKeyWithValue("app.kubernetes.io/name", "test"))
		Expect(before.Template.Labels).To(HaveKeyWithValue("app.kubernetes.io/name", "test"), "the Service selects all other pods")
	})

	DescribeTable("the checksum of the rendering moves with every object",
		func(change func(*etcd.Input)) {
			rendering := func(in etcd.Input) string {
				return only[*appsv1.StatefulSet](render(in)).Annotations["etcd-druid.extensions.gardener.cloud/rendering"]
			}
			before, changed := inputOf()(), inputOf()()
			change(&changed)
			Expect(rendering(before)).To(HaveLen(64))
			Expect(rendering(before)).To(Equal(rendering(inputOf()())))
			Expect(rendering(changed)).NotTo(Equal(rendering(before)))
		},
		Entry("the StatefulSet", func(in *etcd.Input) { in.Defaults.ImageSets["3.4"] = state.Images{EtcdWrapper: "other"} }),
		Entry("the client Service", func(in *etcd.Input) {
			in.Etcd.Spec.Etcd.ClientService = &druidv1alpha1.ClientService{Labels: map[string]string{"a": "b"}}
		}),
		Entry("the PodDisruptionBudget", func(in *etcd.Input) {
			metav1.SetMetaDataAnnotation(&in.Etcd.ObjectMeta, "resources.druid.gardener.cloud/allow-unhealthy-pod-eviction", "")
		}),
		Entry("the Role", func(in *etcd.Input) { in.Etcd.Spec.Replicas = 3 }),
	)
})
