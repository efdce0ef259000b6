// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction_test

import (
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
	podsecurityapi "k8s.io/pod-security-admission/api"
	podsecuritypolicy "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/golden"
)

// goldenCase is one shape of an Etcd. The first one is stored in full, and the others as diffs against it.
type goldenCase struct {
	name    string
	options []func(*druidv1alpha1.Etcd)
	level   podsecurityapi.Level
}

func goldenCases() []goldenCase {
	return []goldenCase{
		{"store-s3", []func(*druidv1alpha1.Etcd){fixture.WithStore("S3")}, podsecurityapi.LevelRestricted},
		{"store-s3-ambient", []func(*druidv1alpha1.Etcd){fixture.WithStore("S3"), withoutSecret}, podsecurityapi.LevelRestricted},
		{"store-gcs", []func(*druidv1alpha1.Etcd){fixture.WithStore("gcp")}, podsecurityapi.LevelRestricted},
		{"store-ecs", []func(*druidv1alpha1.Etcd){fixture.WithStore("dell")}, podsecurityapi.LevelRestricted},
		{"store-local", []func(*druidv1alpha1.Etcd){fixture.WithLocalStore()}, ""},
		{"store-local-with-node-affinity", []func(*druidv1alpha1.Etcd){fixture.WithLocalStore(), everySetting}, ""},
		{"run-as-root", []func(*druidv1alpha1.Etcd){fixture.WithStore("S3"), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.RunAsRoot = new(true) }}, podsecurityapi.LevelBaseline},
		{"every-setting", []func(*druidv1alpha1.Etcd){fixture.WithStore("S3"), everySetting}, podsecurityapi.LevelRestricted},
	}
}

func withoutSecret(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store.SecretRef = nil }

// everySetting is an Etcd whose members are placed, labelled and limited in every way.
func everySetting(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Labels = map[string]string{
		"app": "etcd-statefulset", "app.kubernetes.io/component": "something-else",
		"networking.resources.gardener.cloud/to-store-tcp-9000": "allowed",
	}
	etcd.Spec.Annotations = map[string]string{"example.com/team": "storage", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
	etcd.Spec.PriorityClassName = new("gardener-system-500")
	etcd.Spec.SchedulingConstraints = druidv1alpha1.SchedulingConstraints{
		Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
		Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{"etcd"}}},
			}}}},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "etcd-statefulset"}},
			}}},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: corev1.DoNotSchedule}},
	}
	etcd.Spec.Backup.Image = new("example.com/own-etcd-backup-restore:v4")
	etcd.Spec.Backup.EtcdSnapshotTimeout = &metav1.Duration{Duration: 20 * time.Minute}
	etcd.Spec.Backup.SnapshotCompaction = &druidv1alpha1.SnapshotCompactionSpec{Resources: &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("4Gi"), "ephemeral-storage": resource.MustParse("10Gi")},
		Limits:   corev1.ResourceList{"memory": resource.MustParse("8Gi"), "ephemeral-storage": resource.MustParse("20Gi")},
	}}
}

func jobFor(options []func(*druidv1alpha1.Etcd), change ...func(*compaction.Values)) *batchv1.Job {
	GinkgoHelper()
	etcd := fixture.Etcd(options...)
	store, errs := backupstore.FromSpec(*etcd.Spec.Backup.Store, etcd.Namespace, etcd.Name, field.NewPath("spec"))
	Expect(errs).To(BeEmpty())
	values := compaction.Values{Etcd: etcd, Store: store, Node: "n2", Image: "example.com/etcd-backup-restore:v2", Deadline: 3 * time.Hour, Attempt: 1, BaseRevision: "1000"}
	for _, one := range change {
		one(&values)
	}

	return compaction.Job(values)
}

func restoreVerificationFor(options []func(*druidv1alpha1.Etcd)) *batchv1.Job {
	GinkgoHelper()
	etcd := fixture.Etcd(options...)
	store, errs := backupstore.FromSpec(*etcd.Spec.Backup.Store, etcd.Namespace, etcd.Name, field.NewPath("spec"))
	Expect(errs).To(BeEmpty())

	return compaction.RestoreVerificationJob(compaction.Values{Etcd: etcd, Store: store, Node: "n2", Image: "example.com/etcd-backup-restore:v2", HelperImage: "example.com/operator:v1", Deadline: 3 * time.Hour})
}

func inspectionFor(options []func(*druidv1alpha1.Etcd)) *batchv1.Job {
	return compaction.InspectionJob(compaction.Values{
		Etcd: fixture.Etcd(options...), Node: "n2", HelperImage: "example.com/operator:v1", HelperPullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
	}, compaction.InspectedClaim{Name: "test-test-1", UID: "claim-uid", Ordinal: 1})
}

func restoreDrillFor(options []func(*druidv1alpha1.Etcd)) *batchv1.Job {
	GinkgoHelper()
	etcd := fixture.Etcd(options...)
	store, errs := backupstore.FromSpec(*etcd.Spec.Backup.Store, etcd.Namespace, etcd.Name, field.NewPath("spec"))
	Expect(errs).To(BeEmpty())

	return compaction.RestoreDrillJob(compaction.Values{
		Etcd: etcd, Store: store, Node: "n2", Image: "example.com/etcd-backup-restore:v2", HelperImage: "example.com/operator:v1", Deadline: 3 * time.Hour,
	}, compaction.LiveHash{Revision: 4711, CompactRevision: 4000, Hash: 3111287368})
}

func recoveryFor(options []func(*druidv1alpha1.Etcd)) *batchv1.Job {
	return recoveryJobFor(options, compaction.RecoveryData{
		Claim: &compaction.InspectedClaim{Name: "test-test-1", UID: "claim-uid", Ordinal: 1}, MinRevision: 4711, Token: "members-12345678",
	})
}

func storeRecoveryFor(options []func(*druidv1alpha1.Etcd)) *batchv1.Job {
	return recoveryJobFor(options, compaction.RecoveryData{MinRevision: 4711, Bump: 1_000_000_000, Token: "store-12345678"})
}

func recoveryJobFor(options []func(*druidv1alpha1.Etcd), data compaction.RecoveryData) *batchv1.Job {
	GinkgoHelper()
	etcd := fixture.Etcd(options...)
	store, errs := backupstore.FromSpec(*etcd.Spec.Backup.Store, etcd.Namespace, etcd.Name, field.NewPath("spec"))
	Expect(errs).To(BeEmpty())

	return compaction.RecoveryJob(compaction.Values{
		Etcd: etcd, Store: store, Node: "n2", Image: "example.com/etcd-backup-restore:v2", HelperImage: "example.com/operator:v1", Deadline: 3 * time.Hour,
	}, data)
}

func backupInspectionFor(options []func(*druidv1alpha1.Etcd)) *batchv1.Job {
	return inspectionOf(options, compaction.BackupInspection{Point: compaction.BackupPoint{Revision: 4711}, Sets: 2, TimeLimit: 15 * time.Minute})
}

func inspectionOf(options []func(*druidv1alpha1.Etcd), inspection compaction.BackupInspection) *batchv1.Job {
	GinkgoHelper()
	etcd := fixture.Etcd(options...)
	store, errs := backupstore.FromSpec(*etcd.Spec.Backup.Store, etcd.Namespace, etcd.Name, field.NewPath("spec"))
	Expect(errs).To(BeEmpty())

	return compaction.BackupInspectionJob(compaction.Values{
		Etcd: etcd, Store: store, Node: "n2", Image: "example.com/etcd-backup-restore:v2", HelperImage: "example.com/operator:v1", Deadline: 3 * time.Hour,
	}, inspection)
}

func manifest(job *batchv1.Job) string {
	GinkgoHelper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	Expect(err).NotTo(HaveOccurred())
	delete(content, "status")
	document, err := yaml.Marshal(content)
	Expect(err).NotTo(HaveOccurred())

	return string(document)
}

// jobs are the kinds of Jobs, by the folder of their golden files.
var jobs = []struct {
	folder, component string
	render            func([]func(*druidv1alpha1.Etcd)) *batchv1.Job
	cases             []goldenCase
}{
	{"testdata", "etcd-snapshot-compaction-job", func(options []func(*druidv1alpha1.Etcd)) *batchv1.Job { return jobFor(options) }, goldenCases()},
	{"testdata/restore-verification", "etcd-restore-verification-job", restoreVerificationFor, goldenCases()},
	{"testdata/restore-drill", "etcd-restore-drill-job", restoreDrillFor, goldenCases()},
	{"testdata/recovery", "etcd-recovery-job", recoveryFor, goldenCases()},
	{"testdata/recovery-store", "etcd-recovery-job", storeRecoveryFor, goldenCases()},
	{"testdata/backup-inspection", "etcd-backup-inspection-job", backupInspectionFor, goldenCases()},
	{"testdata/backup-inspection-compared", "etcd-backup-inspection-job", func(options []func(*druidv1alpha1.Etcd)) *batchv1.Job {
		return inspectionOf(options, compaction.BackupInspection{
			Point: compaction.BackupPoint{Time: time.Date(2026, 11, 25, 22, 27, 36, 0, time.UTC)}, CompareWith: &compaction.BackupPoint{}, TimeLimit: time.Hour,
		})
	}, goldenCases()[:1]},
	{"testdata/inspection", "etcd-inspection-job", inspectionFor, []goldenCase{
		{"non-root", nil, podsecurityapi.LevelRestricted},
		{"run-as-root", []func(*druidv1alpha1.Etcd){func(etcd *druidv1alpha1.Etcd) { etcd.Spec.RunAsRoot = new(true) }}, podsecurityapi.LevelBaseline},
		{"every-setting", []func(*druidv1alpha1.Etcd){everySetting}, podsecurityapi.LevelRestricted},
	}},
}

// Before any spec, since a diff needs the file of the first case.
var _ = BeforeSuite(func() {
	if !golden.IsUpdate() {
		return
	}
	for _, job := range jobs {
		base := ""
		for _, c := range job.cases {
			Expect(golden.Write(golden.Path(job.folder, c.name), base, manifest(job.render(c.options)))).To(Succeed())
			base = job.cases[0].name
		}
	}
})

var _ = Describe("Jobs", func() {
	for _, job := range jobs {
		for _, c := range job.cases {
			describe(job.folder, job.component, job.render, c)
		}
	}

	for _, job := range jobs {
		It("should pass texts of a spec unchanged to the processes of "+job.folder, func() {
			for _, provider := range []string{"S3", "Local"} {
				podWith := func(text string) corev1.PodSpec {
					return job.render([]func(*druidv1alpha1.Etcd){fixture.WithStore(provider), everySetting, func(etcd *druidv1alpha1.Etcd) {
						fixture.FillTexts(&etcd.Spec, text)
						etcd.Spec.Backup.Store.Provider = new(druidv1alpha1.StorageProvider(provider))
					}}).Spec.Template.Spec
				}
				var expected []string
				for _, text := range fixture.ProcessTexts(podWith(fixture.Plain)) {
					expected = append(expected, strings.ReplaceAll(text, fixture.Plain, fixture.Reference))
				}
				Expect(fixture.ProcessTexts(podWith(fixture.Reference))).To(Equal(expected))
			}
		})
	}

	It("should have no golden file without a case", func() {
		for _, job := range jobs {
			var expected []string
			for _, c := range job.cases {
				expected = append(expected, golden.Path(job.folder, c.name))
			}
			Expect(golden.Paths(job.folder)).To(ConsistOf(expected))
		}
	})

	It("should record the attempt, the task that requested it, and the base snapshot", func() {
		job := jobFor(goldenCases()[0].options, func(v *compaction.Values) { v.Attempt, v.Task = 2, "1234" })
		Expect(job.Annotations).To(Equal(map[string]string{
			"etcd-druid.extensions.gardener.cloud/attempt":       "2",
			"etcd-druid.extensions.gardener.cloud/task":          "1234",
			"etcd-druid.extensions.gardener.cloud/base-revision": "1000",
		}))
	})
})

var _ = Describe("The Job of a restore drill", func() {
	It("should give the credentials of the store only to the container that copies the snapshots", func() {
		pod := restoreDrillFor(goldenCases()[0].options).Spec.Template.Spec
		Expect(pod.InitContainers[0].VolumeMounts).To(ContainElement(HaveField("Name", "source-etcd-backup-secret")))
		for _, container := range append(pod.InitContainers[1:], pod.Containers...) {
			Expect(container.VolumeMounts).NotTo(ContainElement(HaveField("Name", "source-etcd-backup-secret")))
			for _, variable := range container.Env {
				Expect(variable.Name).To(BeElementOf("STORAGE_CONTAINER", "HOME"))
			}
		}
	})

	It("should not call the API server", func() {
		pod := restoreDrillFor(goldenCases()[0].options).Spec.Template
		Expect(pod.Labels).NotTo(HaveKey("networking.gardener.cloud/to-runtime-apiserver"))
		Expect(pod.Spec.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
		Expect(pod.Spec.Volumes).NotTo(ContainElement(HaveField("VolumeSource.Projected", Not(BeNil()))))
	})

	It("should refuse a store from which the sidecar cannot copy", func() {
		store := func(options ...func(*druidv1alpha1.Etcd)) backupstore.Store {
			etcd := fixture.Etcd(options...)
			store, errs := backupstore.FromSpec(*etcd.Spec.Backup.Store, etcd.Namespace, etcd.Name, field.NewPath("spec"))
			Expect(errs).To(BeEmpty())

			return store
		}
		path := field.NewPath("spec", "backup", "store")
		for _, provider := range []string{"S3", "gcp", "dell"} {
			Expect(compaction.DrillErrors(store(fixture.WithStore(provider)), path)).To(BeEmpty())
		}
		Expect(compaction.DrillErrors(store(fixture.WithLocalStore()), path)).To(BeEmpty())
		Expect(compaction.DrillErrors(store(fixture.WithStore("gcp"), withoutSecret), path)).To(ConsistOf(HaveField("Field", "spec.backup.store.secretRef")))
	})
})

var _ = Describe("The Job of a recovery", func() {
	It("should read the volume only, and give the credentials of the store only to the containers of the sidecar", func() {
		for _, pod := range []corev1.PodSpec{recoveryFor(goldenCases()[0].options).Spec.Template.Spec, storeRecoveryFor(goldenCases()[0].options).Spec.Template.Spec} {
			for _, container := range append(pod.InitContainers, pod.Containers...) {
				for _, mount := range container.VolumeMounts {
					if container.Name == "extract" {
						Expect(mount.Name).NotTo(Equal("etcd-backup-secret"))
					}
					Expect(mount.Name != "test" || mount.ReadOnly).To(BeTrue())
				}
			}
		}
	})

	It("should not call the API server", func() {
		pod := recoveryFor(goldenCases()[0].options).Spec.Template
		Expect(pod.Labels).NotTo(HaveKey("networking.gardener.cloud/to-runtime-apiserver"))
		Expect(pod.Spec.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
		Expect(pod.Spec.Volumes).NotTo(ContainElement(HaveField("VolumeSource.Projected", Not(BeNil()))))
	})
})

var _ = Describe("The Job of an inspection of the backup store", func() {
	It("should give the container in which users read neither credentials, a token nor write access", func() {
		job := backupInspectionFor([]func(*druidv1alpha1.Etcd){fixture.WithStore("S3"), everySetting})
		pod := job.Spec.Template
		Expect(pod.Labels).NotTo(HaveKey("networking.gardener.cloud/to-runtime-apiserver"))
		Expect(pod.Spec.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
		Expect(pod.Spec.Volumes).NotTo(ContainElement(HaveField("VolumeSource.Projected", Not(BeNil()))))
		Expect(pod.Spec.Containers).To(ConsistOf(And(
			HaveField("Name", "inspect"), HaveField("Env", BeEmpty()), HaveField("Ports", BeEmpty()), HaveField("VolumeMounts", ConsistOf(HaveField("ReadOnly", true))),
		)))
	})

	It("should end after its preparation and its time limit", func() {
		job := backupInspectionFor(goldenCases()[0].options)
		Expect(job.Spec.Template.Spec.Containers[0].Command).To(Equal([]string{"/etcd-helper", "wait", "--for=15m0s"}))
		Expect(job.Spec.ActiveDeadlineSeconds).To(HaveValue(BeEquivalentTo((3*time.Hour + 15*time.Minute).Seconds())))
	})

	It("should have pods whose names contain that of the Job if the name of the Etcd is as long as possible", func() {
		name := strings.Repeat("x", 52)
		job := compaction.BackupInspectionJob(compaction.Values{Etcd: fixture.Etcd(fixture.WithName(name))}, compaction.BackupInspection{TimeLimit: time.Minute})
		Expect(names.SimpleNameGenerator.GenerateName(job.Name + "-")).To(MatchRegexp("^" + name + "-insp-[a-z0-9]{5}$"))
	})
})

var _ = Describe("The Job that inspects a volume", func() {
	It("should not write to the volume, call the API server or use the network", func() {
		pod := inspectionFor([]func(*druidv1alpha1.Etcd){everySetting}).Spec.Template
		Expect(pod.Labels).NotTo(HaveKey(HavePrefix("networking.")))
		Expect(pod.Spec.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
		Expect(pod.Spec.Volumes).To(HaveLen(1))
		Expect(pod.Spec.Containers).To(ConsistOf(HaveField("VolumeMounts", ConsistOf(HaveField("ReadOnly", true)))))
	})

	It("should mount the volume as the member does", func() {
		etcd := fixture.Etcd()
		values, err := componentetcd.ValuesFor(componentetcd.Input{Etcd: etcd, Replicas: 1, ClusterSize: 1})
		Expect(err).NotTo(HaveOccurred())
		objects, err := componentetcd.Objects(values)
		Expect(err).NotTo(HaveOccurred())
		pod := inspectionFor(nil).Spec.Template.Spec
		checked := false
		for _, object := range objects {
			set, ok := object.(*appsv1.StatefulSet)
			if !ok {
				continue
			}
			checked = true
			member := set.Spec.Template.Spec
			Expect(pod.SecurityContext).To(Equal(member.SecurityContext))
			for _, container := range member.Containers {
				for _, mount := range container.VolumeMounts {
					if mount.Name == pod.Volumes[0].Name {
						Expect(mount.MountPath).To(Equal(pod.Containers[0].VolumeMounts[0].MountPath))
						Expect(mount.SubPath).To(Equal(pod.Containers[0].VolumeMounts[0].SubPath))
					}
				}
			}
		}
		Expect(checked).To(BeTrue())
	})

	It("should run on any node without a node of the member's pod", func() {
		job := compaction.InspectionJob(compaction.Values{Etcd: fixture.Etcd(), HelperImage: "example.com/operator:v1"}, compaction.InspectedClaim{Name: "test-test-0", UID: "uid"})
		Expect(job.Spec.Template.Spec.Affinity).To(BeNil())
		Expect(job.Name).To(Equal("test-0-inspect"))
	})
})

// describe tests the properties of every Job.
func describe(folder, component string, render func([]func(*druidv1alpha1.Etcd)) *batchv1.Job, c goldenCase) {
	Describe(folder+" "+c.name, func() {
		It("should match its golden file", func() {
			expected, err := golden.Read(golden.Path(folder, c.name))
			Expect(err).NotTo(HaveOccurred(), "UPDATE_GOLDEN=1 writes it")
			Expect(manifest(render(c.options))).To(Equal(expected), "UPDATE_GOLDEN=1 updates the file; explain in the commit why the manifest changed")
		})

		It("should mount every volume, and no other", func() {
			pod := render(c.options).Spec.Template.Spec
			volumes, mounted := sets.New[string](), sets.New[string]()
			for _, volume := range pod.Volumes {
				volumes.Insert(volume.Name)
			}
			for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
				paths := sets.New[string]()
				for _, mount := range container.VolumeMounts {
					mounted.Insert(mount.Name)
					paths.Insert(mount.MountPath)
				}
				Expect(paths).To(HaveLen(len(container.VolumeMounts)), "two mounts at the same path")
			}
			Expect(mounted).To(Equal(volumes))
		})

		It("should meet its pod security standard", func() {
			if c.level == "" {
				return // a hostPath volume meets no standard
			}
			evaluator, err := podsecuritypolicy.NewEvaluator(podsecuritypolicy.DefaultChecks(), nil)
			Expect(err).NotTo(HaveOccurred())
			job := render(c.options)
			for _, result := range evaluator.EvaluatePod(podsecurityapi.LevelVersion{Level: c.level, Version: podsecurityapi.LatestVersion()}, &job.Spec.Template.ObjectMeta, &job.Spec.Template.Spec) {
				Expect(result.Allowed).To(BeTrue(), result.ForbiddenDetail)
			}
		})

		It("should not match the selectors for members", func() {
			labels := render(c.options).Spec.Template.Labels
			Expect(labels).To(HaveKeyWithValue("app.kubernetes.io/component", component))
			Expect(labels).NotTo(HaveKey("app"))

			etcd := fixture.Etcd(c.options...)
			values, err := componentetcd.ValuesFor(componentetcd.Input{Etcd: etcd, Replicas: 1, ClusterSize: 1})
			Expect(err).NotTo(HaveOccurred())
			objects, err := componentetcd.Objects(values)
			Expect(err).NotTo(HaveOccurred())
			selectors := 0
			for _, object := range objects {
				switch o := object.(type) {
				case *policyv1.PodDisruptionBudget:
					selectors++
					Expect(k8slabels.SelectorFromSet(o.Spec.Selector.MatchLabels).Matches(k8slabels.Set(labels))).To(BeFalse())
				case *corev1.Service:
					selectors++
					Expect(k8slabels.SelectorFromSet(o.Spec.Selector).Matches(k8slabels.Set(labels))).To(BeFalse())
				}
			}
			Expect(selectors).To(Equal(3), "a budget and two Services")
		})
	})
}
