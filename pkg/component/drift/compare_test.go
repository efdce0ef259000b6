// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package drift_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/drift"
)

var meta = metav1.ObjectMeta{
	Namespace: "ns", Name: "main",
	Labels:          map[string]string{"app.kubernetes.io/part-of": "main"},
	Annotations:     map[string]string{"rendered": "yes"},
	OwnerReferences: []metav1.OwnerReference{{APIVersion: "druid.gardener.cloud/v1alpha1", Kind: "Etcd", Name: "main", UID: "1", Controller: new(true), BlockOwnerDeletion: new(true)}},
}

// noted is the metadata of a live object, with the additions of the API server, gardener-resource-manager and users.
func noted() metav1.ObjectMeta {
	live := *meta.DeepCopy()
	live.UID, live.ResourceVersion, live.Generation = "2", "10", 3
	live.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	live.Labels["resources.gardener.cloud/managed-by"] = "gardener"
	live.Annotations["resources.gardener.cloud/origin"] = "ns/druid-main"
	live.Annotations["example.com/note"] = "kept by gardener-resource-manager"
	return live
}

func renderedService() client.Object {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: *meta.DeepCopy(),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, SessionAffinity: corev1.ServiceAffinityNone, Selector: map[string]string{"app.kubernetes.io/part-of": "main"},
			Ports: []corev1.ServicePort{{Name: "client", Protocol: corev1.ProtocolTCP, Port: 2379, TargetPort: intstr.FromInt32(2379)}},
		},
	}
}

func liveService(change func(*corev1.Service)) client.Object {
	live := renderedService().(*corev1.Service)
	live.TypeMeta, live.ObjectMeta = metav1.TypeMeta{}, noted()
	live.Spec.ClusterIP, live.Spec.ClusterIPs = "10.0.0.1", []string{"10.0.0.1"}
	live.Spec.IPFamilies, live.Spec.IPFamilyPolicy = []corev1.IPFamily{corev1.IPv4Protocol}, new(corev1.IPFamilyPolicySingleStack)
	live.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
	change(live)
	return live
}

func renderedStatefulSet() client.Object {
	return &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: *meta.DeepCopy(),
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)), ServiceName: "main-peer", PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/part-of": "main"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/part-of": "main"}, Annotations: map[string]string{"checksum": "1"}},
				Spec: corev1.PodSpec{
					ServiceAccountName: "main",
					Containers: []corev1.Container{{
						Name: "etcd", Image: "etcd:v1", Args: []string{"start-etcd", "--a"},
						Resources:      corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m")}},
						ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(9095)}}},
					}},
					Volumes: []corev1.Volume{{Name: "ca", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "ca"}}}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "main"}}},
		},
	}
}

func liveStatefulSet(change func(*appsv1.StatefulSet)) client.Object {
	live := renderedStatefulSet().(*appsv1.StatefulSet)
	live.TypeMeta, live.ObjectMeta = metav1.TypeMeta{}, noted()
	live.Status.Replicas = 3
	spec := &live.Spec
	spec.RevisionHistoryLimit = new(int32(10))
	spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Retain", WhenScaled: "Retain"}
	spec.VolumeClaimTemplates[0].Labels = map[string]string{"resources.gardener.cloud/managed-by": "gardener"}
	template := &spec.Template
	template.Labels["resources.gardener.cloud/managed-by"] = "gardener"
	template.Spec.DeprecatedServiceAccount, template.Spec.RestartPolicy, template.Spec.DNSPolicy = "main", "Always", "ClusterFirst"
	template.Spec.SchedulerName, template.Spec.TerminationGracePeriodSeconds = "default-scheduler", new(int64(30))
	template.Spec.SecurityContext = &corev1.PodSecurityContext{}
	template.Spec.Volumes[0].Secret.DefaultMode = new(int32(420))
	container := &template.Spec.Containers[0]
	container.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
	container.TerminationMessagePath, container.TerminationMessagePolicy = "/dev/termination-log", "File"
	container.ReadinessProbe.HTTPGet.Scheme = "HTTP"
	container.ReadinessProbe.PeriodSeconds, container.ReadinessProbe.TimeoutSeconds = 10, 1
	container.ReadinessProbe.SuccessThreshold, container.ReadinessProbe.FailureThreshold = 1, 3
	change(live)
	return live
}

func like[T client.Object](object T, change func(T)) client.Object {
	live := object.DeepCopyObject().(T)
	live.SetLabels(noted().Labels)
	live.SetAnnotations(noted().Annotations)
	change(live)
	return live
}

var (
	configMap      = &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta, Data: map[string]string{"etcd.conf.yaml": "a: b"}}
	serviceAccount = &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta, AutomountServiceAccountToken: new(false)}
	role           = &rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}, ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"main-0"}, Verbs: []string{"get", "patch"}},
	}}
	roleBinding = &rbacv1.RoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"}, ObjectMeta: meta,
		RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "main"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "main", Namespace: "ns"}}}
	budget = &policyv1.PodDisruptionBudget{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}, ObjectMeta: meta,
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}
)

var _ = DescribeTable("Differences", func(rendered, live client.Object, expected ...string) {
	paths, err := drift.Differences(rendered, live)
	Expect(err).NotTo(HaveOccurred())
	if len(expected) == 0 {
		Expect(paths).To(BeEmpty())
		return
	}
	Expect(paths).To(Equal(expected))
},
	Entry("a Service as the API server completes it", renderedService(), liveService(func(*corev1.Service) {})),
	Entry("an additional key in the selector", renderedService(), liveService(func(s *corev1.Service) { s.Spec.Selector["x"] = "y" }), "spec.selector.x"),
	Entry("a changed selector", renderedService(), liveService(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app.kubernetes.io/part-of": "other"} }), "spec.selector.app.kubernetes.io/part-of"),
	Entry("no selector", renderedService(), liveService(func(s *corev1.Service) { s.Spec.Selector = nil }), "spec.selector"),
	Entry("a changed port", renderedService(), liveService(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("x") }), "spec.ports[0].targetPort"),
	Entry("one more port", renderedService(), liveService(func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, s.Spec.Ports[0]) }), "spec.ports"),
	Entry("traffic that stays on the node", renderedService(), liveService(func(s *corev1.Service) {
		s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	}), "spec.internalTrafficPolicy"),
	Entry("a changed label and a removed annotation", renderedService(), liveService(func(s *corev1.Service) {
		s.Labels["app.kubernetes.io/part-of"] = "x"
		delete(s.Annotations, "rendered")
	}), "metadata.annotations[rendered]", "metadata.labels[app.kubernetes.io/part-of]"),
	Entry("no owner", renderedService(), liveService(func(s *corev1.Service) { s.OwnerReferences = nil }), "metadata.ownerReferences"),
	Entry("one more owner", renderedService(), liveService(func(s *corev1.Service) {
		s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "3"})
	}), "metadata.ownerReferences"),

	Entry("a StatefulSet as the API server completes it", renderedStatefulSet(), liveStatefulSet(func(*appsv1.StatefulSet) {})),
	Entry("a StatefulSet that kubectl restarted, and whose claim templates are older", renderedStatefulSet(), liveStatefulSet(func(s *appsv1.StatefulSet) {
		s.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = "2026-01-01T00:00:00Z"
		s.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = new("slow")
	})),
	Entry("other replicas", renderedStatefulSet(), liveStatefulSet(func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(2)) }), "spec.replicas"),
	Entry("another image", renderedStatefulSet(), liveStatefulSet(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "x" }), "spec.template.spec.containers[0].image"),
	Entry("a removed argument", renderedStatefulSet(), liveStatefulSet(func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Containers[0].Args = []string{"start-etcd"}
	}), "spec.template.spec.containers[0].args"),
	Entry("one more container", renderedStatefulSet(), liveStatefulSet(func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Containers = append(s.Spec.Template.Spec.Containers, corev1.Container{Name: "x"})
	}), "spec.template.spec.containers"),
	Entry("one more annotation in the pod template", renderedStatefulSet(), liveStatefulSet(func(s *appsv1.StatefulSet) {
		s.Spec.Template.Annotations["x"] = "y"
	}), "spec.template.metadata.annotations.x"),
	Entry("a priority class that is not rendered", renderedStatefulSet(), liveStatefulSet(func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.PriorityClassName = "x"
	}), "spec.template.spec.priorityClassName"),
	Entry("other requests", renderedStatefulSet(), liveStatefulSet(func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1001m")
	}), "spec.template.spec.containers[0].resources.requests.cpu"),

	Entry("a ConfigMap", configMap, like(configMap, func(*corev1.ConfigMap) {})),
	Entry("changed data", configMap, like(configMap, func(c *corev1.ConfigMap) { c.Data["etcd.conf.yaml"] = "" }), "data.etcd.conf.yaml"),
	Entry("additional data", configMap, like(configMap, func(c *corev1.ConfigMap) { c.Data["x"] = "y" }), "data.x"),
	Entry("additional binary data", configMap, like(configMap, func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"x": {1}} }), "binaryData"),

	Entry("a ServiceAccount that image pull secrets were added to", serviceAccount, like(serviceAccount, func(s *corev1.ServiceAccount) {
		s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
		s.Secrets = []corev1.ObjectReference{{Name: "token"}}
	})),
	Entry("a token that is mounted", serviceAccount, like(serviceAccount, func(s *corev1.ServiceAccount) { s.AutomountServiceAccountToken = nil }), "automountServiceAccountToken"),

	Entry("a Role", role, like(role, func(*rbacv1.Role) {})),
	Entry("one more rule", role, like(role, func(r *rbacv1.Role) { r.Rules = append(r.Rules, r.Rules[0]) }), "rules"),
	Entry("no rules", role, like(role, func(r *rbacv1.Role) { r.Rules = nil }), "rules"),
	Entry("one more verb", role, like(role, func(r *rbacv1.Role) { r.Rules[0].Verbs = []string{"get", "patch", "delete"} }), "rules[0].verbs"),
	Entry("a rule for all Leases", role, like(role, func(r *rbacv1.Role) { r.Rules[0].ResourceNames = nil }), "rules[0].resourceNames"),

	Entry("a RoleBinding", roleBinding, like(roleBinding, func(*rbacv1.RoleBinding) {})),
	Entry("another subject", roleBinding, like(roleBinding, func(r *rbacv1.RoleBinding) { r.Subjects[0].Name = "default" }), "subjects[0].name"),
	Entry("no subjects", roleBinding, like(roleBinding, func(r *rbacv1.RoleBinding) { r.Subjects = nil }), "subjects"),

	Entry("a PodDisruptionBudget", budget, like(budget, func(b *policyv1.PodDisruptionBudget) { b.Status.ExpectedPods = 3 })),
	Entry("fewer available", budget, like(budget, func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromInt32(0)) }), "spec.minAvailable"),
	Entry("a percentage", budget, like(budget, func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromString("2")) }), "spec.minAvailable"),
	Entry("a policy for unhealthy pods", budget, like(budget, func(b *policyv1.PodDisruptionBudget) {
		b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
	}), "spec.unhealthyPodEvictionPolicy"),
)

var _ = Describe("Merge", func() {
	It("sends what gardener-resource-manager would send", func() {
		merged := &appsv1.StatefulSet{}
		live := liveStatefulSet(func(s *appsv1.StatefulSet) {
			s.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = "2026-01-01T00:00:00Z"
			s.Spec.Template.Spec.PriorityClassName = "x"
			s.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = new("slow")
			s.Labels["app.kubernetes.io/part-of"] = "x"
		})
		Expect(drift.Merge(renderedStatefulSet(), live, merged)).To(Succeed())
		Expect(merged.UID).To(Equal(live.GetUID()))
		Expect(merged.Labels).To(And(HaveKeyWithValue("app.kubernetes.io/part-of", "main"), HaveKeyWithValue("resources.gardener.cloud/managed-by", "gardener")))
		Expect(merged.Annotations).To(HaveKey("example.com/note"))
		Expect(merged.OwnerReferences).To(Equal(meta.OwnerReferences))
		Expect(merged.Spec.Template.Spec.PriorityClassName).To(BeEmpty())
		Expect(merged.Spec.Template.Annotations).To(HaveKey("kubectl.kubernetes.io/restartedAt"))
		Expect(merged.Spec.VolumeClaimTemplates[0].Spec.StorageClassName).To(HaveValue(Equal("slow")))
		Expect(merged.Status.Replicas).To(BeEquivalentTo(3))
	})

	It("keeps the address of a Service", func() {
		merged := &corev1.Service{}
		Expect(drift.Merge(renderedService(), liveService(func(s *corev1.Service) { s.Spec.Selector["x"] = "y" }), merged)).To(Succeed())
		Expect(merged.Spec.ClusterIP).To(Equal("10.0.0.1"))
		Expect(merged.Spec.Selector).NotTo(HaveKey("x"))
	})
})

var _ = DescribeTable("IsSame", func(change func(*corev1.Service), expected bool) {
	Expect(drift.IsSame(liveService(func(*corev1.Service) {}), liveService(change))).To(Equal(expected))
},
	Entry("metadata that the API server sets", func(s *corev1.Service) {
		s.ResourceVersion, s.Generation = "11", 4
		s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	}, true),
	Entry("a field of the spec", func(s *corev1.Service) { s.Spec.Selector["x"] = "y" }, false),
	Entry("a label", func(s *corev1.Service) { s.Labels["x"] = "y" }, false),
)
