// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// The test installs versions of the operator. Therefore no other test may run at the same time.
var _ = Describe("An upgrade of the operator", Serial, Label("long"), framework.NeedsSeed("builds and installs two versions of the operator"), func() {
	It("and a rollback replace no pod, keep Etcds ready, and lose no write", func(ctx SpecContext) {
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		earlier, current := framework.VersionOf(ctx, framework.EarlierCommit(ctx), filepath.Join("testdata", "upgrade-values.yaml")), framework.CurrentVersion()
		DeferCleanup(func(ctx SpecContext) { operator.Install(ctx, current) })

		By("creating Etcds with the earlier version")
		operator.Install(ctx, earlier)
		u := newUpgraded(ctx, operator)

		By("upgrading")
		u.change(ctx, "upgrade", func() { operator.Install(ctx, current) })
		u.expectReady(ctx)

		By("changing the specs, with the current version")
		u.rollOut(ctx, "change after the upgrade", "extensive")

		By("rolling back, with the CustomResourceDefinitions of the earlier version")
		u.change(ctx, "rollback", func() { operator.Install(ctx, earlier) })
		Expect(u.surge.Spec.Etcd.UpdateStrategy).To(HaveValue(Equal(druidv1alpha1.UpdateStrategySurge)), "both versions know the field")

		By("changing the specs, with the earlier version")
		u.rollOut(ctx, "change after the rollback", "basic")

		By("upgrading again")
		u.change(ctx, "second upgrade", func() { operator.Install(ctx, current) })
		u.expectReady(ctx)
		u.rollOut(ctx, "change after the second upgrade", "extensive")

		By("rolling back, with the CustomResourceDefinitions of the current version")
		u.change(ctx, "rollback without CustomResourceDefinitions", func() { operator.Install(ctx, earlier.WithoutCRDs()) })
		Expect(u.surge.Spec.Etcd.UpdateStrategy).To(HaveValue(Equal(druidv1alpha1.UpdateStrategySurge)), "the same field")

		By("upgrading for the last time")
		u.change(ctx, "third upgrade", func() { operator.Install(ctx, current) })
		u.expectReady(ctx)

		for _, phase := range u.workload.Stop(ctx) {
			if u.changes[phase.Phase] {
				Expect(phase.Failed).To(BeZero(), phase.String())
			}
		}
	}, SpecTimeout(4*specTimeout))
})

// upgraded are the Etcds of the test, with clients of the one with three members.
type upgraded struct {
	operator *framework.Operator
	ns       *framework.TestNamespace
	etcds    []*druidv1alpha1.Etcd
	// surge is the Etcd with a field that etcd-druid does not have.
	surge    *druidv1alpha1.Etcd
	workload *framework.Workload
	// changes are the phases of the workload in which only the version of the operator changes.
	changes map[string]bool
}

func newUpgraded(ctx context.Context, operator *framework.Operator) *upgraded {
	GinkgoHelper()
	u := &upgraded{operator: operator, ns: seed.NewNamespace(ctx, "upgrade"), changes: map[string]bool{}}
	withTLS := func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(true) }
	main := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withLocalStore(u.ns), withTLS)
	u.surge = fixture.Etcd(fixture.WithName("surge"), withLocalStore(u.ns), withTLS)
	u.etcds = []*druidv1alpha1.Etcd{main, fixture.Etcd(fixture.WithName("single"), withLocalStore(u.ns)), u.surge}
	for _, etcd := range u.etcds {
		u.ns.Create(ctx, etcd)
	}
	for _, etcd := range u.etcds {
		u.ns.EventuallyReady(ctx, etcd)
	}
	u.workload = u.ns.StartWorkload(ctx, main, "before the upgrade")

	return u
}

// change changes the version of the operator. It expects that no pod is replaced, and that the operator has nothing to write at the end.
func (u *upgraded) change(ctx context.Context, phase string, install func()) {
	GinkgoHelper()
	u.changes[phase] = true
	pods := u.pods(ctx)
	u.workload.StartPhase(phase)
	install()
	u.eventuallyIdle(ctx)
	Expect(u.pods(ctx)).To(Equal(pods), "the UIDs of the pods")
}

// expectReady expects that gardenlet considers the Etcds as healthy, and that the operator has logged no error about them.
func (u *upgraded) expectReady(ctx context.Context) {
	GinkgoHelper()
	for _, etcd := range u.etcds {
		Expect(u.ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Status.Ready).To(HaveValue(BeTrue()), etcd.Name)
	}
	Expect(u.operator.ErrorLog(ctx, u.ns.Name)).To(BeEmpty())
}

// rollOut changes the specs, and expects that the installed version replaces all pods.
func (u *upgraded) rollOut(ctx context.Context, phase string, level druidv1alpha1.MetricsLevel) {
	GinkgoHelper()
	u.workload.StartPhase(phase)
	before := u.pods(ctx)
	for _, etcd := range u.etcds {
		u.ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.Metrics = &level
			if etcd.Name == u.surge.Name {
				withSurge(etcd)
			}
		})
	}
	Eventually(func(g Gomega) {
		after := u.pods(ctx)
		for name := range before {
			g.Expect(after[name]).NotTo(BeElementOf(types.UID(""), before[name]), name)
		}
	}).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), u.ns.State)
	for _, etcd := range u.etcds {
		u.ns.EventuallyReady(ctx, etcd)
	}
}

// idleFor is how long the operator writes nothing before it is considered idle. A new leader reconciles all Etcds within seconds.
const idleFor = 30 * time.Second

// eventuallyIdle waits until all Etcds are healthy, and the operator has written nothing to the namespace for a time.
func (u *upgraded) eventuallyIdle(ctx context.Context) {
	GinkgoHelper()
	user, window := u.operator.User(ctx), seed.OpenAuditWindow()
	since, last := time.Now(), 0
	Eventually(func(g Gomega) {
		writes, err := window.Writes(user)
		g.Expect(err).NotTo(HaveOccurred())
		writes = slices.DeleteFunc(writes, func(write framework.Write) bool { return write.Namespace != u.ns.Name })
		problem := u.checkHealthy(ctx)
		if problem != nil || len(writes) != last {
			since, last = time.Now(), len(writes)
		}
		g.Expect(problem).NotTo(HaveOccurred())
		g.Expect(time.Since(since)).To(BeNumerically(">", idleFor), func() string { return fmt.Sprintf("since the last of these writes: %v", writes) })
	}).WithContext(ctx).WithTimeout(2*framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), u.ns.State)
}

// checkHealthy returns an error if members are not healthy, or if the operator reports a problem.
func (u *upgraded) checkHealthy(ctx context.Context) error {
	for _, etcd := range u.etcds {
		if err := u.ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd); err != nil {
			return err
		}
		if errors := etcd.Status.LastErrors; len(errors) > 0 {
			return fmt.Errorf("status.lastErrors of %s has %s: %s", etcd.Name, errors[0].Code, errors[0].Description)
		}
		for _, conditionType := range []druidv1alpha1.ConditionType{"Ready", "AllMembersReady", "BackupReady"} {
			if condition := framework.Condition(etcd, conditionType); condition.Status != druidv1alpha1.ConditionTrue {
				return fmt.Errorf("condition %s of %s is %q: %s", conditionType, etcd.Name, condition.Status, condition.Message)
			}
		}
	}

	return nil
}

// pods returns the UIDs of the pods by their names.
func (u *upgraded) pods(ctx context.Context) map[string]types.UID {
	GinkgoHelper()
	uids := map[string]types.UID{}
	for name, pod := range podsByName(ctx, u.ns) {
		uids[name] = pod.UID
	}

	return uids
}
