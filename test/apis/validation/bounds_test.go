// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
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

	It("has the bounds of the CustomResourceDefinition and of its description", func() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		for _, content := range crds.All() {
			if strings.Contains(content, "name: etcds.druid") {
				Expect(yaml.UnmarshalStrict([]byte(content), crd)).To(Succeed())
			}
		}
		for _, bound := range validation.Bounds {
			schema := *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
			for _, name := range strings.Split(bound.Path, ".") {
				schema = schema.Properties[name]
			}
			Expect(schema.Description).To(And(ContainSubstring(bound.Least), ContainSubstring(bound.Most)), bound.Path)
			Expect(limitsOf(schema)).To(Equal([]string{bound.Least, bound.Most}), bound.Path)
		}
	})
})

// limitsOf are the least and the most value that a schema accepts. Empty: there is no such limit.
func limitsOf(schema apiextensionsv1.JSONSchemaProps) []string {
	number := func(value *float64) string {
		if value == nil {
			return ""
		}

		return strconv.FormatFloat(*value, 'f', -1, 64)
	}
	limits := []string{number(schema.Minimum), number(schema.Maximum)}
	if schema.MaxLength != nil {
		limits[1] = strconv.FormatInt(*schema.MaxLength, 10)
	}
	for _, rule := range schema.XValidations {
		for _, match := range regexp.MustCompile(`([<>])= duration\('(.+?)'\)`).FindAllStringSubmatch(rule.Rule, -1) {
			limits[strings.Index("><", match[1])] = match[2]
		}
		for _, match := range regexp.MustCompile(`compareTo\(quantity\('(.+?)'\)\) ([<>])= 0`).FindAllStringSubmatch(rule.Rule, -1) {
			limits[strings.Index("><", match[2])] = match[1]
		}
	}

	return limits
}
