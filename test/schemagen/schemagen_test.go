// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package schemagen_test

import (
	"fmt"
	"math/rand"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/test/schemagen"
)

const schemaYAML = `
type: object
required: [count]
properties:
  count: {type: integer, minimum: 1, maximum: 5}
  mode: {type: string, enum: [A, B]}
  enabled: {type: boolean}
  text: {type: string}
  name: {type: string, maxLength: 8, pattern: '^[a-z]+$'}
  size:
    x-kubernetes-int-or-string: true
    x-kubernetes-validations: [{rule: "quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0"}]
  period:
    type: string
    pattern: '^([0-9]+(ns|us|µs|ms|s|m|h))+$'
    x-kubernetes-validations: [{rule: "duration(self) <= duration('24h')"}]
  labels: {type: object, additionalProperties: {type: string}}
  items:
    type: array
    minItems: 1
    maxItems: 3
    items: {type: object, properties: {key: {type: string}}}
`

var _ = Describe("A schema", func() {
	var (
		schema  = &schemagen.Schema{}
		formats []schemagen.Format
	)

	BeforeEach(func() {
		Expect(yaml.UnmarshalStrict([]byte(schemaYAML), schema)).To(Succeed())
		formats = []schemagen.Format{{Path: ".name", Text: func(_ *rand.Rand, length int) string { return "abcdefgh"[:max(length, 1)] }}}
	})

	It("has a point for each field, limit and value", func() {
		var points []string
		for _, point := range schemagen.PointsOf("spec", schema) {
			points = append(points, point.Path+"="+point.Value)
		}
		Expect(points).To(Equal([]string{
			"spec=present",
			"spec.count=present", "spec.count=least", "spec.count=most",
			"spec.enabled=absent", "spec.enabled=present", "spec.enabled=true", "spec.enabled=false",
			"spec.items=absent", "spec.items=present", "spec.items=least", "spec.items=most",
			"spec.items[]=present", "spec.items[]=zero", "spec.items[].key=absent", "spec.items[].key=present", "spec.items[].key=zero",
			"spec.labels=absent", "spec.labels=present", "spec.labels=zero", "spec.labels{}=present", "spec.labels{}=zero",
			"spec.mode=absent", "spec.mode=present", "spec.mode=A", "spec.mode=B",
			"spec.name=absent", "spec.name=present", "spec.name=most",
			"spec.period=absent", "spec.period=present", "spec.period=most",
			"spec.size=absent", "spec.size=present", "spec.size=least", "spec.size=most",
			"spec.text=absent", "spec.text=present", "spec.text=zero",
		}))
	})

	It("has values that reach each point", func() {
		generator := &schemagen.Generator{Random: rand.New(rand.NewSource(1)), Formats: formats, Frequency: 0.2}
		for _, point := range schemagen.PointsOf("spec", schema) {
			value, err := generator.Value("spec", schema, []schemagen.Point{point})
			Expect(err).NotTo(HaveOccurred())
			Expect(schemagen.Reached("spec", schema, value)).To(HaveKey(point), "%v", value)
		}
	})

	It("needs a format for a pattern that is not known", func() {
		generator := &schemagen.Generator{Random: rand.New(rand.NewSource(1))}
		_, err := generator.Value("spec", schema, []schemagen.Point{{Path: "spec.name", Value: schemagen.Present}})
		Expect(err).To(MatchError(ContainSubstring("spec.name has the pattern ^[a-z]+$: add a format")))
	})

	DescribeTable("has values beyond its limits", func(path, side string, expected any) {
		value, has := schemagen.Beyond(schemagen.FieldOf(schema, path), side)
		Expect(has).To(Equal(expected != nil))
		if expected != nil {
			Expect(value).To(Equal(expected))
		}
	},
		Entry("a number", "count", schemagen.Least, int64(0)),
		Entry("a number", "count", schemagen.Most, int64(6)),
		Entry("a text", "name", schemagen.Most, "xxxxxxxxx"),
		Entry("a quantity", "size", schemagen.Least, "1"),
		Entry("a duration", "period", schemagen.Most, "24h1h"),
		Entry("a list", "items", schemagen.Least, []any{}),
		Entry("but not without a limit", "text", schemagen.Most, nil),
		Entry("nor for a switch", "enabled", schemagen.Most, nil),
	)

	It("finds fields in lists and maps", func() {
		Expect(schemagen.FieldOf(schema, "items[].key")).To(HaveField("Type", "string"))
		Expect(schemagen.FieldOf(schema, "labels{}")).To(HaveField("Type", "string"))
		Expect(schemagen.FieldOf(schema, "items[].value")).To(BeNil())
		Expect(schemagen.FieldOf(schema, "count[]")).To(BeNil())
	})
})

var _ = Describe("A deck", func() {
	It("deals all points to the objects, and again what they do not reach", func() {
		var points []schemagen.Point
		for i := range 25 {
			points = append(points, schemagen.Point{Path: fmt.Sprint(i), Value: schemagen.Present})
		}
		deck, reached, failures := schemagen.NewDeck(rand.New(rand.NewSource(1)), points, 10), map[schemagen.Point]struct{}{}, 0
		for range 10 {
			dealt := deck.Deal(1)
			Expect(len(dealt)).To(BeNumerically("<=", 5))
			now := map[schemagen.Point]struct{}{}
			for i, point := range dealt {
				if i == 0 && failures < 3 {
					failures++ // the object does not reach it
					continue
				}
				now[point], reached[point] = struct{}{}, struct{}{}
			}
			deck.Return(dealt, now)
		}
		Expect(reached).To(HaveLen(25))
	})
})
