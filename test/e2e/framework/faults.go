// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Crash ends a container of the pod without a warning, as the kernel does that is out of memory. The kubelet starts it again; where
// it has ended by itself since the pod was read, nothing happens. The processes of the local seed's nodes are those of the machine.
func (ns *TestNamespace) Crash(pod *corev1.Pod, container string) {
	GinkgoHelper()

	var id string

	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			_, id, _ = strings.Cut(status.ContainerID, "://")
		}
	}

	Expect(id).NotTo(BeEmpty(), "container "+container+" of pod "+pod.Name+" does not run")

	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	Expect(err).NotTo(HaveOccurred())

	for _, file := range files {
		content, err := os.ReadFile(file) // it may have ended meanwhile
		if err != nil || !bytes.Contains(content, []byte(id)) {
			continue
		}

		process, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Kill(process, syscall.SIGKILL)).To(Or(Succeed(), MatchError(syscall.ESRCH)))
	}
}

// CrashWithOlderDatabase crashes etcd of the first member, and puts its database back as it was before meanwhile was called. Its log
// has all that was written since, as where the kernel ends etcd before it has written its database.
func (ns *TestNamespace) CrashWithOlderDatabase(ctx context.Context, etcd *druidv1alpha1.Etcd, pod *corev1.Pod, meanwhile func()) {
	GinkgoHelper()

	database := filepath.Join(ns.VolumeDir(ctx, etcd), "new.etcd", "member", "snap", "db")
	older, err := os.ReadFile(database) // #nosec G304 -- a volume of this story
	Expect(err).NotTo(HaveOccurred())

	meanwhile()
	ns.Crash(pod, "etcd")
	Expect(os.WriteFile(database, older, 0o600)).To(Succeed())
}

// ClaimNamed is a volume claim of the story, which must exist.
func (ns *TestNamespace) ClaimNamed(ctx context.Context, name string) *corev1.PersistentVolumeClaim {
	GinkgoHelper()

	claim := &corev1.PersistentVolumeClaim{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: name}, claim)).To(Succeed())

	return claim
}

// Corrupt writes over the database and the log of the member whose volume claim this is.
func (ns *TestNamespace) Corrupt(ctx context.Context, claim string) {
	GinkgoHelper()

	dir, found := ns.volumePath(ctx, ns.ClaimNamed(ctx, claim)), 0
	Expect(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Base(path) != "db" && filepath.Ext(path) != ".wal" {
			return err
		}

		found++

		return os.WriteFile(path, []byte("this is no database"), 0o600)
	})).To(Succeed())
	Expect(found).To(BeNumerically(">=", 2), "no database below "+dir)
}

// DeleteVolume takes the volume of a claim away, as somebody does who deletes the disk. Its folder stays until the end of the spec.
func (ns *TestNamespace) DeleteVolume(ctx context.Context, claim string) {
	GinkgoHelper()

	volume := &corev1.PersistentVolume{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Name: ns.ClaimNamed(ctx, claim).Spec.VolumeName}, volume)).To(Succeed())
	DeferCleanup(os.RemoveAll, volume.Spec.HostPath.Path)
	Expect(client.IgnoreNotFound(ns.Client.Delete(ctx, volume))).To(Succeed())
	Eventually(func() error { // those who protect volumes in use put their finalizer back
		if err := ns.Client.Get(ctx, client.ObjectKeyFromObject(volume), volume); err != nil {
			return client.IgnoreNotFound(err)
		}

		before := volume.DeepCopy()
		volume.Finalizers = nil

		return client.IgnoreNotFound(ns.Client.Patch(ctx, volume, client.MergeFrom(before)))
	}).WithContext(ctx).WithTimeout(ReconcileTimeout).WithPolling(PollInterval / 5).Should(Succeed())
	Eventually(ns.IsGone).WithContext(ctx).WithArguments(volume).WithTimeout(ReconcileTimeout).WithPolling(PollInterval / 5).Should(BeTrue())
}
