// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("A single member whose peer URLs are updated before it restarts", func() {
	It("requeues within two seconds, because no watch reports a changed peer URL", func() {
		k := kube.New(scheme)
		create(1, plaintext)(k)
		startOperator(k, nil).run()
		updated := false
		drive := startOperator(k, func(write kube.Write) {
			updated = updated || write.Done && strings.HasPrefix(write.What, "update the peer URLs ")
		})
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas, etcd.Spec.Etcd.EnableTLS = 3, new(true) })(k)
		for reconciliations := 0; !updated; reconciliations++ {
			Expect(reconciliations).To(BeNumerically("<", 30))
			drive.reconcileOnce()
			if !updated {
				k.Tick()
			}
		}
		Expect(drive.due).To(BeTemporally("<=", k.Clock.Now().Add(2*time.Second)))
	})
})

var _ = Describe("A promoted member", func() {
	// promote returns the holder of the learner's Lease after the reconciliation that follows its promotion, if its sidecar has written holder before.
	promote := func(holder *string) (written, promoted string) {
		GinkgoHelper()
		k := kube.New(scheme)
		drive := startOperator(k, func(write kube.Write) {
			if id, is := strings.CutPrefix(write.What, "promote "); is && write.Done {
				promoted = strings.TrimLeft(id, "0")
			}
		})
		create(3)(k)
		for passes := 0; promoted == ""; passes++ {
			Expect(passes).To(BeNumerically("<", 100))
			k.Tick()
			drive.reconcileOnce()
		}
		lease := &coordinationv1.Lease{}
		Expect(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: "demo", Name: "main-1"}, lease)).To(Succeed())
		lease.Spec.HolderIdentity = holder
		Expect(k.Client(nil).Update(context.Background(), lease)).To(Succeed())
		drive.reconcileOnce()
		Expect(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: "demo", Name: "main-1"}, lease)).To(Succeed())

		return ptr.Deref(lease.Spec.HolderIdentity, ""), promoted
	}

	It("is recorded in its Lease before its sidecar does that", func() {
		written, promoted := promote(nil)
		Expect(written).To(Equal(promoted + ":Member"))
	})

	It("is recorded by its sidecar alone if that was faster", func() {
		written, _ := promote(new("a004:b:Leader"))
		Expect(written).To(Equal("a004:b:Leader"))
	})
})

var _ = Describe("Steps of multi-member clusters", func() {
	var (
		ctx   = context.Background()
		k     *kube.Cluster
		acts  []string
		drive *operator
		// meanwhile is done just before the first act whose description contains the key.
		meanwhile map[string]func()
	)

	// An operator whose acts on pods, claims and leaders are written down.
	watched := func(write kube.Write) {
		isAct := strings.Contains(write.What, " Pod ") || strings.Contains(write.What, " PersistentVolumeClaim ") || strings.HasPrefix(write.What, "move ")
		if !isAct {
			return
		}
		if !write.Done {
			for part, do := range meanwhile {
				if strings.Contains(write.What, part) {
					delete(meanwhile, part)
					do()
				}
			}
			return
		}
		if write.Err != nil {
			write.What += ": refused"
		}
		acts = append(acts, write.What)
	}
	get := func(obj client.Object, name string) {
		GinkgoHelper()
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: name}, obj)).To(Succeed())
	}
	uidOf := func(obj client.Object, name string) string {
		GinkgoHelper()
		get(obj, name)
		return string(obj.GetUID())
	}
	idOf := func(name string) string {
		for _, member := range k.EtcdCluster().Members() {
			if member.Name == name {
				return fmt.Sprintf("%x", member.ID)
			}
		}
		return "none"
	}
	progress := func() string {
		for _, condition := range k.EtcdObject().Status.Conditions {
			if condition.Type == "Reconciled" {
				return condition.Message
			}
		}
		return ""
	}
	// until advances the operator and the cluster until the condition holds.
	until := func(is func() bool) {
		GinkgoHelper()
		for range 500 {
			if is() {
				return
			}
			drive.reconcileOnce()
			k.Tick()
		}
		Fail("it never came to that: " + progress())
	}

	BeforeEach(func() {
		k, acts, meanwhile = kube.New(scheme), nil, map[string]func(){}
		create(3, plaintext)(k)
		startOperator(k, nil).run()
		succeeded(3, 4)(k)
		drive = startOperator(k, watched)
	})

	It("evict the followers, move the leader to one that was replaced, and evict it last", func() {
		Expect(fmt.Sprintf("%x", k.EtcdCluster().Leader())).To(Equal(idOf("main-1")), "the restart of the first member has moved the leader")
		update(relabel)(k)
		drive.run()
		Expect(acts).To(HaveExactElements("evict Pod main-0", "evict Pod main-2", "move the leader to "+idOf("main-0"), "evict Pod main-1"))
		Expect(drive.events).To(ContainElement(And(ContainSubstring("MovedLeader"), ContainSubstring("main-1"), ContainSubstring(idOf("main-0")))))
	})

	It("wait while members are defragmented", func() {
		task := &druidv1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shrink"}}
		task.Spec.EtcdName = new("main")
		task.Spec.Config.Defragmentation = &druidv1alpha1.DefragmentationConfig{}
		Expect(k.Client(nil).Create(ctx, task)).To(Succeed())
		task.Status.State, task.Status.LastOperation = new(druidv1alpha1.TaskStateInProgress), &druidv1alpha1.LastOperation{Description: opstask.AttemptMessage(1, 3)}
		Expect(k.Client(nil).Status().Update(ctx, task)).To(Succeed())
		update(relabel)(k)
		until(func() bool { return strings.Contains(progress(), "Waiting for EtcdOpsTask shrink to end") })
		drive.run()
		Expect(acts).To(BeEmpty())

		Expect(k.Client(nil).Delete(ctx, task)).To(Succeed())
		drive.run()
		Expect(acts).To(HaveLen(4))
		succeeded(3, 7)(k)
	})

	It("remove no member if the data of any member differs, and continue when it is the same", func() {
		last := k.EtcdCluster().Members()[2].ID // it leaves
		k.EtcdCluster().SetHash(last, 7)
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 1 })(k)
		drive.run()
		Expect(k.EtcdCluster().Members()).To(HaveLen(3))
		Expect(progress()).To(ContainSubstring("have different data at revision"))

		k.EtcdCluster().SetHash(last, 0)
		drive.due = k.Clock.Now()
		drive.run()
		Expect(k.EtcdCluster().Members()).To(HaveLen(1))
		Expect(k.Violations).To(BeEmpty())
	})

	It("report a removal that etcd refuses, and remove the member when its quorum is safe", func() {
		isSafe := false
		drive = startOperator(k, func(write kube.Write) {
			if !strings.HasPrefix(write.What, "remove ") || write.Done || isSafe {
				return
			}
			k.EtcdCluster().Stop(k.EtcdCluster().Members()[1].ID)
		})
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 1 })(k)
		until(func() bool { return len(k.EtcdObject().Status.LastErrors) > 0 })
		Expect(k.EtcdObject().Status.LastErrors).To(ConsistOf(HaveField("Code", BeEquivalentTo("ERR_QUORUM_UNSAFE_MEMBER_REMOVAL"))))
		Expect(k.EtcdObject().Status.LastOperation.State).To(BeEquivalentTo("Error"))
		Expect(k.EtcdCluster().Members()).To(HaveLen(3))

		isSafe = true
		drive.run()
		Expect(k.EtcdCluster().Members()).To(HaveLen(1))
		Expect(k.EtcdObject().Status.LastErrors).To(BeEmpty())
		Expect(drive.events).To(ContainElement(HavePrefix("DeletingVolumes: Deleting PersistentVolumeClaim main-main-2")))
	})

	It("wait for a defragmentation that no task reports yet", func() {
		locks := calls.NewClusterLocks(k.Clock)
		drive.reconciler.Locks = locks
		uid := k.EtcdObject().UID
		Expect(locks.TryLock(uid, "opstask")).To(BeTrue())
		update(relabel)(k)
		until(func() bool {
			return strings.Contains(progress(), "Waiting for the end of a defragmentation")
		})
		Expect(acts).To(BeEmpty())

		locks.Unlock(uid, 0)
		until(func() bool { return len(acts) > 0 })
		Expect(locks.TryLock(uid, "opstask")).To(BeFalse(), "it has to see first what was done")
		drive.run()
		succeeded(3, 7)(k)
	})

	It("wait for an eviction that the API server refuses, and take nothing by force", func() {
		// The operator repairs its own budget: this one is a user's.
		demand := func(ready int) {
			own := &policyv1.PodDisruptionBudget{}
			get(own, "main")
			budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: own.Namespace, Name: "other"}, Spec: *own.Spec.DeepCopy()}
			budget.Spec.MinAvailable = new(intstr.FromInt(ready))
			err := k.Client(nil).Create(ctx, budget)
			if apierrors.IsAlreadyExists(err) {
				err = k.Client(nil).Update(ctx, budget)
			}
			Expect(err).NotTo(HaveOccurred())
		}
		update(relabel)(k)
		meanwhile["evict"] = func() { demand(3) }
		until(func() bool { return len(acts) == 3 })
		Expect(acts).To(HaveEach("evict Pod main-0: refused"))
		Expect(drive.err).NotTo(HaveOccurred(), "a refusal is no failure")
		Expect(progress()).To(And(ContainSubstring("Waiting for the eviction of pod main-0 to be allowed"), ContainSubstring("3 of 3 healthy")))
		Expect(k.EtcdObject().Status.LastErrors).To(BeEmpty())

		demand(2)
		drive.run()
		succeeded(3, 7)(k)
	})

	It("leave a pod alone that another client has replaced meanwhile", func() {
		before := uidOf(&corev1.Pod{}, "main-0")
		update(relabel)(k)
		meanwhile["evict Pod main-0"] = func() {
			Expect(k.Client(nil).Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main-0"}})).To(Succeed())
			for pod := (&corev1.Pod{}); pod.UID == "" || string(pod.UID) == before; {
				k.Tick()
				must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main-0"}, pod))
			}
		}
		drive.run()
		Expect(acts[0]).To(Equal("evict Pod main-0: refused"))
		Expect(acts[1:]).NotTo(ContainElement(ContainSubstring("evict Pod main-0")), "the new pod is of the newest template already")
		succeeded(3, 7)(k)
	})

	It("do not evict a leader that does not transfer its leadership", func() {
		update(relabel)(k)
		until(func() bool { return slices.Contains(acts, "evict Pod main-2") })
		meanwhile["move"] = func() {
			// Another one leads by now.
			leader, err := k.Connector(nil).Connect(ctx, targetOf(k, "main-1"))
			Expect(err).NotTo(HaveOccurred())
			for _, member := range k.EtcdCluster().Members() {
				if member.Name == "main-2" {
					Expect(leader.MoveLeader(ctx, member.ID)).To(Succeed())
				}
			}
		}
		until(func() bool { return strings.HasSuffix(acts[len(acts)-1], ": refused") })
		Expect(acts[len(acts)-1]).To(HavePrefix("move the leader to "))
		Expect(progress()).To(ContainSubstring("Waiting for the member in pod main-1 to transfer its leadership"))
		Expect(acts).NotTo(ContainElement("evict Pod main-1"))

		drive.run()
		succeeded(3, 7)(k)
	})

	It("replace the claim of a member whose node is gone, and its pod after that", func() {
		keptClaims := []string{uidOf(&corev1.PersistentVolumeClaim{}, "main-main-0"), uidOf(&corev1.PersistentVolumeClaim{}, "main-main-2")}
		lost := uidOf(&corev1.PersistentVolumeClaim{}, "main-main-1")
		k.RemoveNode("n2")
		drive.run()
		Expect(acts[0]).To(Equal("delete PersistentVolumeClaim main-main-1"))
		Expect(acts[1:]).NotTo(ContainElement(ContainSubstring("PersistentVolumeClaim")))
		Expect(uidOf(&corev1.PersistentVolumeClaim{}, "main-main-1")).NotTo(Equal(lost))
		Expect([]string{uidOf(&corev1.PersistentVolumeClaim{}, "main-main-0"), uidOf(&corev1.PersistentVolumeClaim{}, "main-main-2")}).To(Equal(keptClaims))
		Expect(drive.events).To(ContainElement(And(HavePrefix("ReplacingVolume"), ContainSubstring("node n2 alone, which is gone"))))
		succeeded(3, 5)(k)
	})

	DescribeTable("replace the claim of a member whose node is gone although the spec is not rolled out, since",
		func(change func(*druidv1alpha1.Etcd), why string) {
			update(change)(k)
			drive.run()
			Expect(progress()).To(ContainSubstring(why))
			k.RemoveNode("n2")
			drive.run()
			Expect(acts).To(HaveExactElements("delete PersistentVolumeClaim main-main-1"))
			Expect(k.Violations).To(BeEmpty())
			Expect(k.EtcdCluster().Members()).To(HaveLen(3))
			Expect(k.EtcdCluster().Members()).To(HaveEach(HaveField("Learner", false)))
			Expect(progress()).To(ContainSubstring(why), "the reason is still reported")
		},
		Entry("the planner refuses it", func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageCapacity = new(resource.MustParse("1Gi")) }, "spec.storageCapacity"),
		Entry("validation refuses it", func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 4 }, "spec.replicas"),
		Entry("its Secrets do not exist", func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.EnableTLS = new(true)
			etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{
				TLSCASecretRef:     druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: "missing-ca"}},
				ServerTLSSecretRef: corev1.SecretReference{Name: "missing-server"},
				ClientTLSSecretRef: corev1.SecretReference{Name: "missing-client"},
			}
		}, "missing-ca"),
		Entry("its store is not known", func(etcd *druidv1alpha1.Etcd) {
			etcd.Annotations = map[string]string{"druid.gardener.cloud/skip-final-snapshot": ""}
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "x", BackupEntryRef: &druidv1alpha1.BackupEntryReference{Name: "missing-entry"}}
		}, "missing-entry"),
	)

	It("replace a lost volume although a quota rejects larger volumes, and resize them when it has room", func() {
		k = kube.New(scheme)
		create(3, plaintext, withExpandableVolumes)(k)
		startOperator(k, nil).run()
		drive = startOperator(k, watched)
		full := &quota{Client: drive.reconciler.Client, full: true}
		drive.reconciler.Client, drive.observer.DryRun = full, full
		update(resizeVolumes)(k)
		until(func() bool { return strings.Contains(progress(), "no room") })
		k.RemoveNode("n2")
		until(func() bool { return slices.Contains(acts, "delete PersistentVolumeClaim main-main-1") })
		Expect(progress()).To(ContainSubstring("spec.storageCapacity: the API server refuses to expand the volume of claim main-main-0"))
		Expect(drive.due).NotTo(BeZero(), "it is tried again")

		full.full = false
		drive.run()
		Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
	})

	It("replace pods and add members although a quota rejects larger volumes, and resize them when it has room", func() {
		k = kube.New(scheme)
		create(3, withExpandableVolumes)(k)
		startOperator(k, nil).run()
		drive = startOperator(k, watched)
		full := &quota{Client: drive.reconciler.Client, full: true}
		drive.reconciler.Client, drive.observer.DryRun = full, full
		update(func(etcd *druidv1alpha1.Etcd) {
			resizeVolumes(etcd)
			relabel(etcd)
			etcd.Spec.Replicas = 5
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/rotate-ca", "start")
		})(k)
		begun := k.Clock.Now()
		drive.run()
		Expect(k.Violations).To(BeEmpty())
		Expect(k.EtcdCluster().Members()).To(And(HaveLen(5), HaveEach(HaveField("Learner", false))))
		pod := &corev1.Pod{}
		for _, name := range []string{"main-0", "main-1", "main-2", "main-3", "main-4"} {
			get(pod, name)
			Expect(pod.Labels).To(HaveKeyWithValue("role", "other"))
		}
		mr := &resourcesv1alpha1.ManagedResource{}
		get(mr, "druid-main")
		Expect(fixture.Record(mr).Rotation).To(HaveField("Stage", state.StagePrepared))
		const refusal = "spec.storageCapacity: the API server refuses to expand the volume of claim main-main-0 from 16Gi to 32Gi"
		Expect(progress()).To(HavePrefix(refusal))
		Expect(k.EtcdObject().Status.LastErrors).To(ConsistOf(HaveField("Description", HavePrefix(refusal))))
		Expect(k.EtcdObject().Status.ObservedGeneration).To(HaveValue(BeEquivalentTo(1)), "it is not rolled out")
		Expect(full.refused).To(BeNumerically("<=", 5*(2+int(k.Clock.Since(begun).Minutes()))), "each is requested once a minute")
		Expect(drive.due.Sub(k.Clock.Now())).To(BeNumerically("<=", time.Minute), "it is tried again")

		full.full = false
		drive.run()
		Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")), progress())
		Expect(k.EtcdObject().Status.ObservedGeneration).To(HaveValue(BeEquivalentTo(2)))
	})

	It("leave a claim alone that another client has replaced meanwhile", func() {
		var replaced string
		meanwhile["PersistentVolumeClaim"] = func() {
			claim := &corev1.PersistentVolumeClaim{}
			get(claim, "main-main-1")
			before := string(claim.UID)
			Expect(k.Client(nil).Delete(ctx, claim)).To(Succeed())
			Expect(client.IgnoreNotFound(k.Client(nil).Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main-1"}}))).To(Succeed())
			for replaced = before; replaced == before; {
				k.Tick()
				if k.Client(nil).Get(ctx, client.ObjectKeyFromObject(claim), claim) == nil {
					replaced = string(claim.UID)
				}
			}
		}
		k.RemoveNode("n2")
		drive.run()
		Expect(acts).To(ContainElement("delete PersistentVolumeClaim main-main-1: refused"))
		Expect(uidOf(&corev1.PersistentVolumeClaim{}, "main-main-1")).To(Equal(replaced))
		Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
	})

	It("scale a cluster up by one member at a time, each a voter before the next starts", func() {
		var sizes []string
		k = kube.New(scheme)
		drive = startOperator(k, func(write kube.Write) {
			if !write.Done || !strings.HasSuffix(write.What, " ManagedResource druid-main") {
				return
			}
			mr := &resourcesv1alpha1.ManagedResource{}
			get(mr, "druid-main")
			voters := 0
			for _, member := range k.EtcdCluster().Members() {
				if !member.Learner {
					voters++
				}
			}
			sizes = append(sizes, fmt.Sprintf("%s pods of %s with %d voters",
				recordedAs(mr, "replicas"), recordedAs(mr, "size"), voters))
		})
		create(3, plaintext)(k)
		drive.run()
		Expect(slices.Compact(sizes)).To(HaveExactElements("1 pods of 1 with 0 voters", "2 pods of 3 with 1 voters", "3 pods of 3 with 2 voters"))
		Expect(eventsOf(drive, "AddingMember")).To(HaveExactElements(HavePrefix("AddingMember: Starting member 2 of 3"), HavePrefix("AddingMember: Starting member 3 of 3")))
	})

	It("report each member that joins once, also with a store", func() {
		k = kube.New(scheme)
		drive = startOperator(k, nil)
		create(3, withStore)(k)
		drive.run()
		Expect(eventsOf(drive, "AddingMember")).To(HaveExactElements(HavePrefix("AddingMember: Starting member 2 of 3"), HavePrefix("AddingMember: Starting member 3 of 3")))
	})
})

// quota refuses that claims change, while it is full.
type quota struct {
	client.Client

	full bool
	// refused counts what was refused.
	refused int
}

func (q *quota) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if _, isClaim := obj.(*corev1.PersistentVolumeClaim); isClaim && q.full {
		q.refused++
		return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), obj.GetName(), errors.New("no room"))
	}
	return q.Client.Patch(ctx, obj, patch, opts...)
}

// targetOf is the address of the member in a pod.
func targetOf(k *kube.Cluster, podName string) etcdclient.Target {
	pod := &corev1.Pod{}
	must(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: "demo", Name: podName}, pod))
	return etcdclient.Target{Address: pod.Status.PodIP + ":2379"}
}

// eventsOf returns the events with a reason.
func eventsOf(o *operator, reason string) []string {
	return slices.DeleteFunc(slices.Clone(o.events), func(event string) bool { return !strings.HasPrefix(event, reason+": ") })
}
