// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gardener/gardener/pkg/chartrenderer"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	helmloader "helm.sh/helm/v4/pkg/chart/v2/loader"
	helmchartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsscheme "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/version"
	vpaautoscalingv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/charts"
	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/ownership"
)

// render renders the chart with values that overwrite those of the chart.
func render(overwrite string) (*chartrenderer.RenderedChart, error) {
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(overwrite), &values); err != nil {
		return nil, err
	}

	return chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.35.0"}).
		RenderEmbeddedFS(charts.Operator, charts.Path, "release", "extension-etcd-druid", values)
}

// manifests renders the chart and returns its documents, those without content left out, sorted by template and order.
func manifests(overwrite string) []string {
	GinkgoHelper()

	rendered, err := render(overwrite)
	Expect(err).NotTo(HaveOccurred())

	var documents []string

	for _, manifest := range rendered.Manifests {
		for document := range strings.SplitSeq("\n"+manifest.Content, "\n---\n") {
			if strings.TrimSpace(document) != "" {
				documents = append(documents, strings.TrimSpace(document)+"\n")
			}
		}
	}

	return documents
}

// renderWithHelm renders the chart as helm does, hooks included, and returns the texts by the paths of their templates.
func renderWithHelm(overwrite string) map[string]string {
	GinkgoHelper()

	chart, err := helmloader.LoadDir(charts.Path)
	Expect(err).NotTo(HaveOccurred())
	values, err := common.ReadValues([]byte(overwrite))
	Expect(err).NotTo(HaveOccurred())
	values, err = commonutil.ToRenderValues(chart, values, common.ReleaseOptions{Name: "release", Namespace: "extension-etcd-druid"}, common.DefaultCapabilities)
	Expect(err).NotTo(HaveOccurred())
	files, err := (&engine.Engine{}).Render(chart, values)
	Expect(err).NotTo(HaveOccurred())

	return files
}

// decode decodes a document strictly.
func decode(document string) client.Object {
	GinkgoHelper()

	return objects([]string{document})[0]
}

// objects decodes documents strictly: a field that does not exist fails the test.
func objects(documents []string) []client.Object {
	GinkgoHelper()

	types := runtime.NewScheme()
	Expect(scheme.AddToScheme(types)).To(Succeed())
	Expect(apiextensionsscheme.AddToScheme(types)).To(Succeed())
	Expect(vpaautoscalingv1.AddToScheme(types)).To(Succeed())
	Expect(monitoringv1.AddToScheme(types)).To(Succeed())

	decoder := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
	decoded := make([]client.Object, 0, len(documents))

	for _, document := range documents {
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		Expect(err).NotTo(HaveOccurred(), document)

		decoded = append(decoded, object.(client.Object))
	}

	return decoded
}

// find returns the object of the given type and name among those of a rendering.
func find[T client.Object](rendered []client.Object, name string) T {
	GinkgoHelper()

	for _, object := range rendered {
		if typed, ok := object.(T); ok && object.GetName() == name {
			return typed
		}
	}

	Fail("nothing of this type is called " + name)
	panic("not reached")
}

func crdsIn(overwrite string) []client.Object {
	GinkgoHelper()

	return slices.DeleteFunc(objects(manifests(overwrite)), func(object client.Object) bool {
		return object.GetObjectKind().GroupVersionKind().Kind != "CustomResourceDefinition"
	})
}

// spread is a constraint that prefers an even distribution of the operator pods.
func spread(topologyKey string, matchLabelKeys ...string) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		TopologyKey: topologyKey, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 1, MatchLabelKeys: matchLabelKeys,
		LabelSelector: &metav1.LabelSelector{MatchLabels: ownPods},
	}
}

func names(objects []client.Object) []string {
	found := make([]string, 0, len(objects))
	for _, object := range objects {
		found = append(found, object.GetName())
	}

	return found
}

const (
	standalone = "gardener: {enabled: false}\n"
	inPlace    = "replicaCount: 0\nadditionalServiceAccounts: [{name: etcd-druid, namespace: garden}]\n"
	// inGarden is what gardener-operator sets in the runtime cluster of a garden, the switch as a text.
	inGarden = "gardener: {runtimeCluster: {enabled: 'true', priorityClassName: gardener-garden-system-200}}\n"
)

var (
	ownPods        = map[string]string{"app.kubernetes.io/name": "gardener-extension-etcd-druid", "app.kubernetes.io/instance": "release"}
	gardenletsPods = map[string]string{"gardener.cloud/role": "etcd-druid"}
)

var _ = Describe("the operator's chart", func() {
	DescribeTable("renders what is in its golden file, and every field of it exists",
		func(golden, overwrite string) {
			documents := slices.DeleteFunc(manifests(overwrite), func(document string) bool {
				// The files that they come from are compared below.
				return strings.Contains(document, "apiVersion: apiextensions.k8s.io/") || strings.Contains(document, "name: etcd-druid-older-manifest-form") ||
					strings.Contains(document, "name: gardener-extension-etcd-druid-dashboards")
			})
			objects(documents)

			path := filepath.Join("testdata", golden+".golden.yaml")
			text := strings.Join(documents, "---\n")

			if os.Getenv("UPDATE_GOLDEN") != "" {
				Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
			}

			want, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			Expect(text).To(Equal(string(want)), "run `make test-update-golden` if this is intended")
		},
		Entry("in a Gardener seed", "gardener", "gardener: {version: v1.150.0, seed: {name: aws}}\nimage: {ref: 'registry.example/druid@sha256:abc'}\n"),
		Entry("in a cluster without Gardener", "standalone", standalone+"protection: {deletionConfirmation: true, exemptServiceAccounts: ['system:serviceaccount:garden:grm'], exemptUsers: [grm], drainers: [drainer]}\nimageVectorOverwrite: |\n  images:\n  - name: etcd-wrapper\n    repository: registry.example/wrapper\n    tag: v1\n"),
		Entry("in a cluster without Gardener, for two namespaces", "watch-namespaces", standalone+"watchNamespaces: [team-a, team-b]\nprotection: {deletionConfirmation: true}\nconfig: {debugging: {enableProfiling: true}}\n"),
	)

	DescribeTable("stops the operator and releases the Secrets before helm uninstalls it", func(overwrite string) {
		hook := decode(renderWithHelm(overwrite)["gardener-extension-etcd-druid/templates/release-secrets.yaml"]).(*batchv1.Job)
		Expect(hook.Annotations).To(HaveKeyWithValue("helm.sh/hook", "pre-delete"))
		Expect(hook.Spec.Template.Spec.Containers[0].Args).To(Equal([]string{"release-secrets", "--namespace=extension-etcd-druid", "--deployment=gardener-extension-etcd-druid"}))

		rendered := objects(manifests(overwrite))
		deployment := find[*appsv1.Deployment](rendered, "gardener-extension-etcd-druid")
		Expect(hook.Spec.Template.Spec.Containers[0].Image).To(Equal(deployment.Spec.Template.Spec.Containers[0].Image))
		Expect(hook.Spec.Template.Spec.ServiceAccountName).To(Equal(deployment.Spec.Template.Spec.ServiceAccountName))
		selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
		Expect(err).NotTo(HaveOccurred())
		Expect(selector.Matches(labels.Set(hook.Spec.Template.Labels))).To(BeFalse(), "the Job would wait for its own pod")
	},
		Entry("in a cluster without Gardener", standalone),
		Entry("in the runtime cluster of a garden", inGarden),
	)

	It("removes finalizers only in the namespaces that the operator watches", func() {
		hook := decode(renderWithHelm("gardener: {enabled: false}\nwatchNamespaces: [team-a, team-b]")["gardener-extension-etcd-druid/templates/release-secrets.yaml"]).(*batchv1.Job)
		Expect(hook.Spec.Template.Spec.Containers[0].Args).To(ContainElement("--watch-namespaces=team-a,team-b"))
	})

	It("verifies with `helm test` that the cluster enforces NetworkPolicies, unless there are none", func() {
		const template = "gardener-extension-etcd-druid/templates/test-network-policies.yaml"
		hook := decode(renderWithHelm(standalone)[template]).(*corev1.Pod)
		Expect(hook.Annotations).To(HaveKeyWithValue("helm.sh/hook", "test"))
		rendered := objects(manifests(standalone))
		deployment := find[*appsv1.Deployment](rendered, "gardener-extension-etcd-druid")
		Expect(hook.Spec.Containers[0].Image).To(Equal(deployment.Spec.Template.Spec.Containers[0].Image))
		service := find[*corev1.Service](rendered, "gardener-extension-etcd-druid")
		host := service.Name + "." + service.Namespace + ".svc:"
		Expect(hook.Spec.Containers[0].Args).To(Equal([]string{"verify-network-policies", "--allowed=" + host + "443", "--rejected=" + host + "8080"}))

		for _, overwrite := range []string{disabled, "", standalone + "protection: {enabled: false}\nevictionWebhook: {enabled: false}\n"} {
			Expect(strings.TrimSpace(renderWithHelm(overwrite)[template])).To(BeEmpty())
		}
	})

	It("contains no hook if Gardener installs it", func() {
		Expect(names(objects(manifests("")))).NotTo(ContainElement("gardener-extension-etcd-druid-release-secrets"))
	})

	It("installs the CustomResourceDefinitions without Gardener, and keeps them when it is uninstalled", func() {
		crds := crdsIn(standalone)

		Expect(names(crds)).To(ConsistOf(
			"etcds.druid.gardener.cloud", "etcdcopybackupstasks.druid.gardener.cloud", "etcdopstasks.druid.gardener.cloud",
			"managedresources.resources.gardener.cloud",
		))

		for _, crd := range crds {
			Expect(crd.GetAnnotations()).To(HaveKeyWithValue("helm.sh/resource-policy", "keep"))
		}
	})

	It("installs no CRD of a resource manager if another resource manager is installed", func() {
		Expect(names(crdsIn(standalone + "embeddedResourceManager: {enabled: false}"))).NotTo(ContainElement("managedresources.resources.gardener.cloud"))
	})

	It("installs no CustomResourceDefinitions in a seed unless the values enable them", func() {
		Expect(crdsIn("")).To(BeEmpty())
		Expect(crdsIn("crds: {enabled: true}")).To(HaveLen(3))
	})

	It("holds the same CustomResourceDefinitions as the API", func() {
		generated, err := filepath.Glob("../pkg/apis/druid/v1alpha1/crds/*.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(generated).NotTo(BeEmpty())

		copies, err := filepath.Glob(charts.Path + "/files/crds/*.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(copies).To(HaveLen(len(generated)), "run `make generate`")

		for _, path := range generated {
			want, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())

			got, err := os.ReadFile(filepath.Join(charts.Path, "files/crds", filepath.Base(path)))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(got)).To(Equal(string(want)), "run `make generate`")
		}
	})

	It("is of the version that the repository has", func() {
		want, err := os.ReadFile("../VERSION")
		Expect(err).NotTo(HaveOccurred())

		container := find[*appsv1.Deployment](objects(manifests("image: {repository: registry.example/druid}")), "gardener-extension-etcd-druid").Spec.Template.Spec.Containers[0]
		Expect(container.Image).To(Equal("registry.example/druid:" + strings.TrimSpace(string(want))))
	})

	DescribeTable("keeps the digest of the image, and adds none",
		func(values, reference string) {
			container := find[*appsv1.Deployment](objects(manifests("image: {"+values+"}")), "gardener-extension-etcd-druid").Spec.Template.Spec.Containers[0]
			Expect(container.Image).To(Equal(reference))
		},
		Entry("in ref", "ref: 'registry.example/druid@sha256:0a1b'", "registry.example/druid@sha256:0a1b"),
		Entry("in ref, after a tag", "ref: 'registry.example:5000/druid:v1@sha256:0a1b'", "registry.example:5000/druid:v1@sha256:0a1b"),
		Entry("in tag", "repository: registry.example/druid, tag: 'sha256:0a1b'", "registry.example/druid@sha256:0a1b"),
		Entry("in tag, after a tag", "repository: registry.example/druid, tag: 'v1@sha256:0a1b'", "registry.example/druid:v1@sha256:0a1b"),
		Entry("where there is none", "repository: 'registry.example:5000/druid', tag: v1", "registry.example:5000/druid:v1"),
	)

	It("limits the memory of the operator, and tells it the limit", func() {
		container := func(overwrite string) corev1.Container {
			GinkgoHelper()

			return find[*appsv1.Deployment](objects(manifests(overwrite)), "gardener-extension-etcd-druid").Spec.Template.Spec.Containers[0]
		}
		memory := func(overwrite string) string {
			GinkgoHelper()
			limits := container(overwrite).Resources.Limits

			return limits.Memory().String()
		}
		limit := corev1.EnvVar{Name: "MEMORY_LIMIT", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}}}
		Expect(memory("")).To(Equal("1Gi"))
		Expect(container("").Env).To(ContainElement(limit))
		Expect(memory("resources: {limits: {memory: 4Gi}}")).To(Equal("4Gi"))
		unlimited := container("resources: {limits: null}")
		Expect(unlimited.Resources.Limits).To(BeEmpty())
		Expect(unlimited.Env).NotTo(ContainElement(limit), "without a limit it would be the memory of the node")
	})

	DescribeTable("writes a configuration that the operator accepts",
		func(overwrite string, check func(*configv1alpha1.OperatorConfiguration)) {
			configMap := find[*corev1.ConfigMap](objects(manifests(overwrite)), "gardener-extension-etcd-druid-config")

			config, err := configv1alpha1.Decode([]byte(configMap.Data["config.yaml"]))

			Expect(err).NotTo(HaveOccurred())
			check(config)
		},
		Entry("in a seed changes wait for the annotation and the seed's resource manager applies", "", func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.Controllers.Etcd.EnableEtcdSpecAutoReconcile).To(BeFalse())
			Expect(c.ResourceManager.Embedded).To(BeFalse())
		}),
		Entry("elsewhere changes are rolled out and the operator applies itself", standalone, func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.Controllers.Etcd.EnableEtcdSpecAutoReconcile).To(BeTrue())
			Expect(c.ResourceManager.Embedded).To(BeTrue())
		}),
		Entry("elsewhere new Etcds get NetworkPolicies", standalone+"networkPolicies: {monitoring: []}", func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.Rendering.NetworkPolicies).NotTo(BeNil())
			Expect(c.Rendering.NetworkPolicyScope).To(Equal(configv1alpha1.NetworkPolicyScopeNew))
		}),
		Entry("elsewhere each Etcd gets NetworkPolicies, if its user requests it", standalone+"networkPolicies: {enabled: true}", func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.Rendering.NetworkPolicies).NotTo(BeNil())
			Expect(c.Rendering.NetworkPolicyScope).To(Equal(configv1alpha1.NetworkPolicyScopeAll))
		}),
		Entry("elsewhere no Etcd gets NetworkPolicies, if its user disables them", standalone+"networkPolicies: {enabled: false}", func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.Rendering.NetworkPolicies).To(BeNil())
		}),
		Entry("in a seed no Etcd gets NetworkPolicies", "", func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.Rendering.NetworkPolicies).To(BeNil())
		}),
		Entry("outside of Gardener with an installed resource manager", standalone+"embeddedResourceManager: {enabled: false}", func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.ResourceManager.Embedded).To(BeFalse())
		}),
		Entry("Jobs run etcd-helper from the operator's image", "image: {ref: 'registry.example/druid@sha256:abc'}", func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.EtcdHelper).To(Equal(configv1alpha1.EtcdHelperConfiguration{Image: "registry.example/druid@sha256:abc"}))
		}),
		Entry("Jobs pull it with the operator's Secrets", standalone+"image: {repository: registry.example/druid, tag: v1}\nimagePullSecrets: [{name: registry}]", func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.EtcdHelper).To(Equal(configv1alpha1.EtcdHelperConfiguration{
				Image: "registry.example/druid:v1", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
			}))
		}),
		Entry("in a seed Local stores have the directory of Gardener's local setup", "", func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.LocalStore.Roots).To(Equal([]string{"/etc/gardener/local-backupbuckets"}))
		}),
		Entry("elsewhere there are no Local stores", standalone, func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.LocalStore.Roots).To(And(Not(BeNil()), BeEmpty()), "an empty list, which the operator does not fill")
		}),
		Entry("elsewhere with directories of its user", standalone+"config: {localStore: {roots: [/srv/backups]}}", func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.LocalStore.Roots).To(Equal([]string{"/srv/backups"}))
		}),
		Entry("authors may select all values", standalone, func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.Restrictions).To(Equal(configv1alpha1.RestrictionsConfiguration{}))
		}),
		Entry("authors may select the values that its user allows", standalone+"config: {restrictions: {allowedLabels: [example.com/*], allowedEndpoints: []}}", func(c *configv1alpha1.OperatorConfiguration) {
			Expect(c.Restrictions.AllowedLabels).To(Equal([]string{"example.com/*"}))
			Expect(c.Restrictions.AllowedEndpoints).To(And(Not(BeNil()), BeEmpty()), "an empty list, which allows no endpoint")
			Expect(c.Restrictions.AllowedAnnotations).To(BeNil())
		}),
		Entry("with settings of its user, which win", standalone+"config: {controllers: {etcd: {concurrentSyncs: 7, enableEtcdSpecAutoReconcile: false}}}", func(c *configv1alpha1.OperatorConfiguration) {
			Expect(*c.Controllers.Etcd.ConcurrentSyncs).To(Equal(7))
			Expect(c.Controllers.Etcd.EnableEtcdSpecAutoReconcile).To(BeFalse())
		}),
	)

	It("pulls the operator's image with the Secrets of its user", func() {
		pullSecrets := func(overwrite string) []corev1.LocalObjectReference {
			return find[*appsv1.Deployment](objects(manifests(overwrite)), "gardener-extension-etcd-druid").Spec.Template.Spec.ImagePullSecrets
		}
		Expect(pullSecrets("")).To(BeEmpty())
		Expect(pullSecrets("imagePullSecrets: [{name: registry}]")).To(Equal([]corev1.LocalObjectReference{{Name: "registry"}}))
		hook := decode(renderWithHelm("gardener: {enabled: false}\nimagePullSecrets: [{name: registry}]")["gardener-extension-etcd-druid/templates/release-secrets.yaml"]).(*batchv1.Job)
		Expect(hook.Spec.Template.Spec.ImagePullSecrets).To(Equal([]corev1.LocalObjectReference{{Name: "registry"}}))
	})

	It("runs on the selected and tainted nodes, and so does the pod of the uninstallation", func() {
		overwrite := standalone + "nodeSelector: {pool: system}\ntolerations: [{key: pool, operator: Equal, value: system, effect: NoSchedule}]\n"
		hook := decode(renderWithHelm(overwrite)["gardener-extension-etcd-druid/templates/release-secrets.yaml"]).(*batchv1.Job)
		deployment := find[*appsv1.Deployment](objects(manifests(overwrite)), "gardener-extension-etcd-druid")
		for _, pod := range []corev1.PodSpec{hook.Spec.Template.Spec, deployment.Spec.Template.Spec} {
			Expect(pod.NodeSelector).To(Equal(map[string]string{"pool": "system"}))
			Expect(pod.Tolerations).To(Equal([]corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpEqual, Value: "system", Effect: corev1.TaintEffectNoSchedule}}))
		}
	})

	DescribeTable("spreads the operator pods over nodes and zones",
		func(overwrite string, expected []corev1.TopologySpreadConstraint) {
			pod := find[*appsv1.Deployment](objects(manifests(overwrite)), "gardener-extension-etcd-druid").Spec.Template.Spec
			Expect(pod.TopologySpreadConstraints).To(Equal(expected))
		},
		Entry("by default, as far as possible", standalone,
			[]corev1.TopologySpreadConstraint{spread("kubernetes.io/hostname", "pod-template-hash"), spread("topology.kubernetes.io/zone", "pod-template-hash")}),
		Entry("as the values require", standalone+"topologySpreadConstraints: [{topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]\n", []corev1.TopologySpreadConstraint{spread("rack")}),
		Entry("with another selector", "topologySpreadConstraints: [{topologyKey: rack, whenUnsatisfiable: DoNotSchedule, maxSkew: 2, labelSelector: {matchLabels: {a: b}}}]\n",
			[]corev1.TopologySpreadConstraint{{
				TopologyKey: "rack", WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 2, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			}}),
		Entry("not if the values disable it", standalone+"topologySpreadConstraints: []\n", nil),
		Entry("not in a seed, where gardener-resource-manager does it", "", nil),
	)

	It("adds its resources to the ClusterRoles of Kubernetes outside of Gardener", func() {
		const view, edit = "extensions.gardener.cloud:gardener-extension-etcd-druid:view", "extensions.gardener.cloud:gardener-extension-etcd-druid:edit"
		resources := []string{"etcds", "etcdcopybackupstasks", "etcdopstasks"}
		aggregatedTo := func(role *rbacv1.ClusterRole) (found []string) {
			for _, name := range []string{"view", "edit", "admin"} {
				if role.Labels["rbac.authorization.k8s.io/aggregate-to-"+name] == "true" {
					found = append(found, name)
				}
			}
			return found
		}
		rendered := objects(manifests(standalone))
		reads, writes := find[*rbacv1.ClusterRole](rendered, view), find[*rbacv1.ClusterRole](rendered, edit)
		Expect(aggregatedTo(reads)).To(Equal([]string{"view", "edit", "admin"}))
		Expect(aggregatedTo(writes)).To(Equal([]string{"edit", "admin"}))
		Expect(reads.Rules).To(ContainElement(And(HaveField("Resources", Equal(resources)), HaveField("Verbs", Equal([]string{"get", "list", "watch"})))))
		Expect(writes.Rules).To(ContainElement(And(HaveField("Resources", Equal(resources)), HaveField("Verbs", ConsistOf("create", "update", "patch", "delete", "deletecollection")))))
		for _, rule := range reads.Rules {
			Expect(rule.Verbs).NotTo(ContainElement(BeElementOf("create", "update", "patch", "delete", "deletecollection")))
		}
		for _, rule := range writes.Rules {
			Expect(rule.Resources).NotTo(ContainElement(HaveSuffix("/status")), "only the operator writes the status")
		}

		for _, overwrite := range []string{"", standalone + "aggregatedRoles: {enabled: false}\n"} {
			Expect(names(objects(manifests(overwrite)))).NotTo(ContainElement(BeElementOf(view, edit)))
		}
		Expect(names(objects(manifests("aggregatedRoles: {enabled: true}")))).To(ContainElements(view, edit))
	})

	DescribeTable("installs only on versions of Kubernetes that have all that it needs",
		func(version string, compatible bool) {
			chart, err := helmloader.LoadDir(charts.Path)
			Expect(err).NotTo(HaveOccurred())
			Expect(helmchartutil.IsCompatibleRange(chart.Metadata.KubeVersion, version)).To(Equal(compatible))
		},
		Entry("1.29 has no ValidatingAdmissionPolicy of version v1", "v1.29.14", false),
		Entry("1.30", "v1.30.0", true),
		Entry("1.30 of a provider", "v1.30.1-gke.1329000", true),
		Entry("the version of the tests", "v1.36.4", true),
	)

	It("lets the network policies of a seed pass the operator to the members", func() {
		configMap := find[*corev1.ConfigMap](objects(manifests("")), "gardener-extension-etcd-druid-config")

		config, err := configv1alpha1.Decode([]byte(configMap.Data["config.yaml"]))

		Expect(err).NotTo(HaveOccurred())
		Expect(config.Rendering.NamespaceSelectors).To(HaveLen(1))
		selector, err := metav1.LabelSelectorAsSelector(&config.Rendering.NamespaceSelectors[0])
		Expect(err).NotTo(HaveOccurred())
		const registration = "controllerregistration.core.gardener.cloud/name"
		Expect(selector.Matches(labels.Set{"gardener.cloud/role": "extension", registration: "gardener-extension-etcd-druid"})).To(BeTrue())
		Expect(selector.Matches(labels.Set{"gardener.cloud/role": "extension", registration: "gardener-extension-etcd-druid-next"})).To(BeTrue(), "another version on some seeds")
		Expect(selector.Matches(labels.Set{"gardener.cloud/role": "extension", registration: "provider-local"})).To(BeFalse())
		Expect(selector.Matches(labels.Set{registration: "gardener-extension-etcd-druid"})).To(BeFalse())
	})

	It("gives its pods the labels that an operator in place of etcd-druid gives its own", func() {
		template := find[*appsv1.Deployment](objects(manifests("")), "gardener-extension-etcd-druid").Spec.Template
		for key, value := range ownership.NetworkLabels() {
			Expect(template.Labels).To(HaveKeyWithValue(key, value))
		}
	})

	It("loses no object where gardenlet makes a Secret of it, which has one of a kind and name for each file", func() {
		rendered, err := render("gardener: {enabled: true}\nadditionalServiceAccounts: [{name: etcd-druid, namespace: garden}]\n")
		Expect(err).NotTo(HaveOccurred())

		count := 0

		for _, content := range rendered.AsSecretData() {
			count += strings.Count("\n"+string(content), "\nkind: ")
		}
		Expect(count).To(Equal(strings.Count("\n"+string(rendered.Manifest()), "\nkind: ")))
	})

	DescribeTable("refuses values that do not exist, and says which",
		func(overwrite, key string) {
			_, err := render(overwrite)
			Expect(err).To(MatchError(ContainSubstring(key)))
		},
		Entry("at the top", "replicas: 3", "replicas"),
		Entry("further down", "vpa: {enable: true}", "enable"),
		Entry("of another type", "replicaCount: two", "replicaCount"),
		Entry("that would be rendered as something else", "podLabels: {a: 1}", "podLabels"),
		Entry("of restrictions", "config: {restrictions: {annotations: []}}", "annotations"),
		Entry("with a wildcard that has no effect", "config: {restrictions: {allowedEndpoints: [10.0.0.*]}}", "10.0.0.*"),
	)

	It("takes whatever Gardener adds", func() {
		_, err := render("gardener: {version: v1.150.0, garden: {clusterIdentity: g}, gardenlet: {featureGates: {A: true}}, seed: {name: s, spec: {}}}\nusablePorts: [1, 2]\n")
		Expect(err).NotTo(HaveOccurred())
	})

	It("runs with the priority of extensions in the runtime cluster of a garden", func() {
		deployment := find[*appsv1.Deployment](objects(manifests(inGarden)), "gardener-extension-etcd-druid")
		Expect(deployment.Spec.Template.Spec.PriorityClassName).To(Equal("gardener-garden-system-200"))
	})

	DescribeTable("gives its metrics and alerts to one of Gardener's Prometheuses, which may reach it",
		func(overwrite, prometheus, namespace string, pods map[string]string) {
			rendered := objects(manifests(overwrite))
			monitor := find[*monitoringv1.ServiceMonitor](rendered, "gardener-extension-etcd-druid")
			Expect(monitor.Labels).To(HaveKeyWithValue("prometheus", prometheus))
			Expect(find[*monitoringv1.PrometheusRule](rendered, "gardener-extension-etcd-druid").Labels).To(HaveKeyWithValue("prometheus", prometheus))

			service := find[*corev1.Service](rendered, "gardener-extension-etcd-druid")
			Expect(service.Annotations).To(HaveKeyWithValue("networking.resources.gardener.cloud/from-all-"+prometheus+"-scrape-targets-allowed-ports", `[{"port":8080,"protocol":"TCP"}]`))
			Expect(labels.SelectorFromSet(monitor.Spec.Selector.MatchLabels).Matches(labels.Set(service.Labels))).To(BeTrue())
			Expect(cmp.Or(strings.Join(monitor.Spec.NamespaceSelector.MatchNames, ","), monitor.Namespace)).To(Equal(namespace))
			Expect(service.Namespace).To(Equal(namespace))
			Expect(labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pods))).To(BeTrue())
		},
		Entry("to that of the seed", "", "seed", "extension-etcd-druid", ownPods),
		Entry("to that of the garden in its runtime cluster", inGarden, "garden", "extension-etcd-druid", ownPods),
		Entry("not to that of the garden where a text says that this is none", "gardener: {runtimeCluster: {enabled: 'false'}}", "seed", "extension-etcd-druid", ownPods),
		Entry("to that of the seed where gardenlet's Deployment runs it", inPlace, "seed", "garden", gardenletsPods),
		Entry("to that of the garden where gardener-operator's Deployment runs it", inGarden+inPlace, "garden", "garden", gardenletsPods),
	)

	It("lets another Prometheus have them", func() {
		rendered := objects(manifests("serviceMonitor: {labels: {prometheus: other, team: etcd}}\nprometheusRule: {labels: {prometheus: other}}\n"))
		Expect(find[*monitoringv1.ServiceMonitor](rendered, "gardener-extension-etcd-druid").Labels).To(And(HaveKeyWithValue("prometheus", "other"), HaveKeyWithValue("team", "etcd")))
		Expect(find[*monitoringv1.PrometheusRule](rendered, "gardener-extension-etcd-druid").Labels).To(HaveKeyWithValue("prometheus", "other"))
	})

	DescribeTable("shows its dashboards in the Plutono of Gardener, and where values say",
		func(overwrite, namespace string, selected labels.Set) {
			dashboards := find[*corev1.ConfigMap](objects(manifests(overwrite)), "gardener-extension-etcd-druid-dashboards")
			Expect(dashboards.Namespace).To(Equal(namespace))
			Expect(labels.SelectorFromSet(selected).Matches(labels.Set(dashboards.Labels))).To(BeTrue())
			Expect(dashboards.Data).To(HaveLen(2))
			for _, file := range []string{"etcd.json", "etcds.json"} {
				content, err := charts.Operator.ReadFile(charts.Path + "/files/dashboards/" + file)
				Expect(err).NotTo(HaveOccurred())
				Expect(dashboards.Data["etcd-druid-"+file]).To(MatchJSON(content))
			}
		},
		Entry("in a seed", "", "garden", labels.Set{"dashboard.monitoring.gardener.cloud/seed": "true"}),
		Entry("in the runtime cluster of a garden", inGarden, "garden", labels.Set{"dashboard.monitoring.gardener.cloud/garden": "true"}),
		Entry("in another cluster", "gardener: {enabled: false}\ndashboards: {enabled: true, labels: {grafana_dashboard: '1'}}", "extension-etcd-druid", labels.Set{"grafana_dashboard": "1"}),
		Entry("in another namespace", "dashboards: {namespace: monitoring}", "monitoring", labels.Set{}),
	)

	DescribeTable("alerts about the operator by the name that its series have",
		func(overwrite string) {
			rendered := objects(manifests(overwrite))
			jobs := map[string]bool{}
			for _, group := range find[*monitoringv1.PrometheusRule](rendered, "gardener-extension-etcd-druid").Spec.Groups {
				for _, rule := range group.Rules {
					for _, match := range regexp.MustCompile(`job="([^"]*)"`).FindAllStringSubmatch(rule.Expr.String(), -1) {
						jobs[match[1]] = true
					}
				}
			}
			Expect(slices.Collect(maps.Keys(jobs))).To(HaveLen(1))
			Expect(find[*monitoringv1.ServiceMonitor](rendered, "gardener-extension-etcd-druid").Spec.JobLabel).To(BeEmpty(), "so that it is the name of the Service")
			find[*corev1.Service](rendered, slices.Collect(maps.Keys(jobs))[0])
		},
		Entry("in a seed", ""),
		Entry("where gardenlet's Deployment runs it", inPlace),
	)

	DescribeTable("refuses settings that more depends on than the configuration",
		func(overwrite, wayOut string) {
			_, err := render(overwrite)
			Expect(err).To(MatchError(ContainSubstring(wayOut)))
		},
		Entry("the embedded resource manager needs rights of its own", "config: {resourceManager: {embedded: true}}", "set embeddedResourceManager.enabled"),
		Entry("watched namespaces need Roles", standalone+"config: {watchNamespaces: [team-a]}", "set watchNamespaces"),
		Entry("a seed has a namespace for each shoot", "watchNamespaces: [team-a]", "gardener.enabled=false"),
		Entry("pprof needs rights of its own", standalone+"extraArgs: [--enable-profiling=true]", "set config.debugging.enableProfiling"),
		Entry("admission policies are made of the protection as well", "config: {webhooks: {etcdComponentProtection: {enabled: true}}}", "set protection"),
		Entry("the webhook for evictions needs a Service", "config: {webhooks: {eviction: {enabled: false}}}", "set evictionWebhook"),
	)

	It("protects nothing, and serves no webhook, where that is switched off", func() {
		rendered := objects(manifests(standalone + "protection: {enabled: false, deletionConfirmation: true}\ninspectionPolicy: {enabled: false}\nevictionWebhook: {enabled: false}\n"))

		for _, object := range rendered {
			if policy, ok := object.(*admissionregistrationv1.ValidatingAdmissionPolicy); ok {
				Expect(policy.Name).To(Equal("etcd-druid-older-manifest-form"))
			}
		}

		Expect(find[*corev1.Service](rendered, "gardener-extension-etcd-druid").Spec.Ports).To(HaveLen(1))
		Expect(find[*corev1.ConfigMap](rendered, "gardener-extension-etcd-druid-config").Data["config.yaml"]).NotTo(ContainSubstring("etcdComponentProtection"))
	})

	It("serves the webhook for evictions without the protection", func() {
		rendered := objects(manifests(standalone + "protection: {enabled: false}\nwatchNamespaces: [team-a]\nnetworkPolicies: {enabled: true}\n"))

		Expect(find[*corev1.Service](rendered, "gardener-extension-etcd-druid").Spec.Ports).To(ContainElement(HaveField("Name", "webhooks")))
		Expect(find[*networkingv1.NetworkPolicy](rendered, "gardener-extension-etcd-druid").Spec.Ingress).To(HaveLen(1))
		Expect(find[*appsv1.Deployment](rendered, "gardener-extension-etcd-druid").Spec.Template.Spec.Volumes).To(ContainElement(HaveField("Name", "webhook-certificate")))
		Expect(find[*rbacv1.Role](rendered, "gardener-extension-etcd-druid").Rules).To(ContainElement(HaveField("Resources", ConsistOf("secrets"))))
		Expect(find[*rbacv1.ClusterRole](rendered, "extensions.gardener.cloud:gardener-extension-etcd-druid").Rules).To(ContainElement(And(
			HaveField("Resources", ConsistOf("validatingwebhookconfigurations")), HaveField("Verbs", ConsistOf("create")))))
		config := find[*corev1.ConfigMap](rendered, "gardener-extension-etcd-druid-config").Data["config.yaml"]
		Expect(config).To(And(ContainSubstring("managedCertificate: true"), MatchRegexp(`eviction:\s+enabled: true`), Not(ContainSubstring("etcdComponentProtection"))))
	})

	It("serves metrics and health on the ports that the configuration names", func() {
		rendered := objects(manifests("config: {server: {metrics: {port: 9090}, healthProbes: {port: 9091}}}"))
		ports := map[string]int32{}

		for _, port := range find[*appsv1.Deployment](rendered, "gardener-extension-etcd-druid").Spec.Template.Spec.Containers[0].Ports {
			ports[port.Name] = port.ContainerPort
		}

		Expect(ports).To(And(HaveKeyWithValue("metrics", int32(9090)), HaveKeyWithValue("health", int32(9091))))

		service := find[*corev1.Service](rendered, "gardener-extension-etcd-druid")
		Expect(service.Spec.Ports[0].Port).To(Equal(int32(9090)))
		Expect(service.Annotations).To(HaveKeyWithValue("networking.resources.gardener.cloud/from-all-seed-scrape-targets-allowed-ports", `[{"port":9090,"protocol":"TCP"}]`))
	})

	It("serves the webhook on the port and with the folder that the configuration names", func() {
		rendered := objects(manifests("config: {server: {webhooks: {port: 10250, serverCertDir: /certificates}}}"))
		pod := find[*appsv1.Deployment](rendered, "gardener-extension-etcd-druid").Spec.Template.Spec

		Expect(pod.Containers[0].Ports).To(ContainElement(corev1.ContainerPort{Name: "webhooks", ContainerPort: 10250, Protocol: corev1.ProtocolTCP}))
		Expect(pod.Containers[0].VolumeMounts).To(ContainElement(corev1.VolumeMount{Name: "webhook-certificate", MountPath: "/certificates"}))
	})

	DescribeTable("grants the right to switch the etcd-druid of gardenlet off only where it is to be taken over",
		func(overwrite string, granted bool) {
			role := find[*rbacv1.ClusterRole](objects(manifests(overwrite)), "extensions.gardener.cloud:gardener-extension-etcd-druid")
			Expect(slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
				return slices.Contains(rule.Resources, "deployments") && slices.Contains(rule.Verbs, "patch")
			})).To(Equal(granted))
		},
		Entry("not with the default policy StandBy", "", false),
		Entry("with the policy TakeOver", "predecessor: TakeOver", true),
		Entry("not with the policy GiveBack", "predecessor: GiveBack", false),
	)

	It("grants the same rights to an operator that gardenlet starts in place of etcd-druid", func() {
		rendered := objects(manifests(inPlace))
		binding := find[*rbacv1.ClusterRoleBinding](rendered, "extensions.gardener.cloud:gardener-extension-etcd-druid")
		Expect(binding.Subjects).To(ContainElement(rbacv1.Subject{Kind: "ServiceAccount", Name: "etcd-druid", Namespace: "garden"}))
		Expect(find[*rbacv1.RoleBinding](rendered, "gardener-extension-etcd-druid").Subjects).To(HaveLen(2))
	})

	DescribeTable("restarts the operator when what it reads at its start changes",
		func(overwrite string) {
			template := func(overwrite string) map[string]string {
				return find[*appsv1.Deployment](objects(manifests(overwrite)), "gardener-extension-etcd-druid").Spec.Template.Annotations
			}
			Expect(template(overwrite)).NotTo(Equal(template("")))
		},
		Entry("its configuration", "config: {logging: {logLevel: debug}}"),
		Entry("the images of etcd", "imageVectorOverwrite: 'images: []'"),
	)

	DescribeTable("grants the right to write Roles only where the operator applies them itself",
		func(overwrite string, granted bool) {
			role := find[*rbacv1.ClusterRole](objects(manifests(overwrite)), "extensions.gardener.cloud:gardener-extension-etcd-druid")
			Expect(slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
				return slices.Contains(rule.Resources, "roles") && slices.Contains(rule.Verbs, "create")
			})).To(Equal(granted))
		},
		Entry("not in a seed", "", false),
		Entry("with the embedded resource manager", standalone, true),
	)

	DescribeTable("grants no rights for kinds that no Etcd has, also with the embedded resource manager",
		func(overwrite string) {
			for _, rule := range find[*rbacv1.ClusterRole](objects(manifests(overwrite)), "extensions.gardener.cloud:gardener-extension-etcd-druid").Rules {
				Expect(rule.Resources).NotTo(ContainElement(BeElementOf("daemonsets", "replicasets", "cronjobs", "horizontalpodautoscalers", "prometheuses", "certificates")))
				if slices.Contains(rule.Resources, "deployments") {
					Expect(rule.ResourceNames).NotTo(BeEmpty())
				}
			}
		},
		Entry("in a seed", ""),
		Entry("elsewhere", standalone),
	)

	It("grants rights on namespaced objects only in the watched namespaces", func() {
		rendered := objects(manifests(standalone + "watchNamespaces: [team-a, team-b]\n"))
		name := "extensions.gardener.cloud:gardener-extension-etcd-druid"
		for _, rule := range find[*rbacv1.ClusterRole](rendered, name).Rules {
			for _, resource := range rule.Resources {
				Expect(resource).To(BeElementOf("namespaces", "storageclasses", "persistentvolumes", "nodes", "validatingwebhookconfigurations", "clusterroles", "deployments"))
				if resource == "deployments" || resource == "namespaces" {
					Expect(rule.ResourceNames).NotTo(BeEmpty())
				}
			}
		}
		all := find[*rbacv1.ClusterRole](objects(manifests(standalone)), name).Rules
		granted := map[string]int{}
		for _, object := range rendered {
			if role, ok := object.(*rbacv1.Role); ok && role.Name == name {
				granted[role.Namespace] = len(role.Rules)
				for _, rule := range role.Rules {
					Expect(all).To(ContainElement(rule))
				}
			}
		}
		Expect(granted).To(And(HaveLen(2), HaveKey("team-a"), HaveKey("team-b")))
	})

	It("grants the rights that pprof needs only where it is enabled", func() {
		reviews := func(overwrite string) bool {
			role := find[*rbacv1.ClusterRole](objects(manifests(overwrite)), "extensions.gardener.cloud:gardener-extension-etcd-druid")

			return slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "tokenreviews") })
		}
		Expect(reviews(standalone)).To(BeFalse())
		enabled := standalone + "config: {debugging: {enableProfiling: true}}"
		Expect(reviews(enabled)).To(BeTrue())
		Expect(find[*rbacv1.ClusterRole](objects(manifests(enabled)), "extensions.gardener.cloud:gardener-extension-etcd-druid:profiling").Rules).To(HaveLen(1))
	})

	DescribeTable("grants no verb or resource by wildcard, and no escalation",
		func(overwrite string) {
			role := find[*rbacv1.ClusterRole](objects(manifests(overwrite)), "extensions.gardener.cloud:gardener-extension-etcd-druid")
			for _, rule := range role.Rules {
				Expect(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs)).NotTo(ContainElements("*"))
				Expect(rule.Verbs).NotTo(ContainElement(BeElementOf("escalate", "bind", "impersonate", "deletecollection")))
			}
		},
		Entry("in a seed", ""),
		Entry("elsewhere", standalone),
	)
})
