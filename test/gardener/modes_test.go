// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardener_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	upstreamv1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

// modeTimeout is how long gardenlet, gardener-resource-manager and the operator need for a change of the mode.
const modeTimeout = 10 * time.Minute

// etcdDruid is the Deployment of gardenlet's etcd-druid, and its ManagedResource.
var etcdDruid = client.ObjectKey{Namespace: "garden", Name: "etcd-druid"}

// setMode changes the mode of the operator in the garden.
func setMode(ctx context.Context, mode string) {
	GinkgoHelper()
	setValues(ctx, operatorName, func(values map[string]any) { values["predecessor"] = mode })
}

// expectActive expects that etcd-druid is active, or that the operator is the leader and etcd-druid is not active.
func expectActive(ctx context.Context, druid bool) {
	GinkgoHelper()
	Eventually(func(g Gomega) { checkActive(ctx, g, druid) }).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())
}

func checkActive(ctx context.Context, g Gomega, druid bool) {
	deployment, resource := &appsv1.Deployment{}, &resourcesv1alpha1.ManagedResource{}
	g.Expect(seed.Get(ctx, etcdDruid, deployment)).To(Succeed())
	g.Expect(seed.Get(ctx, etcdDruid, resource)).To(Succeed())

	if druid {
		g.Expect(leader(ctx, g)).NotTo(HaveSuffix("_" + operatorName))
		g.Expect(deployment.Status.ReadyReplicas).To(BeNumerically(">", 0))
		g.Expect(resource.Annotations).NotTo(HaveKey(resourcesv1alpha1.Ignore))

		return
	}

	g.Expect(deployment.Spec.Replicas).To(HaveValue(BeZero()))
	g.Expect(resource.Annotations).To(HaveKeyWithValue(resourcesv1alpha1.Ignore, "true"))
	g.Expect(leader(ctx, g)).To(HaveSuffix("_" + operatorName))
}

// leader returns the identity of the leader, or an empty string if the Lease has expired or was released.
func leader(ctx context.Context, g Gomega) string {
	lease := &coordinationv1.Lease{}
	g.Expect(seed.Get(ctx, client.ObjectKey{Namespace: etcdDruid.Namespace, Name: "druid-leader-election"}, lease)).To(Succeed())

	// The removal of the operator deletes its permission to release the Lease.
	if expires := lease.Spec.RenewTime.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second); time.Now().After(expires) {
		return ""
	}

	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// etcdDruidConfiguration returns the contents of the ConfigMaps that the Deployment of etcd-druid mounts.
func etcdDruidConfiguration(ctx context.Context) []string {
	GinkgoHelper()

	deployment := &appsv1.Deployment{}
	Expect(seed.Get(ctx, etcdDruid, deployment)).To(Succeed())

	var contents []string
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.ConfigMap != nil {
			found := &corev1.ConfigMap{}
			Expect(seed.Get(ctx, client.ObjectKey{Namespace: etcdDruid.Namespace, Name: volume.ConfigMap.Name}, found)).To(Succeed())
			contents = slices.AppendSeq(contents, maps.Values(found.Data))
		}
	}

	return contents
}

func etcdDruidGeneration(ctx context.Context) (int64, error) {
	resource := &resourcesv1alpha1.ManagedResource{}
	err := seed.Get(ctx, etcdDruid, resource)

	return resource.Generation, err
}

// reconcileSeed requests a reconciliation of the Seed, and waits until gardenlet has completed it.
func reconcileSeed(ctx context.Context) {
	GinkgoHelper()

	object := &gardencorev1beta1.Seed{}
	Expect(garden.Get(ctx, client.ObjectKey{Name: seedName}, object)).To(Succeed())
	before := object.DeepCopy()
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1beta1constants.GardenerOperation, v1beta1constants.GardenerOperationReconcile)
	Expect(garden.Patch(ctx, object, client.MergeFrom(before))).To(Succeed())
	Expect(object.Generation).To(BeNumerically(">", before.Generation))
	Eventually(func(g Gomega) {
		g.Expect(garden.Get(ctx, client.ObjectKey{Name: seedName}, object)).To(Succeed())
		g.Expect(object.Status.ObservedGeneration).To(Equal(object.Generation))
		g.Expect(object.Status.LastOperation).NotTo(BeNil())
		g.Expect(object.Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateSucceeded), object.Status.LastOperation.Description)
	}).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())
}

// expectSeed expects that all conditions of the Seed are True, and that a constraint exists only if a ManagedResource is ignored.
func expectSeed(ctx context.Context, ignored bool) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		object := &gardencorev1beta1.Seed{}
		g.Expect(garden.Get(ctx, client.ObjectKey{Name: seedName}, object)).To(Succeed())
		g.Expect(object.Status.Conditions).NotTo(BeEmpty())
		for _, c := range object.Status.Conditions {
			g.Expect(c.Status).To(Equal(gardencorev1beta1.ConditionTrue), "%s is %s: %s", c.Type, c.Reason, c.Message)
		}

		violated := ContainElement(And(
			HaveField("Type", gardencorev1beta1.SeedManagedResourcesHonored), HaveField("Status", gardencorev1beta1.ConditionFalse), HaveField("Reason", "ManagedResourcesIgnored"),
		))
		if ignored {
			g.Expect(object.Status.Constraints).To(violated)
		} else {
			g.Expect(object.Status.Constraints).NotTo(violated)
		}
	}).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())
}

var _ = Describe("The operator under a gardenlet that reconciles its seed each minute", Ordered, func() {
	shoot := newShoot("modes")

	BeforeAll(func(ctx SpecContext) {
		restore(ctx)
		DeferCleanup(shoot.delete)
		shoot.startWriter()
		Expect(garden.Create(ctx, shoot.Shoot)).To(Succeed())
		shoot.waitUntilReconciled(ctx)
		shoot.pods = shoot.expectEtcdsReady(ctx)
	})

	AfterEach(func(ctx SpecContext) {
		if !CurrentSpecReport().Failed() {
			Expect(shoot.etcdPods(ctx)).To(Equal(shoot.pods))
			shoot.expectWrites(ctx)
		}
	})

	It("stays active when gardenlet reconciles its seed after it took over", func(ctx SpecContext) {
		expectActive(ctx, false)
		reconcileSeed(ctx)
		checkActive(ctx, Default, false)
		expectSeed(ctx, true)
	})

	It("stays active when gardenlet changes its etcd-druid, but gardenlet then reconciles no Shoot", func(ctx SpecContext) {
		before, err := etcdDruidGeneration(ctx)
		Expect(err).NotTo(HaveOccurred())
		configureGardenlet(ctx, gardenletConfig, func(config map[string]any) {
			Expect(unstructured.SetNestedField(config, int64(7), "etcdConfig", "etcdController", "workers")).To(Succeed())
		})
		Eventually(etcdDruidGeneration).WithContext(ctx).WithTimeout(modeTimeout).Should(BeNumerically(">", before))

		reconcileSeed(ctx)
		checkActive(ctx, Default, false)
		Eventually(func(g Gomega) {
			object := &gardencorev1beta1.Seed{}
			g.Expect(garden.Get(ctx, client.ObjectKey{Name: seedName}, object)).To(Succeed())
			g.Expect(object.Status.Conditions).To(ContainElement(And(
				HaveField("Type", gardencorev1beta1.SeedSystemComponentsHealthy), HaveField("Status", gardencorev1beta1.ConditionFalse), HaveField("Reason", gardencorev1beta1.OutdatedStatusError),
			)))
		}).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())

		shoot.patch(ctx, func() {
			metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, v1beta1constants.GardenerOperation, v1beta1constants.GardenerOperationReconcile)
		})
		Eventually(func(g Gomega) {
			g.Expect(garden.Get(ctx, shoot.key, shoot.Shoot)).To(Succeed())
			g.Expect(shoot.Status.LastOperation.Description).To(ContainSubstring("seed has failing conditions: [SeedSystemComponentsHealthy]"))
		}).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())
	})

	It("hands back, and gardenlet's changed etcd-druid becomes active", func(ctx SpecContext) {
		setMode(ctx, "GiveBack")
		expectActive(ctx, true)
		Expect(etcdDruidConfiguration(ctx)).To(ContainElement(ContainSubstring("concurrentSyncs: 7")))
		reconcileSeed(ctx)
		checkActive(ctx, Default, true)
		expectSeed(ctx, false)
	})

	It("leaves etcd-druid active when it is removed from the seed", func(ctx SpecContext) {
		unregister(ctx, operatorName)
		checkActive(ctx, Default, true)
		expectSeed(ctx, false)
	})

	It("is on standby when it is installed next to an active etcd-druid", func(ctx SpecContext) {
		since := time.Now().Truncate(time.Second) // the precision of the time
		setMode(ctx, "StandBy")
		register(ctx, operatorName, "")
		expectInstalled(ctx, operatorName)
		Eventually(func(g Gomega) {
			events := &corev1.EventList{}
			g.Expect(seed.List(ctx, events, client.InNamespace(etcdDruid.Namespace))).To(Succeed())
			g.Expect(events.Items).To(ContainElement(And(
				HaveField("InvolvedObject.Name", etcdDruid.Name), HaveField("Reason", "StandingBy"),
				Satisfy(func(event corev1.Event) bool { return !event.CreationTimestamp.Time.Before(since) }),
			)))
		}).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())
		reconcileSeed(ctx)
		checkActive(ctx, Default, true)
		expectSeed(ctx, false)
	})

	It("takes over again", func(ctx SpecContext) {
		setMode(ctx, "TakeOver")
		expectActive(ctx, false)
		shoot.operate(ctx, v1beta1constants.GardenerOperationReconcile)
		shoot.expectPods(ctx, false)
	})

	It("replaces the pods when gardenlet renews certificates that expire soon", func(ctx SpecContext) {
		expireSoon(ctx, shoot.namespace)
		shoot.operate(ctx, v1beta1constants.GardenerOperationReconcile)
		shoot.expectPods(ctx, true)
	})

	It("is rolled back and updated by a change of the ControllerDeployment", func(ctx SpecContext) {
		current := expectInstalled(ctx, operatorName)
		for _, source := range []string{framework.SourceOf(ctx, framework.EarlierCommit(ctx)), ""} {
			deploy(ctx, source)
			version := expectInstalled(ctx, operatorName)
			if source == "" {
				Expect(version).To(Equal(current))
			} else {
				Expect(version).NotTo(Equal(current))
			}
			expectActive(ctx, false)
			Expect(shoot.etcdPods(ctx)).To(Equal(shoot.pods))
			shoot.expectWrites(ctx)

			// The versions may render different manifests. Then AllMembersUpdated is False, and the operation replaces the pods.
			shoot.request(ctx, v1beta1constants.GardenerOperationReconcile)
			if source == "" {
				shoot.waitUntilReconciled(ctx)
				shoot.pods = shoot.expectEtcdsReady(ctx)

				continue
			}
			// With the earlier version, BackupReady is Unknown until the first delta snapshot after five minutes, and so is the Shoot's condition.
			Eventually(func(g Gomega) {
				g.Expect(garden.Get(ctx, shoot.key, shoot.Shoot)).To(Succeed())
				g.Expect(shoot.Status.ObservedGeneration).To(Equal(shoot.Generation))
				g.Expect(shoot.Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateSucceeded), "%+v", shoot.Status.LastOperation)
			}).WithContext(ctx).WithTimeout(reconcileTimeout).Should(Succeed())
			shoot.pods = shoot.expectEtcdsReady(ctx, upstreamv1alpha1.ConditionTypeBackupReady)
		}
	})

	It("moves to another registration that selects the seed, and Etcds run on without an operator meanwhile", func(ctx SpecContext) {
		present := &gardencorev1.ControllerDeployment{}
		Expect(garden.Get(ctx, client.ObjectKey{Name: operatorName}, present)).To(Succeed())
		Expect(garden.Create(ctx, &gardencorev1.ControllerDeployment{ObjectMeta: metav1.ObjectMeta{Name: nextName}, Helm: present.Helm})).To(Succeed())

		register(ctx, operatorName, "other") // no seed has this label
		waitUntilRemoved(ctx, operatorName)

		deployment := &appsv1.Deployment{}
		Expect(seed.Get(ctx, etcdDruid, deployment)).To(Succeed())
		Expect(deployment.Spec.Replicas).To(HaveValue(BeZero()), "the removal does not enable etcd-druid")
		Expect(shoot.etcdPods(ctx)).To(Equal(shoot.pods))
		shoot.expectWrites(ctx)

		register(ctx, nextName, "next")
		configureGardenlet(ctx, gardenletConfig, func(config map[string]any) {
			Expect(unstructured.SetNestedField(config, "next", "seedConfig", "metadata", "labels", seedLabel)).To(Succeed())
		})
		expectInstalled(ctx, nextName)
		expectActive(ctx, false)
		shoot.operate(ctx, v1beta1constants.GardenerOperationReconcile)
		shoot.expectPods(ctx, false)
	})

	It("runs in place of gardenlet's etcd-druid, and the Seed reports nothing", func(ctx SpecContext) {
		operator := expectInstalled(ctx, nextName)
		setValues(ctx, nextName, func(values map[string]any) { values["predecessor"] = "GiveBack" })
		expectActive(ctx, true)

		setValues(ctx, nextName, func(values map[string]any) {
			values["predecessor"], values["replicaCount"] = "StandBy", 0
			values["additionalServiceAccounts"] = []any{map[string]any{"name": etcdDruid.Name, "namespace": etcdDruid.Namespace}}
		})
		Eventually(func(g Gomega) {
			deployments := &appsv1.DeploymentList{}
			g.Expect(seed.List(ctx, deployments)).To(Succeed())
			g.Expect(deployments.Items).NotTo(ContainElement(And(HaveField("Name", operatorName), HaveField("Spec.Replicas", HaveValue(BeNumerically(">", 0))))))
		}).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())

		repository, tag, _ := strings.Cut(operator, ":")
		configureGardenlet(ctx, gardenletImages, func(vector map[string]any) {
			vector["images"] = append(vector["images"].([]any), map[string]any{"name": etcdDruid.Name, "repository": repository, "tag": tag})
		})
		Eventually(func(g Gomega) {
			deployment := &appsv1.Deployment{}
			g.Expect(seed.Get(ctx, etcdDruid, deployment)).To(Succeed())
			g.Expect(deployment.Spec.Template.Spec.Containers[0].Image).To(Equal(operator))
			g.Expect(isComplete(deployment)).To(BeTrue())
			g.Expect(leader(ctx, g)).To(And(HavePrefix(etcdDruid.Name+"-"), HaveSuffix("_"+operatorName)))
		}).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())

		reconcileSeed(ctx)
		expectSeed(ctx, false)
		shoot.operate(ctx, v1beta1constants.GardenerOperationReconcile)
		shoot.expectPods(ctx, false)
	})

	It("takes over from the etcd-druid that replaces it", func(ctx SpecContext) {
		setValues(ctx, nextName, func(values map[string]any) { values["predecessor"], values["replicaCount"] = "TakeOver", 2 })
		expectInstalled(ctx, nextName)
		configureGardenlet(ctx, gardenletImages, func(vector map[string]any) {
			vector["images"] = slices.DeleteFunc(vector["images"].([]any), func(image any) bool { return image.(map[string]any)["name"] == etcdDruid.Name })
		})
		Eventually(etcdDruidImage).WithContext(ctx).WithTimeout(modeTimeout).ShouldNot(HavePrefix(localImages))
		expectActive(ctx, false)
		shoot.operate(ctx, v1beta1constants.GardenerOperationReconcile)
		shoot.expectPods(ctx, false)
	})
})
