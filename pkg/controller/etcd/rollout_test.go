// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/rollouts"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("An operator with newer default images", func() {
	var (
		ctx         = context.Background()
		limits      = rollout.Limits{Total: rollout.Limit{Number: new(1)}, Canaries: 1, CanaryPeriod: 5 * time.Minute, Timeout: 10 * time.Minute}
		k           *kube.Cluster
		drive       *operator
		coordinator *rollouts.Coordinator
	)

	// upgrade starts an operator whose images have the tag.
	upgrade := func(tag string) {
		drive = startOperator(k, nil)
		images := state.Images{EtcdWrapper: "registry.example.com/etcd-wrapper:" + tag, BackupRestore: "registry.example.com/etcdbrctl:" + tag, Init: "registry.example.com/init:v1"}
		drive.reconciler.Config.Defaults = state.Defaults{ImageSets: map[string]state.Images{"3.4": images}}
		drive.reconciler.Config.Rollout = &limits
		coordinator = rollouts.NewCoordinator(&observer.Fleet{Observer: drive.observer}, limits, k.Clock)
		drive.reconciler.Rollouts = coordinator
	}
	images := func() []string {
		GinkgoHelper()
		pods := &corev1.PodList{}
		Expect(k.Client(nil).List(ctx, pods)).To(Succeed())
		var found []string
		for _, pod := range pods.Items {
			found = append(found, pod.Spec.Containers[0].Image)
		}
		slices.Sort(found)

		return slices.Compact(found)
	}
	record := func() *state.Rollout {
		GinkgoHelper()
		mr := &resourcesv1alpha1.ManagedResource{}
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "druid-main"}, mr)).To(Succeed())
		text := recordedAs(mr, "rollout")
		if text == "" {
			return nil
		}
		found := &state.Rollout{}
		must(json.Unmarshal([]byte(text), found))

		return found
	}
	condition := func() *druidv1alpha1.Condition {
		return conditions.Find(k.EtcdObject().Status.Conditions, druidv1alpha1.ConditionTypeDefaultsUpdated)
	}
	// reportHealth writes the conditions of the controller care.
	reportHealth := func() {
		etcd := k.EtcdObject().DeepCopy()
		for _, conditionType := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionTypeAllMembersReady} {
			etcd.Status.Conditions = append(etcd.Status.Conditions, druidv1alpha1.Condition{Type: conditionType, Status: druidv1alpha1.ConditionTrue, LastTransitionTime: metav1.NewTime(k.Clock.Now())})
		}
		must(k.Client(nil).Status().Update(ctx, etcd))
	}
	reconcile := func() {
		drive.due = k.Clock.Now()
		drive.run()
	}
	expectCompleted := func() {
		GinkgoHelper()
		etcd := k.EtcdObject()
		Expect(etcd.Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
		Expect(etcd.Status.ObservedGeneration).To(HaveValue(Equal(etcd.Generation)))
		Expect(etcd.Annotations).NotTo(HaveKey("druid.gardener.cloud/operation"))
		Expect(conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeAllMembersUpdated)).To(HaveField("Status", druidv1alpha1.ConditionTrue))
	}

	grantAndReconcile := func() {
		GinkgoHelper()
		_, _, err := coordinator.Decide(ctx)
		Expect(err).NotTo(HaveOccurred())
		reconcile()
	}
	// breakCanary replaces the cluster by one that is updated to an image that does not start.
	breakCanary := func() {
		GinkgoHelper()
		k = reconciledCluster(1)
		reportHealth()
		k.BreakImage("registry.example.com/etcd-wrapper:v2")
		upgrade("v2")
		update(func(*druidv1alpha1.Etcd) {})(k)
		reconcile()
		grantAndReconcile()
	}

	DescribeTable("completes the generation with the earlier ones, and uses the newer ones with a grant", func(replicas int32, options ...func(*druidv1alpha1.Etcd)) {
		k = reconciledCluster(replicas, options...)
		reportHealth()
		upgrade("v2")
		reconcile()
		Expect(images()).To(Equal([]string{"registry.example.com/etcd-wrapper:v1"}), "nothing was requested")
		Expect(condition()).To(BeNil())

		By("accepting a spec")
		update(relabel)(k)
		reconcile()
		Expect(images()).To(Equal([]string{"registry.example.com/etcd-wrapper:v1"}))
		expectCompleted()
		Expect(condition()).To(And(HaveField("Status", druidv1alpha1.ConditionProgressing), HaveField("Reason", "WaitingForCanary")))

		By("granting the update")
		changed, _, err := coordinator.Decide(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(changed).To(ConsistOf("demo/main"))
		for range 3 {
			drive.reconcileOnce()
			k.Tick()
		}
		began := record()
		Expect(began).To(HaveValue(And(HaveField("Canary", true), HaveField("PassedAt", BeZero()))))

		By("restarting the operator in another version with the same images")
		upgrade("v2")
		drive.run()
		Expect(images()).To(Equal([]string{"registry.example.com/etcd-wrapper:v2"}))
		expectCompleted()
		Expect(condition()).To(BeNil())
		passed := record()
		Expect(passed.StartedAt).To(Equal(began.StartedAt), "it continues")
		Expect(passed.PassedAt.Sub(began.StartedAt)).To(BeNumerically(">=", limits.CanaryPeriod), "a slot is not free before")
		Expect(k.Violations).To(BeEmpty())

		By("returning to the earlier version, which replaces no pod by itself")
		upgrade("v1")
		reconcile()
		Expect(images()).To(Equal([]string{"registry.example.com/etcd-wrapper:v2"}))
		Expect(record().PassedAt).To(Equal(passed.PassedAt))
	},
		Entry("with one member", int32(1)),
		Entry("with three members", int32(3)),
		Entry("with one member and a surge", int32(1), withStore, withSurge),
	)

	It("waits further if it cannot use the grant", func() {
		k = newCluster()
		var secrets []*corev1.Secret
		data := fixture.Certificates("main", "demo")
		for _, name := range []string{"ca", "server", "client"} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Data: data}
			must(k.Client(nil).Create(ctx, secret))
			secrets = append(secrets, secret)
		}
		create(1, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{
				TLSCASecretRef:     druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: "ca"}},
				ServerTLSSecretRef: corev1.SecretReference{Name: "server"},
				ClientTLSSecretRef: corev1.SecretReference{Name: "client"},
			}
		})(k)
		startOperator(k, nil).run()
		reportHealth()
		upgrade("v2")
		update(relabel)(k)
		reconcile()
		expectCompleted()
		_, _, err := coordinator.Decide(ctx)
		Expect(err).NotTo(HaveOccurred())
		secrets[1].Finalizers = nil
		must(k.Client(nil).Update(ctx, secrets[1]))
		must(k.Client(nil).Delete(ctx, secrets[1]))
		drive.reconcileOnce()
		Expect(record()).To(BeNil())
		Expect(condition()).To(HaveField("Reason", "WaitingForCanary"))
		_, isBusy, err := coordinator.Decide(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(isBusy).To(BeTrue())
	})

	It("does not keep the grant after a panic", func() {
		k = reconciledCluster(1)
		reportHealth()
		upgrade("v2")
		update(relabel)(k)
		reconcile()
		_, _, err := coordinator.Decide(ctx)
		Expect(err).NotTo(HaveOccurred())
		drive.reconciler.Observer = nil
		Expect(drive.reconcileOnce).To(Panic())
		k.Clock.Step(6 * time.Minute)
		changed, _, err := coordinator.Decide(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(changed).NotTo(BeEmpty(), "it is granted again")
	})

	DescribeTable("upgrades etcd with a grant, which a full snapshot before uses", func(replicas int32) {
		k = reconciledCluster(replicas, withStore)
		reportHealth()
		upgrade("v1")
		images35 := state.Images{EtcdWrapper: "registry.example.com/etcd-wrapper:v0.7.0", BackupRestore: "registry.example.com/etcdbrctl:v2", Init: "registry.example.com/init:v1"}
		drive.reconciler.Config.Defaults.ImageSets["3.5"] = images35
		drive.reconciler.Config.EtcdVersion = "3.5"
		update(relabel)(k)
		reconcile()
		expectCompleted()
		Expect(condition()).To(HaveField("Reason", "WaitingForCanary"))
		changed, _, err := coordinator.Decide(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(changed).To(ConsistOf("demo/main"))
		reconcile()
		Expect(images()).To(Equal([]string{images35.EtcdWrapper}), "the only grant is enough")
		expectCompleted()
		Expect(record().PassedAt).NotTo(BeZero())
		Expect(k.Violations).To(BeEmpty())
	},
		Entry("of one member", int32(1)),
		Entry("of three members", int32(3)),
	)

	It("repairs an Etcd that it has broken with the next images, without a request", func() {
		breakCanary()
		Expect(images()).To(Equal([]string{"registry.example.com/etcd-wrapper:v2"}))
		broken := record()
		Expect(broken.PassedAt).To(BeZero())

		upgrade("v3")
		reconcile()
		Expect(images()).To(Equal([]string{"registry.example.com/etcd-wrapper:v2"}), "not without a grant")
		etcd := k.EtcdObject().DeepCopy()
		for i := range etcd.Status.Conditions {
			if etcd.Status.Conditions[i].Type == druidv1alpha1.ConditionTypeAllMembersReady {
				etcd.Status.Conditions[i].Status = druidv1alpha1.ConditionFalse
			}
		}
		must(k.Client(nil).Status().Update(ctx, etcd))
		grantAndReconcile()
		Expect(images()).To(Equal([]string{"registry.example.com/etcd-wrapper:v3"}))
		Expect(record()).To(HaveValue(And(HaveField("From", broken.To), HaveField("Healthy", true), HaveField("Canary", false), HaveField("PassedAt", Not(BeZero())))))
	})

	It("releases the slot if the Etcd hibernates, or if its spec names the images", func() {
		for _, change := range []func(*druidv1alpha1.Etcd){
			func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 },
			func(etcd *druidv1alpha1.Etcd) {
				etcd.Spec.Etcd.Image, etcd.Spec.Backup.Image = new("registry.example.com/own:v1"), new("registry.example.com/own:v1")
			},
		} {
			breakCanary()
			Expect(record()).NotTo(BeNil())
			update(change)(k)
			reconcile()
			Expect(record()).To(BeNil())
		}
	})
})
