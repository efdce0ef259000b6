// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/randomspec"
	"github.com/gardener/gardener-extension-etcd-druid/test/schemagen"
)

var _ = Describe("ValidateBounds", func() {
	quota := func(quantity string) override {
		return func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.Quota = new(resource.MustParse(quantity)) }
	}
	defragmentation := func(schedule string) override {
		return func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.DefragmentationSchedule = &schedule }
	}
	election := func(period time.Duration) override {
		return func(e *druidv1alpha1.Etcd) {
			e.Spec.Backup.LeaderElection = &druidv1alpha1.LeaderElectionSpec{ReelectionPeriod: duration(period)}
		}
	}

	DescribeTable("accepts", func(options ...override) {
		Expect(validation.ValidateBounds(fixture.Etcd(options...), nil)).To(BeEmpty())
	},
		Entry("a minimal Etcd"),
		Entry("a store and TLS everywhere", fixture.WithStore("S3"), fixture.WithTLS()),
		Entry("the least quota", quota("16Mi")),
		Entry("the most quota", quota("128Gi")),
		Entry("no delta snapshots", func(e *druidv1alpha1.Etcd) { e.Spec.Backup.DeltaSnapshotPeriod = duration(0) }),
		Entry("a schedule in leap years", schedule("0 0 29 2 *")),
		Entry("a schedule that cannot be read, which ValidateEtcd refuses", schedule("daily")),
	)

	DescribeTable("refuses, and names the field", func(path, remedy string, options ...override) {
		errs, warnings := validation.ValidateBounds(fixture.Etcd(options...), nil)
		Expect(errs).To(HaveLen(1))
		Expect(errs[0].Field).To(Equal(path))
		Expect(errs[0].Error()).To(ContainSubstring(remedy))
		Expect(warnings).To(BeEmpty())

		errs, warnings = validation.ValidateBounds(fixture.Etcd(options...), &fixture.Etcd(options...).Spec)
		Expect(errs).To(BeEmpty(), "the cluster runs with it")
		Expect(warnings).To(HaveLen(1))

		errs, _ = validation.ValidateBounds(fixture.Etcd(options...), &fixture.Etcd().Spec)
		Expect(errs).To(HaveLen(1), "the change")
	},
		Entry("milli instead of mebi", "spec.etcd.quota", "must be at least 16Mi; m is milli", quota("512m")),
		Entry("a negative quota", "spec.etcd.quota", "must be at least 16Mi", quota("-8Gi")),
		Entry("a quota that etcd cannot serve", "spec.etcd.quota", "must be at most 128Gi", quota("1Ti")),
		Entry("a volume of one byte", "spec.storageCapacity", "m is milli", func(e *druidv1alpha1.Etcd) { e.Spec.StorageCapacity = new(resource.MustParse("16m")) }),
		Entry("a delta snapshot for each write", "spec.backup.deltaSnapshotMemoryLimit", "m is milli",
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.DeltaSnapshotMemoryLimit = new(resource.MustParse("100m")) }),
		Entry("a count", "spec.etcd.snapshotCount", "at least 100", func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.SnapshotCount = new(int64(0)) }),
		Entry("a duration", "spec.etcd.heartbeatDuration", "at least 1s", func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.HeartbeatDuration = duration(0) }),
		Entry("a period of election that the sidecar refuses", "spec.backup.leaderElection.reelectionPeriod", "at least 1001ms", election(time.Second)),
		Entry("a long text", "spec.backup.store.prefix", "512", fixture.WithStore("S3"), func(e *druidv1alpha1.Etcd) { e.Spec.Backup.Store.Prefix = strings.Repeat("p", 513) }),
		Entry("a schedule on a day that February does not have", "spec.backup.fullSnapshotSchedule", "set a day that one of them has", schedule("0 0 30 2 *")),
		Entry("a schedule on a day that none of its months has", "spec.backup.fullSnapshotSchedule", "no next time", schedule("0 0 31 2,4,6 *")),
		Entry("a schedule of defragmentation without a next time", "spec.etcd.defragmentationSchedule", "no next time", defragmentation("0 0 30 2 *")),
	)

	It("refuses a change from one value out of bounds to another", func() {
		image := func(length int) override {
			return func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.Image = new(strings.Repeat("i", length)) }
		}
		errs, warnings := validation.ValidateBounds(fixture.Etcd(image(1025)), &fixture.Etcd(image(1026)).Spec)
		Expect(errs).To(HaveLen(1))
		Expect(warnings).To(BeEmpty())
	})

	It("refuses a text out of bounds that is new, also if an unset text is empty", func() {
		entry := func(e *druidv1alpha1.Etcd) {
			e.Spec.Backup.Store.BackupEntryRef = &druidv1alpha1.BackupEntryReference{}
		}
		errs, _ := validation.ValidateBounds(fixture.Etcd(fixture.WithStore("S3"), entry), &fixture.Etcd(fixture.WithStore("S3")).Spec)
		Expect(errs).To(ConsistOf(HaveField("Field", "spec.backup.store.backupEntryRef.name")))
	})
})

var _ = Describe("The bounds of a kind", func() {
	// The refusals of an operator whose CustomResourceDefinition accepts everything.
	var (
		ofEtcd = func(content []byte) field.ErrorList {
			etcd := fixture.Etcd(fixture.WithName("test"))
			Expect(json.Unmarshal(content, etcd)).To(Succeed())
			canonical, errs := helper.Canonical(etcd)
			outside, _ := validation.ValidateBounds(canonical, nil)

			return slices.Concat(errs, outside, validation.ValidateEtcd(canonical), validation.ValidateSize(canonical, 0))
		}
		// decode returns the field whose type has no such value.
		decode = func(content []byte, object any) field.ErrorList {
			wrong := (*json.UnmarshalTypeError)(nil)
			if err := json.Unmarshal(content, object); errors.As(err, &wrong) {
				return field.ErrorList{field.Invalid(field.NewPath(wrong.Field), wrong.Value, err.Error())}
			} else if err != nil {
				Fail(err.Error())
			}

			return nil
		}
		ofCopy = func(content []byte) field.ErrorList {
			task := &druidv1alpha1.EtcdCopyBackupsTask{}
			if errs := decode(content, task); errs != nil {
				return errs
			}

			return validation.ValidateCopyBackupsTask(task)
		}
		ofTask = func(content []byte) field.ErrorList {
			task := &druidv1alpha1.EtcdOpsTask{}
			if errs := decode(content, task); errs != nil {
				return errs
			}
			errs := validation.ValidateOpsTask(task)
			if task.Spec.Config.BackupInspection == nil {
				return errs
			}
			_, problem := opstask.InspectionOf(task)
			Expect(problem).NotTo(BeNil())
			path, message, _ := strings.Cut(problem.Message, ": ")

			return append(errs, field.Invalid(field.NewPath(path), "", message))
		}
	)

	DescribeTable("are those of its CustomResourceDefinition", func(kind randomspec.Kind, refusals func(content []byte) field.ErrorList, least int) {
		schema, err := kind.Schema()
		Expect(err).NotTo(HaveOccurred())
		limits := 0
		for _, point := range schemagen.PointsOf("spec", schema) {
			at := schemagen.FieldOf(&schemagen.Schema{Properties: map[string]schemagen.Schema{"spec": *schema}}, point.Path)
			value, has := schemagen.Beyond(at, point.Value)
			if !has || at.Type == "array" && point.Value == schemagen.Least { // each CustomResourceDefinition with these lists requires an item
				continue
			}
			limits++
			content, err := json.Marshal(objectWith(point.Path, value))
			Expect(err).NotTo(HaveOccurred())
			var fields []string
			for _, err := range refusals(content) {
				fields = append(fields, regexp.MustCompile(`\[\d+\]`).ReplaceAllString(err.Field, "[]"))
			}
			if strings.Contains(at.Description, "Deprecated: use") {
				Expect(fields).NotTo(BeEmpty(), "%s of %s", point.Value, point.Path) // the current field is named
			} else {
				Expect(fields).To(ContainElement(point.Path), "%s of %s", point.Value, point.Path)
			}
		}
		Expect(limits).To(BeNumerically(">=", least))
	},
		Entry("Etcd", randomspec.Etcd, ofEtcd, 70),
		Entry("EtcdCopyBackupsTask", randomspec.CopyBackupsTask, ofCopy, 15),
		Entry("EtcdOpsTask", randomspec.OpsTask, ofTask, 10),
	)

	It("are in its CustomResourceDefinition and in the description there", func() {
		expectDescribed(randomspec.Etcd, validation.Bounds)
		expectDescribed(randomspec.CopyBackupsTask, validation.CopyBackupsTaskBounds)
		expectDescribed(randomspec.OpsTask, validation.OpsTaskBounds)
	})

	It("include the name of a task for a copy, from which the name of the Job is derived", func() {
		task := &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("n", 56)}}
		Expect(validation.ValidateCopyBackupsTask(task)).To(BeEmpty())
		task.Name += "n"
		Expect(validation.ValidateCopyBackupsTask(task)).To(ConsistOf(And(HaveField("Field", "metadata.name"), MatchError(ContainSubstring("may not be more than 56")))))
	})

	It("include the labels of the pods of a task for a copy", func() {
		task := &druidv1alpha1.EtcdCopyBackupsTask{}
		task.Spec.PodLabels = map[string]string{"example.com/allowed": "-"}
		Expect(validation.ValidateCopyBackupsTask(task)).To(ConsistOf(And(HaveField("Field", "spec.podLabels"), MatchError(ContainSubstring("a valid label must")))))
	})
})

func expectDescribed[Spec any](kind randomspec.Kind, bounds []validation.Bound[Spec]) {
	GinkgoHelper()
	schema, err := kind.Schema()
	Expect(err).NotTo(HaveOccurred())
	for _, bound := range bounds {
		at := schemagen.FieldOf(&schemagen.Schema{Properties: map[string]schemagen.Schema{"spec": *schema}}, bound.Path)
		Expect(at).NotTo(BeNil(), bound.Path)
		least, most := schemagen.LimitsOf(at)
		Expect([]string{least, most}).To(Equal([]string{bound.Least, bound.Most}), bound.Path)
		Expect(at.Description).To(And(ContainSubstring(bound.Least), ContainSubstring(bound.Most)), bound.Path)
	}
}

// objectWith returns an object with a value at a path. Lists on the way have one item.
func objectWith(path string, value any) any {
	name, rest, hasRest := strings.Cut(path, ".")
	if hasRest {
		value = objectWith(rest, value)
	}
	if list, isList := strings.CutSuffix(name, "[]"); isList {
		name, value = list, []any{value}
	}

	return map[string]any{name: value}
}
