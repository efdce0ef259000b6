// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Crash kills the processes of a container with SIGKILL, like the out-of-memory killer of the kernel. The kubelet restarts the
// container. Crash does nothing if the container has already ended. All containers of the seed are processes of this machine.
func (ns *TestNamespace) Crash(pod *corev1.Pod, container string) {
	GinkgoHelper()
	requireSeed()

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
		content, err := os.ReadFile(file) // #nosec G304 -- a file of /proc; the process may have ended since
		if err != nil || !bytes.Contains(content, []byte(id)) {
			continue
		}

		process, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Kill(process, syscall.SIGKILL)).To(Or(Succeed(), MatchError(syscall.ESRCH)))
	}
}

// CrashWithOlderDatabase crashes etcd of the first member and replaces its database with a copy from before the call of
// meanwhile. The write-ahead log contains all later writes. This simulates a crash of etcd before it commits to its database.
func (ns *TestNamespace) CrashWithOlderDatabase(ctx context.Context, etcd *druidv1alpha1.Etcd, pod *corev1.Pod, meanwhile func()) {
	GinkgoHelper()

	database := databaseIn(ns.VolumeDir(ctx, etcd))
	older, err := os.ReadFile(database) // #nosec G304 -- a volume of this test
	Expect(err).NotTo(HaveOccurred())

	meanwhile()
	ns.Crash(pod, "etcd")
	Expect(os.WriteFile(database, older, 0o600)).To(Succeed()) // #nosec G703 -- a volume of this test
}

// ClaimNamed returns a PersistentVolumeClaim in the namespace, which must exist.
func (ns *TestNamespace) ClaimNamed(ctx context.Context, name string) *corev1.PersistentVolumeClaim {
	GinkgoHelper()

	claim := &corev1.PersistentVolumeClaim{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: name}, claim)).To(Succeed())

	return claim
}

// Corrupt overwrites the database and the write-ahead log on the volume of the claim.
func (ns *TestNamespace) Corrupt(ctx context.Context, claim string) {
	GinkgoHelper()

	dir, found := ns.volumePath(ctx, ns.ClaimNamed(ctx, claim)), 0
	Expect(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Base(path) != "db" && filepath.Ext(path) != ".wal" {
			return err
		}

		found++

		return os.WriteFile(path, []byte("this is no database"), 0o600) // #nosec G122 -- a volume of this test
	})).To(Succeed())
	Expect(found).To(BeNumerically(">=", 2), "no database below "+dir)
}

// ChangeValue crashes etcd in a pod and replaces its database with a copy in which bbolt has changed the value of a key. All characters of the value
// become the digit of the pod. It waits until etcd has committed the key to its database. No client may write meanwhile. This simulates a defect of a
// disk.
func (ns *TestNamespace) ChangeValue(ctx context.Context, pod *corev1.Pod, claim, key string) {
	GinkgoHelper()

	path := databaseIn(ns.volumePath(ctx, ns.ClaimNamed(ctx, claim)))
	changed, digit := filepath.Join(GinkgoT().TempDir(), "db"), pod.Name[len(pod.Name)-1:]
	Eventually(func() error {
		copyFile(path, changed)

		return withDatabase(changed, func(tx *bbolt.Tx) error {
			revision, record, err := recordOf(tx, key)
			if err != nil {
				return err
			}

			record.Value = bytes.Repeat([]byte(digit), len(record.Value))

			content, err := record.Marshal()
			if err != nil {
				return err
			}

			return tx.Bucket([]byte("key")).Put(revision, content)
		})
	}).WithContext(ctx).WithTimeout(requestTimeout).WithPolling(PollInterval).Should(Succeed(), ns.State)

	ns.Crash(pod, "etcd")
	copyFile(changed, path)
}

// ValueOn returns the value of a key in the database on a volume that no etcd uses.
func (*TestNamespace) ValueOn(volume *corev1.PersistentVolume, key string) string {
	GinkgoHelper()
	requireSeed()

	value := ""

	Expect(withDatabase(databaseIn(volume.Spec.HostPath.Path), func(tx *bbolt.Tx) error {
		_, record, err := recordOf(tx, key)
		if err == nil {
			value = string(record.Value)
		}

		return err
	})).To(Succeed())

	return value
}

// databaseIn is the path of the database in the directory of a volume.
func databaseIn(dir string) string { return filepath.Join(dir, "new.etcd", "member", "snap", "db") }

// copyFile replaces the content of a file, whose owner stays.
func copyFile(from, to string) {
	GinkgoHelper()

	content, err := os.ReadFile(from) // #nosec G304 -- a file of this test
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(to, content, 0o600)).To(Succeed()) // #nosec G703 -- a file of this test
}

// withDatabase calls use with a transaction in a database, which no etcd may use.
func withDatabase(path string, use func(*bbolt.Tx) error) error {
	database, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: requestTimeout})
	if err != nil {
		return err
	}
	defer database.Close()

	return database.Update(use)
}

// recordOf returns the first record of a key in a database, and its revision.
func recordOf(tx *bbolt.Tx, key string) ([]byte, *mvccpb.KeyValue, error) {
	cursor := tx.Bucket([]byte("key")).Cursor()
	for revision, content := cursor.First(); revision != nil; revision, content = cursor.Next() {
		record := &mvccpb.KeyValue{}
		if err := record.Unmarshal(content); err != nil {
			return nil, nil, err
		}
		if string(record.Key) == key {
			return bytes.Clone(revision), record, nil
		}
	}

	return nil, nil, errors.New("the database has no key " + key)
}

// DeleteVolume deletes the PersistentVolume of the claim. This simulates a deleted disk. The cleanup removes its directory.
func (ns *TestNamespace) DeleteVolume(ctx context.Context, claim string) {
	GinkgoHelper()
	requireSeed()

	volume := &corev1.PersistentVolume{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Name: ns.ClaimNamed(ctx, claim).Spec.VolumeName}, volume)).To(Succeed())
	DeferCleanup(os.RemoveAll, volume.Spec.HostPath.Path)
	Expect(client.IgnoreNotFound(ns.Client.Delete(ctx, volume))).To(Succeed())
	Eventually(func() error { // retry, because the protection of volumes in use adds its finalizer again
		if err := ns.Client.Get(ctx, client.ObjectKeyFromObject(volume), volume); err != nil {
			return client.IgnoreNotFound(err)
		}

		before := volume.DeepCopy()
		volume.Finalizers = nil

		return client.IgnoreNotFound(ns.Client.Patch(ctx, volume, client.MergeFrom(before)))
	}).WithContext(ctx).WithTimeout(ReconcileTimeout).WithPolling(PollInterval / 5).Should(Succeed())
	Eventually(ns.IsGone).WithContext(ctx).WithArguments(volume).WithTimeout(ReconcileTimeout).WithPolling(PollInterval / 5).Should(BeTrue())
}
