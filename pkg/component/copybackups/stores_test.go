// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/copybackups"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// reach is the access of a container to a store: its variables with their values, and its mounts.
type reach map[string]string

// with merges both.
func (r reach) with(other reach) reach {
	all := reach{}
	for _, one := range []reach{r, other} {
		for key, value := range one {
			all[key] = value
		}
	}

	return all
}

// sourceSide is the same access for the source of a copy.
func (r reach) sourceSide() reach {
	other := reach{}
	for key, value := range r {
		switch {
		case strings.HasPrefix(key, "ECS_"): // one set for both sides
		case key == "/home/nonroot/bucket":
			key, value = "/home/nonroot/old", "/etc/gardener/local-backupbuckets/old"
		case strings.HasPrefix(key, "/var/.gcp"):
			key, value = "/var/.source-gcp", "secret source-secret"
		case strings.HasPrefix(key, "/var/etcd-backup"):
			key, value = "/var/source-etcd-backup", "secret source-secret"
		default:
			key, value = "SOURCE_"+key, strings.NewReplacer("/var/etcd-backup", "/var/source-etcd-backup", "/var/.gcp", "/var/.source-gcp").Replace(value)
		}
		other[key] = value
	}

	return other
}

// reachOf returns the access of a container of a pod.
func reachOf(pod corev1.PodSpec, container string) reach {
	GinkgoHelper()

	found := reach{}
	for _, c := range pod.Containers {
		if c.Name != container {
			continue
		}
		for _, variable := range c.Env {
			switch {
			case variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil:
				found[variable.Name] = variable.ValueFrom.SecretKeyRef.Name + "/" + variable.ValueFrom.SecretKeyRef.Key
			case strings.HasSuffix(variable.Name, "_CREDENTIALS"):
				found[variable.Name] = variable.Value
			}
		}
		for _, mount := range c.VolumeMounts {
			for _, volume := range pod.Volumes {
				switch {
				case volume.Name != mount.Name:
				case volume.Secret != nil && strings.HasSuffix(volume.Secret.SecretName, "secret"):
					found[mount.MountPath] = "secret " + volume.Secret.SecretName
				case volume.HostPath != nil:
					found[mount.MountPath] = volume.HostPath.Path
				}
			}
		}
	}

	return found
}

var _ = DescribeTable("The sidecar, the Job that compacts and the Job that copies reach the store alike,",
	func(provider string, with, without reach) {
		for _, secret := range []string{"secret", ""} {
			expected := with
			spec := druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider(provider)), Container: new("bucket"), Prefix: "prefix"}
			source := *spec.DeepCopy()
			source.Container = new("old")
			if secret != "" {
				spec.SecretRef, source.SecretRef = &corev1.SecretReference{Name: "secret"}, &corev1.SecretReference{Name: "source-secret"}
			} else {
				expected = without
			}
			target, errs := backupstore.FromSpec(spec, "demo", "main", field.NewPath("spec"))
			if expected == nil {
				Expect(errs.ToAggregate()).To(MatchError(ContainSubstring("spec.secretRef: Required value")), "for all of them it is refused")

				continue
			}
			Expect(errs).To(BeEmpty())
			if strings.HasPrefix(firstKey(expected), "ECS_") {
				source.SecretRef.Name = "secret"
			}
			from, errs := backupstore.FromSpec(source, "demo", "main", field.NewPath("spec"))
			Expect(errs).To(BeEmpty())

			Expect(reachOf(sidecarPod(target), "backup-restore")).To(Equal(expected), "the sidecar")
			job := compaction.Job(compaction.Values{Etcd: fixture.Etcd(), Store: target, Image: "example.com/etcd-backup-restore:v2", Deadline: time.Hour, Attempt: 1})
			Expect(reachOf(job.Spec.Template.Spec, "compact-backup")).To(Equal(expected), "the Job that compacts")
			if errs := (backupstore.Copy{Source: from, Target: target}).Validate(field.NewPath("source"), field.NewPath("target")); len(errs) > 0 {
				Expect(provider+secret).To(Equal("GCS"), "only GCS cannot be copied from without a Secret: %s", errs.ToAggregate())

				continue
			}
			copied := copybackups.Job(copybackups.Values{Task: task(), Source: from, Target: target, Image: "example.com/etcd-backup-restore:v2"})
			Expect(reachOf(copied.Spec.Template.Spec, "copy-backups")).To(Equal(expected.with(expected.sourceSide())), "the Job that copies")
		}
	},
	Entry("S3", "S3", reach{"AWS_APPLICATION_CREDENTIALS": "/var/etcd-backup", "/var/etcd-backup": "secret secret"}, reach{}),
	Entry("ABS", "ABS", reach{"AZURE_APPLICATION_CREDENTIALS": "/var/etcd-backup", "/var/etcd-backup": "secret secret"}, nil),
	Entry("GCS", "GCS", reach{"GOOGLE_APPLICATION_CREDENTIALS": "/var/.gcp/serviceaccount.json", "/var/.gcp": "secret secret"}, reach{}),
	Entry("Swift", "Swift", reach{"OPENSTACK_APPLICATION_CREDENTIALS": "/var/etcd-backup", "/var/etcd-backup": "secret secret"}, nil),
	Entry("OSS", "OSS", reach{"ALICLOUD_APPLICATION_CREDENTIALS": "/var/etcd-backup", "/var/etcd-backup": "secret secret"}, nil),
	Entry("OCS", "OCS", reach{"OPENSHIFT_APPLICATION_CREDENTIALS": "/var/etcd-backup", "/var/etcd-backup": "secret secret"}, nil),
	Entry("ECS", "ECS", reach{"ECS_ENDPOINT": "secret/endpoint", "ECS_ACCESS_KEY_ID": "secret/accessKeyID", "ECS_SECRET_ACCESS_KEY": "secret/secretAccessKey"}, nil),
	Entry("Local", "Local", reach{"/home/nonroot/bucket": "/etc/gardener/local-backupbuckets/bucket"}, reach{"/home/nonroot/bucket": "/etc/gardener/local-backupbuckets/bucket"}),
)

func firstKey(r reach) string {
	for key := range r {
		return key
	}

	return ""
}

// sidecarPod is the pod of a member with the store.
func sidecarPod(store backupstore.Store) corev1.PodSpec {
	GinkgoHelper()

	obj := fixture.Etcd(fixture.WithStore(string(store.Provider)))
	values, err := etcd.ValuesFor(etcd.Input{
		Etcd: obj, Replicas: 1, ClusterSize: 1, Store: &store,
		Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {EtcdWrapper: "example.com/etcd-wrapper:v1", BackupRestore: "example.com/etcd-backup-restore:v2", Init: "example.com/init:v3"}}},
	})
	Expect(err).NotTo(HaveOccurred())
	objects, err := etcd.Objects(values)
	Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		if statefulSet, is := object.(*appsv1.StatefulSet); is {
			return statefulSet.Spec.Template.Spec
		}
	}
	Fail("there is no StatefulSet")

	return corev1.PodSpec{}
}
