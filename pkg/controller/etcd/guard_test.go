// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/writeguard"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// conflictingClient answers each update of a ManagedResource with a conflict while conflicts is true.
type conflictingClient struct {
	client.Client
	conflicts bool
	updates   int
}

func (c *conflictingClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if _, is := obj.(*resourcesv1alpha1.ManagedResource); is {
		c.updates++
		if c.conflicts {
			return apierrors.NewConflict(resourcesv1alpha1.Resource("managedresources"), obj.GetName(), errors.New("changed"))
		}
	}
	return c.Client.Update(ctx, obj, opts...)
}

// inventingObserver adds to each observation what a hostile member may report.
type inventingObserver struct {
	etcd.Observer
	observations int
}

func (o *inventingObserver) Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request observer.Request) etcdcluster.Observation {
	observation := o.Observer.Observe(ctx, etcd, request)
	o.observations++
	text := strconv.Itoa(o.observations)
	for i := range o.observations % 12 {
		observation.Etcd.MemberList = append(observation.Etcd.MemberList, etcdcluster.ListedMember{ID: uint64(i), Name: "main-" + strconv.Itoa(i)}) // #nosec G115 -- 0 to 11
	}
	if o.observations%5 > 2 {
		observation.Etcd.Alarms = append(observation.Etcd.Alarms, etcdcluster.Alarm{MemberID: 1, Type: etcdcluster.AlarmNoSpace})
	}
	for i := range observation.Etcd.Members {
		member, bits := &observation.Etcd.Members[i], o.observations>>(3*i)
		member.Reachable, member.Healthy, member.Learner = bits&1 > 0, bits&2 > 0, bits&4 > 0
	}
	observation.Etcd.MemberList = append(observation.Etcd.MemberList, etcdcluster.ListedMember{ID: 1, Name: "main-" + text + "00", PeerURLs: []string{"http://" + text}})
	observation.Etcd.Alarms = append(observation.Etcd.Alarms, etcdcluster.Alarm{MemberID: 1, Type: etcdcluster.AlarmType(text)})

	return observation
}

var _ = Describe("An Etcd whose reconciliations have no effect", func() {
	const backoffs = "etcd_druid_reconcile_backoffs_total"
	var (
		ctx   = context.Background()
		k     *kube.Cluster
		drive *operator
	)

	loopErrors := func() []string {
		var found []string
		for _, lastError := range k.EtcdObject().Status.LastErrors {
			if lastError.Code == "ERR_RECONCILE_LOOP" {
				found = append(found, lastError.Description)
			}
		}
		return found
	}
	loopEvents := func() []string {
		var found []string
		for _, event := range drive.events {
			if strings.HasPrefix(event, "ReconcileLoop") {
				found = append(found, event)
			}
		}
		return found
	}
	// spin lets the operator reconcile for a time whenever a reconciliation is due. It calls before ahead of each one.
	spin := func(duration time.Duration, before func()) {
		GinkgoHelper()
		end := k.Clock.Now().Add(duration)
		for i := 0; ; i++ {
			Expect(i).To(BeNumerically("<", 10000), "reconciliations")
			if drive.due.IsZero() || drive.due.After(end) {
				k.Clock.SetTime(end)
				return
			}
			if drive.due.After(k.Clock.Now()) {
				k.Clock.SetTime(drive.due)
			}
			before()
			drive.reconcileOnce()
		}
	}
	nothing := func() {}

	BeforeEach(func() {
		k = reconciledCluster(1)
		drive = startOperator(k, nil)
		drive.run()
	})

	Describe("because each write ends in a conflict", func() {
		var conflicting *conflictingClient

		BeforeEach(func() {
			conflicting = &conflictingClient{Client: k.Client(nil), conflicts: true}
			drive.reconciler.Client = writeguard.CountWrites(conflicting)
			update(relabel)(k)
			drive.due = k.Clock.Now()
		})

		It("is reconciled less and less often, and says so", func() {
			before := measured(backoffs, "etcd")["main "]
			spin(5*time.Second, nothing)
			Expect(conflicting.updates).To(Equal(26), "every 200ms")
			Expect(loopErrors()).To(BeEmpty())

			spin(55*time.Second, nothing)
			Expect(conflicting.updates).To(Equal(31+2), "the 31st at 6s, then after 10s and 20s")
			Expect(loopErrors()).To(ConsistOf(And(ContainSubstring("more than 30 reconciliations within a minute"), ContainSubstring("update ManagedResource druid-main (conflict)"))))
			version := k.EtcdObject().ResourceVersion

			spin(29*time.Minute, nothing)
			Expect(conflicting.updates).To(BeNumerically("~", 33+3+5, 1), "at last every 5 minutes")
			Expect(loopErrors()).To(HaveLen(1))
			Expect(k.EtcdObject().ResourceVersion).To(Equal(version), "the status is written once")
			Expect(loopEvents()).To(HaveLen(1))
			Expect(measured(backoffs, "etcd")["main "] - before).To(Equal(conflicting.updates - 30))

			By("continuing by itself when the conflicts end")
			conflicting.conflicts = false
			drive.run()
			Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
			Expect(k.EtcdObject().Status.LastErrors).To(BeEmpty())
		})

		It("is reconciled at once when its spec changes", func() {
			spin(5*time.Minute, nothing)
			Expect(loopErrors()).To(HaveLen(1))
			updates := conflicting.updates
			drive.reconcileOnce()
			Expect(conflicting.updates).To(Equal(updates), "it is held back")
			Expect(drive.due).To(BeTemporally(">", k.Clock.Now().Add(10*time.Second)))

			update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["role"] = "another" })(k)
			drive.reconcileOnce()
			Expect(conflicting.updates).To(Equal(updates + 1))
			Expect(drive.due).To(BeTemporally("<", k.Clock.Now().Add(time.Second)))
		})

		It("is reconciled less and less often, although members report another state, other names, URLs and alarms each time", func() {
			drive.reconciler.Observer = &inventingObserver{Observer: drive.reconciler.Observer}
			spin(5*time.Minute, nothing)
			Expect(conflicting.updates).To(BeNumerically("<=", 24+31+6), "all states of the members appear within 24 observations, and are new only once")
			Expect(loopErrors()).To(HaveLen(1))
		})

		It("is reconciled at once when its cluster changes", func() {
			spin(5*time.Minute, nothing)
			updates := conflicting.updates
			must(k.Client(nil).Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main-0"}}))
			drive.reconcileOnce()
			Expect(conflicting.updates).To(BeNumerically(">", updates))
		})
	})

	Describe("because another writer undoes them", func() {
		const label = "app.kubernetes.io/name"
		lease := func() *coordinationv1.Lease {
			found := &coordinationv1.Lease{}
			must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main-0"}, found))
			return found
		}
		undo := func() {
			changed := lease()
			delete(changed.Labels, label)
			must(k.Client(nil).Update(ctx, changed))
			drive.due = k.Clock.Now()
		}
		// fight lets the other writer undo what the operator did twice a second. It returns how often the operator wrote.
		fight := func(duration time.Duration) (written int) {
			for end := k.Clock.Now().Add(duration); k.Clock.Now().Before(end); k.Clock.Step(500 * time.Millisecond) {
				undo()
				drive.reconcileOnce()
				if lease().Labels[label] != "" {
					written++
				}
			}
			return written
		}

		It("is reconciled less and less often, and says so until they stop", func() {
			Expect(fight(5 * time.Minute)).To(BeNumerically("<=", 31+5))
			Expect(loopErrors()).To(ConsistOf(ContainSubstring("patch Lease main-0")))
			Expect(loopEvents()).To(HaveLen(1))
			Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")), "what was done stays done")

			By("reporting the end within some minutes")
			drive.reconcileOnce()
			for range 3 {
				spin(drive.due.Sub(k.Clock.Now())+time.Second, nothing)
			}
			Expect(k.EtcdObject().Status.LastErrors).To(BeEmpty())
			k.Violations = nil
			drive.run()
			Expect(k.Violations).To(BeEmpty())
		})
	})

	DescribeTable("is not slowed down while it is only polled", func(prepare func(*kube.Cluster)) {
		prepare(k)
		drive.due = k.Clock.Now()
		for range 60 {
			drive.reconcileOnce()
			k.Tick()
		}
		version := k.State()
		for range 300 {
			drive.reconcileOnce()
			Expect(drive.due.IsZero() || drive.due.Sub(k.Clock.Now()) >= time.Second).To(BeTrue())
			k.Clock.Step(100 * time.Millisecond)
		}
		Expect(k.State()).To(Equal(version), "nothing was written")
		Expect(loopErrors()).To(BeEmpty())
		Expect(loopEvents()).To(BeEmpty())
	},
		Entry("and nothing is to be done", func(*kube.Cluster) {}),
		Entry("and waits for a pod", func(k *kube.Cluster) {
			k.BreakImage("registry.example.com/etcd-wrapper:broken")
			update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Image = new("registry.example.com/etcd-wrapper:broken") })(k)
		}),
	)
})

var _ = Describe("Healthy Etcds", func() {
	DescribeTable("stay below the limit of the guard", func(before []func(*kube.Cluster), when func(*kube.Cluster), mostInMinute int) {
		k := kube.New(scheme)
		for _, happens := range before {
			happens(k)
			startOperator(k, nil).run()
		}
		var (
			drive *operator
			acted = map[int]time.Time{}
		)
		drive = startOperator(k, func(write kube.Write) {
			if write.Done {
				acted[drive.reconciliations] = k.Clock.Now()
			}
		})
		when(k)
		drive.run()

		most := 0
		for _, from := range acted {
			count := 0
			for _, at := range acted {
				if !at.Before(from) && at.Sub(from) < writeguard.Window {
					count++
				}
			}
			most = max(most, count)
		}
		AddReportEntry("reconciliations that write", fmt.Sprintf("%d of %d, at most %d a minute", len(acted), drive.reconciliations, most))
		Expect(most).To(And(BeNumerically(">", 0), BeNumerically("<=", mostInMinute)))
		Expect(k.Violations).To(BeEmpty())
	},
		Entry("while one member is created", nil, create(1, withStore), 30),
		Entry("while three members are created", nil, create(3), 30),
		Entry("while seven members are created", nil, create(7), 30),
		Entry("while one member becomes three", []func(*kube.Cluster){create(1)}, update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 }), 30),
		Entry("while three members are replaced", []func(*kube.Cluster){create(3)}, update(relabel), 30),
		Entry("while the CAs of three members are rotated", []func(*kube.Cluster){create(3)}, update(func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/rotate-ca", "start")
		}), 30),
		Entry("while three members are deleted", []func(*kube.Cluster){create(3, deletingAll)}, deleteEtcd, 30),
	)
})
