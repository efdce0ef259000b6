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
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	podsecurityapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/test/golden"
)

// Rules for every golden file from the point of view of the components that apply it.
var _ = Describe("Every golden file", func() {
	for _, c := range goldenCases() {
		Describe(c.name, func() {
			var objects []client.Object

			BeforeEach(func() { objects = decodeGolden(c.name) })

			It("should belong to the Etcd, in its namespace, with valid labels", func() {
				etcd := c.input().Etcd
				for _, object := range objects {
					Expect(object.GetNamespace()).To(Equal(etcd.Namespace), object.GetName())
					Expect(object.GetOwnerReferences()).To(ConsistOf(helper.OwnerReference(etcd)), object.GetName())
					Expect(object.GetLabels()).To(SatisfyAll(
						HaveKeyWithValue("app.kubernetes.io/managed-by", "etcd-druid"),
						HaveKeyWithValue("app.kubernetes.io/part-of", etcd.Name),
						HaveKeyWithValue("app.kubernetes.io/name", strings.ReplaceAll(object.GetName(), ":", "-")),
						HaveKeyWithValue("app.kubernetes.io/component", HavePrefix("etcd-")),
					))
					for _, value := range object.GetLabels() {
						Expect(validation.IsValidLabelValue(value)).To(BeEmpty())
					}
				}
			})

			It("should select the pods of the template, and no pod that compacts snapshots", func() {
				statefulSet := only[*appsv1.StatefulSet](objects)
				pod := labels.Set(statefulSet.Spec.Template.Labels)
				compaction := labels.Set{
					"app.kubernetes.io/managed-by": "etcd-druid",
					"app.kubernetes.io/part-of":    statefulSet.Name,
					"app.kubernetes.io/component":  "etcd-snapshot-compaction-job",
					"app.kubernetes.io/name":       statefulSet.Name + "-compactor",
				}

				Expect(statefulSet.Spec.Selector.MatchLabels).To(Equal(map[string]string{
					"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": statefulSet.Name,
				}))
				Expect(labels.SelectorFromSet(statefulSet.Spec.Selector.MatchLabels).Matches(pod)).To(BeTrue())
				for _, budget := range all[*policyv1.PodDisruptionBudget](objects) {
					Expect(labels.SelectorFromSet(budget.Spec.Selector.MatchLabels).Matches(pod)).To(BeTrue())
					Expect(labels.SelectorFromSet(budget.Spec.Selector.MatchLabels).Matches(compaction)).To(BeFalse())
				}
				for _, service := range all[*corev1.Service](objects) {
					Expect(labels.SelectorFromSet(service.Spec.Selector).Matches(pod)).To(BeTrue())
					Expect(labels.SelectorFromSet(service.Spec.Selector).Matches(compaction)).To(BeFalse())
				}
			})

			It("should mount every volume, and no other", func() {
				statefulSet := only[*appsv1.StatefulSet](objects)
				pod := statefulSet.Spec.Template.Spec
				volumes, mounted := sets.New[string](), sets.New[string]()
				for _, volume := range pod.Volumes {
					volumes.Insert(volume.Name)
				}
				for _, template := range statefulSet.Spec.VolumeClaimTemplates {
					volumes.Insert(template.Name)
				}
				for _, container := range append(pod.InitContainers, pod.Containers...) {
					paths := sets.New[string]()
					for _, mount := range container.VolumeMounts {
						mounted.Insert(mount.Name)
						paths.Insert(mount.MountPath)
					}
					Expect(paths).To(HaveLen(len(container.VolumeMounts)), "two mounts at the same path")
				}
				Expect(mounted).To(Equal(volumes))
			})

			It("should name exactly the secrets that the operator waits for", func() {
				awaited := sets.New[string]()
				for _, use := range helper.NeededSecrets(c.input().Etcd) {
					awaited.Insert(use.Name)
				}
				Expect(secretsOf(only[*appsv1.StatefulSet](objects).Spec.Template.Spec)).To(Equal(awaited))
			})

			It("should give a token to the sidecar alone", func() {
				pod := only[*appsv1.StatefulSet](objects).Spec.Template.Spec
				Expect(pod.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
				Expect(pod.ShareProcessNamespace).To(BeNil(), "etcd could read the file system of the sidecar")
				for _, serviceAccount := range all[*corev1.ServiceAccount](objects) {
					Expect(serviceAccount.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
				}
				holders := []string{}
				for _, container := range append(pod.InitContainers, pod.Containers...) {
					for _, mount := range container.VolumeMounts {
						if strings.HasPrefix(mount.MountPath, "/var/run/secrets/kubernetes.io/serviceaccount") {
							holders = append(holders, container.Name)
						}
					}
				}
				if pod.ServiceAccountName == "" {
					Expect(holders).To(BeEmpty())
				} else {
					Expect(holders).To(Equal([]string{"backup-restore"}))
				}
			})

			It("should name every object that the sidecar has rights on", func() {
				for _, role := range all[*rbacv1.Role](objects) {
					for _, rule := range role.Rules {
						Expect(rule.ResourceNames).NotTo(BeEmpty(), "a rule without names is one for all objects")
						Expect(rule.Verbs).NotTo(ContainElement("*"))
					}
				}
			})

			It("should pass only flags that sidecar and wrapper know", func() {
				pod := only[*appsv1.StatefulSet](objects).Spec.Template.Spec
				known := map[string]sets.Set[string]{"etcd": flagsOfWrapper, "backup-restore": flagsOfSidecar}
				if c.name == "store-s3-endpoint" {
					known["backup-restore"] = flagsOfSidecar.Clone().Insert("store-endpoint-override")
				}
				for _, container := range pod.Containers {
					for _, arg := range container.Args[1:] {
						flag, _, found := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
						Expect(found).To(BeTrue(), arg)
						Expect(known[container.Name].Has(flag)).To(BeTrue(), "%s does not know %s", container.Name, arg)
					}
				}
			})

			It("should meet the pod security standard", func() {
				template := only[*appsv1.StatefulSet](objects).Spec.Template
				if c.local {
					// The one volume of the node, and the root that gives it to the sidecar, meet none.
					withoutLocalStore(&template.Spec)
				}
				level := podsecurityapi.LevelRestricted
				if c.root {
					level = podsecurityapi.LevelBaseline
				}
				evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
				Expect(err).NotTo(HaveOccurred())
				for _, result := range evaluator.EvaluatePod(podsecurityapi.LevelVersion{Level: level, Version: podsecurityapi.LatestVersion()}, &template.ObjectMeta, &template.Spec) {
					Expect(result.Allowed).To(BeTrue(), "%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
				}
				for _, container := range template.Spec.Containers {
					Expect(container.SecurityContext.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()))
				}
			})
		})
	}
})

// flagsOfSidecar are the flags of `etcdbrctl server` of etcd-backup-restore v0.33.0, the oldest version in use. It exits
// when it is given another.
var flagsOfSidecar = sets.New(strings.Fields(`
	auto-compaction-mode auto-compaction-retention backoff-attempt-limit backoff-multiplier backoff-threshold-time cacert cert
	compress-snapshots compression-policy config-file data-dir defragmentation-schedule delta-snapshot-lease-name
	delta-snapshot-memory-limit delta-snapshot-period delta-snapshot-retention-period embedded-etcd-quota-bytes
	enable-etcd-member-gc enable-member-lease-renewal enable-profiling enable-snapshot-lease-renewal endpoints
	etcd-connection-timeout etcd-connection-timeout-leader-election etcd-defrag-timeout etcd-password etcd-snapshot-timeout
	etcd-username full-snapshot-lease-name garbage-collection-period garbage-collection-policy help
	initial-advertise-peer-urls initial-cluster initial-cluster-token insecure-skip-tls-verify insecure-transport
	k8s-heartbeat-duration k8s-member-gc-duration key log-level max-backups max-call-send-message-size max-fetchers
	max-parallel-chunk-uploads max-request-bytes max-txn-ops min-chunk-size name reelection-period
	restoration-temp-snapshots-dir schedule server-cert server-key server-port service-endpoints skip-hash-check
	snapstore-temp-directory storage-provider store-container store-prefix use-etcd-wrapper`)...).
	// v0.43 does not have them any more.
	Delete("enable-etcd-member-gc", "k8s-member-gc-duration")

// flagsOfWrapper are the flags of `start-etcd` of etcd-wrapper.
var flagsOfWrapper = sets.New("backup-restore-host-port", "backup-restore-tls-enabled", "backup-restore-ca-cert-bundle-path",
	"etcd-server-name", "etcd-client-port", "etcd-client-cert-path", "etcd-client-key-path", "etcd-ready-timeout", "etcd-wrapper-port")

// decodeGolden decodes a golden file strictly: unknown and repeated fields are errors.
func decodeGolden(name string) []client.Object {
	manifests, err := golden.Read(goldenPath(name))
	Expect(err).NotTo(HaveOccurred())
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

	var objects []client.Object
	for document := range strings.SplitSeq(manifests, "---\n") {
		decoded, _, err := decoder.Decode([]byte(document), nil, nil)
		Expect(err).NotTo(HaveOccurred())
		objects = append(objects, decoded.(client.Object))
	}

	return objects
}

func all[T client.Object](objects []client.Object) []T {
	var found []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}

	return found
}

func only[T client.Object](objects []client.Object) T {
	found := all[T](objects)
	ExpectWithOffset(1, found).To(HaveLen(1))

	return found[0]
}

// secretsOf are the secrets that a pod names, whichever way.
func secretsOf(pod corev1.PodSpec) sets.Set[string] {
	names := sets.New[string]()
	for _, volume := range pod.Volumes {
		if volume.Secret != nil {
			names.Insert(volume.Secret.SecretName)
		}
	}
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		for _, variable := range container.Env {
			if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil {
				names.Insert(from.SecretKeyRef.Name)
			}
		}
	}

	return names
}

func withoutLocalStore(pod *corev1.PodSpec) {
	pod.InitContainers = nil
	var volumes []corev1.Volume
	for _, volume := range pod.Volumes {
		if volume.Name != "local-backup" {
			volumes = append(volumes, volume)
		}
	}
	Expect(volumes).To(HaveLen(len(pod.Volumes) - 1))
	pod.Volumes = volumes
}
