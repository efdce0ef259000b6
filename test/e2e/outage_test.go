// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

const (
	// outageBefore is how long the store is unavailable before the single member changes. The operator then holds its restart, because the newest
	// snapshot is older than three periods of delta snapshots and a minute.
	outageBefore = 95 * time.Second
	// outageAfter is how long the store is unavailable afterwards. The outage contains a garbage collection of the sidecars, which is due each minute.
	outageAfter = 35 * time.Second
)

var _ = Describe("An outage of the store", func() {
	It("of two minutes under load is reported, affects no member, and loses no revision", SpecPriority(10), framework.NeedsSeed("uses the object store of the seed"), framework.NeedsRestore("restores a snapshot"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "outage")
		objectStore := ns.StartObjectStore(ctx)
		one := fixture.Etcd(fixture.WithName("one"), withObjectStore(objectStore, "OCS", "demo/one"))
		three := fixture.Etcd(fixture.WithName("three"), fixture.WithReplicas(3), withObjectStore(objectStore, "S3", "demo/three"))
		ns.Create(ctx, one, three)
		writeLogs := map[*druidv1alpha1.Etcd]*framework.WriteLog{}
		for _, etcd := range []*druidv1alpha1.Etcd{one, three} {
			ns.EventuallyReady(ctx, etcd)
			writeLogs[etcd] = ns.NewWriteLog(etcd)
			writeLogs[etcd].Write(ctx, 20)
			eventuallyContains(ctx, ns, objectStore, etcd, writeLogs[etcd].Revision)
		}
		before := podStates(ctx, ns)
		Expect(before).To(HaveLen(4))
		// writeAndCheck writes, and expects that every pod is the same, was never restarted, and was always ready.
		writeAndCheck := func(g Gomega) {
			for _, writeLog := range writeLogs {
				writeLog.Write(ctx, 10)
			}
			g.Expect(podStates(ctx, ns)).To(Equal(before))
		}

		objectStore.Stop(ctx)
		By("writing until the newest snapshots are too old for a restart")
		Consistently(writeAndCheck).WithContext(ctx).WithTimeout(outageBefore).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
		for etcd := range writeLogs {
			ns.Eventually(ctx, etcd, func(g Gomega) {
				g.Expect(framework.Condition(etcd, "BackupReady")).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "DeltaSnapshotOverdue"), HaveField("Message", MatchRegexp("A delta snapshot is due every 10s; the newest is of 20"))))
				g.Expect(framework.CheckReady(etcd)).To(Succeed())
			})
		}

		By("changing the single member, which cannot restart without the store, and writing")
		ns.Patch(ctx, one, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Quota = new(resource.MustParse("3Gi")) })
		Consistently(writeAndCheck).WithContext(ctx).WithTimeout(outageAfter).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
		Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(one), one)).To(Succeed())
		Expect(framework.Condition(one, "Reconciled").Message).To(ContainSubstring("the store may be unreachable"))

		By("starting the store, and waiting until it contains all revisions")
		objectStore.Start(ctx)
		for etcd, writeLog := range writeLogs {
			eventuallyContains(ctx, ns, objectStore, etcd, writeLog.Revision)
			ns.Eventually(ctx, etcd, func(g Gomega) {
				g.Expect(framework.Condition(etcd, "BackupReady").Status).To(BeEquivalentTo("True"), framework.Condition(etcd, "BackupReady").Message)
			})
			ns.EventuallyReady(ctx, etcd) // the operator has rolled out the change of the single member
			writeLog.ExpectComplete(ctx)
		}

		By("restoring the single member from the store")
		writeLog := writeLogs[one]
		eventuallyContains(ctx, ns, objectStore, one, writeLog.Revision)
		pod := ns.Pod(ctx, one)
		removeContents(ns.VolumeDir(ctx, one))
		ns.Kill(ctx, pod)
		ns.EventuallyReplaced(ctx, one, pod)
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(20*time.Minute))
})

// podState contains values that change if a pod is replaced, if one of its containers restarts, or if the pod is temporarily
// unready.
type podState struct {
	UID        string
	Restarts   int32
	ReadySince time.Time
}

// podStates returns the states of all members' pods in the namespace by their names.
func podStates(ctx context.Context, ns *framework.TestNamespace) map[string]podState {
	GinkgoHelper()

	pods := &corev1.PodList{}
	Expect(ns.Client.List(ctx, pods, client.InNamespace(ns.Name), client.MatchingLabels{"app.kubernetes.io/component": "etcd-statefulset"})).To(Succeed())

	found := map[string]podState{}

	for _, pod := range pods.Items {
		state := podState{UID: string(pod.UID)}
		for _, status := range pod.Status.ContainerStatuses {
			state.Restarts += status.RestartCount
		}

		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				state.ReadySince = condition.LastTransitionTime.Time
			}
		}

		found[pod.Name] = state
	}

	return found
}

// eventuallyContains waits until the object store contains every revision of the Etcd up to this one. It contains a full
// snapshot, and delta snapshots that follow it without a gap.
func eventuallyContains(ctx context.Context, ns *framework.TestNamespace, store *framework.ObjectStore, etcd *druidv1alpha1.Etcd, revision int64) {
	GinkgoHelper()

	folder := filepath.Join(store.Dir(ctx, "test"), filepath.FromSlash(etcd.Spec.Backup.Store.Prefix))
	Eventually(func(g Gomega) {
		g.Expect(storedRevision(folder)).To(BeNumerically(">=", revision))
	}).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
}

// snapshotName matches the name of a snapshot. The groups are its kind, its first and its last revision.
var snapshotName = regexp.MustCompile(`^(Full|Incr)-(\d+)-(\d+)-\d+`)

// snapshot is a snapshot in a store.
type snapshot struct {
	Name        string
	IsFull      bool
	First, Last int64
}

// listSnapshots returns the snapshots in the directory in the order of their last revisions.
func listSnapshots(folder string) ([]snapshot, error) {
	var found []snapshot

	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // the sidecar has deleted it, or has not created it yet
		}

		match := snapshotName.FindStringSubmatch(filepath.Base(path))
		if err != nil || entry.IsDir() || match == nil {
			return err
		}

		first, _ := strconv.ParseInt(match[2], 10, 64)
		last, _ := strconv.ParseInt(match[3], 10, 64)

		found = append(found, snapshot{Name: filepath.Base(path), IsFull: match[1] == "Full", First: first, Last: last})

		return nil
	})

	slices.SortFunc(found, func(a, b snapshot) int { return cmp.Compare(a.Last, b.Last) })

	return found, err
}

// storedRevision returns the revision up to which the snapshots in the directory contain all revisions, or -1 if there
// is no full snapshot.
func storedRevision(folder string) (int64, error) {
	found, err := listSnapshots(folder)
	stored := int64(-1)

	for _, full := range found {
		if full.IsFull {
			stored = max(stored, full.Last)
		}
	}

	for _, delta := range found {
		if !delta.IsFull && stored >= 0 && delta.First <= stored+1 {
			stored = max(stored, delta.Last)
		}
	}

	return stored, err
}
