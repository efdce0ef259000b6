// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package randomspec generates objects of the operator's API at the limits of their CustomResourceDefinitions. Most of them are valid. Package
// schemagen finds the fields and the limits. This package knows the formats of texts, and the rules between fields.
//
// What may not live here: a list of the fields, a clock, a random source of its own, and expectations.
package randomspec

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
	"github.com/gardener/gardener-extension-etcd-druid/test/schemagen"
)

// Kind is a kind of the operator's API.
type Kind struct {
	name, crd string
	names     []string
	rules     []rule
}

// The kinds.
var (
	Etcd = Kind{
		name: "Etcd", crd: "etcds.druid.gardener.cloud", rules: etcdRules,
		names: []string{"a", "main", "etcd-main", strings.Repeat("e", 46), strings.Repeat("e", 52)},
	}
	CopyBackupsTask = Kind{
		name: "EtcdCopyBackupsTask", crd: "etcdcopybackupstasks.druid.gardener.cloud", rules: copyRules,
		names: []string{"a", "1.copy", strings.Repeat("c", 56)},
	}
	OpsTask = Kind{
		name: "EtcdOpsTask", crd: "etcdopstasks.druid.gardener.cloud", rules: opsRules,
		names: []string{"a", "1.task", strings.Repeat("t", 253)},
	}
)

// Schema returns the schema of the spec.
func (k Kind) Schema() (*schemagen.Schema, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(crds.All()[k.crd]), crd); err != nil {
		return nil, fmt.Errorf("decoding the CustomResourceDefinition %s: %w", k.crd, err)
	}

	return schemagen.FieldOf(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, "spec"), nil
}

const (
	// riskyEvery is the interval of specs with several points that make most specs invalid.
	riskyEvery = 6
	// invalidEvery is the interval of specs with a value beyond its limit, or in a wrong format.
	invalidEvery = 20
	// pointsOfSpec is the least number of points of the schema that one spec is generated for.
	pointsOfSpec = 3
	// frequency is the probability of a field that no point requests.
	frequency = 0.03
)

// Generate returns a number of objects of the kind. They reach all points of the schema that it returns as missing otherwise.
func (k Kind) Generate(random *rand.Rand, count int) (objects []map[string]any, missing []schemagen.Point, err error) {
	schema, err := k.Schema()
	if err != nil {
		return nil, nil, err
	}
	points := schemagen.PointsOf("spec", schema)
	isRisky := func(point schemagen.Point) bool { return isRisky(point, schema) }
	risky := slices.DeleteFunc(slices.Clone(points), func(point schemagen.Point) bool { return !isRisky(point) })
	others := slices.DeleteFunc(slices.Clone(points), isRisky)
	riskyDeck := schemagen.NewDeck(random, risky, (count+riskyEvery-1)/riskyEvery)
	deck := schemagen.NewDeck(random, others, count-(count+riskyEvery-1)/riskyEvery)
	generator := &schemagen.Generator{Random: random, Formats: formats, Frequency: frequency}
	all := map[schemagen.Point]struct{}{}
	for i := range count {
		dealer := deck
		if i%riskyEvery == 0 {
			dealer = riskyDeck
		}
		dealt := dealer.Deal(pointsOfSpec)
		object, err := k.object(generator, schema, dealt, i)
		if err != nil {
			return nil, nil, err
		}
		reached := schemagen.Reached("spec", schema, object["spec"])
		dealer.Return(dealt, reached)
		for point := range reached {
			all[point] = struct{}{}
		}
		objects = append(objects, object)
	}
	for _, point := range points {
		if _, is := all[point]; !is {
			missing = append(missing, point)
		}
	}

	return objects, missing, nil
}

// isRisky is true for a point that makes most specs invalid, for example an empty text or a reference without a name.
func isRisky(point schemagen.Point, schema *schemagen.Schema) bool {
	at := schemagen.FieldOf(&schemagen.Schema{Properties: map[string]schemagen.Schema{"spec": *schema}}, point.Path)
	isEmpty := point.Value == schemagen.Zero && (at.Type == "string" || at.Type == "integer")
	isIncomplete := strings.Contains(point.Path, "SecretRef") && (point.Value == schemagen.Zero || point.Value == schemagen.Absent)

	return isEmpty || isIncomplete || strings.Contains(point.Path, ".claims[]")
}

// object returns an object that reaches the points, as far as the rules between fields allow it.
func (k Kind) object(generator *schemagen.Generator, schema *schemagen.Schema, points []schemagen.Point, index int) (map[string]any, error) {
	spec, err := generator.Value("spec", schema, points)
	if err != nil {
		return nil, err
	}
	random := generator.Random
	object := map[string]any{
		"apiVersion": druidv1alpha1.SchemeGroupVersion.String(), "kind": k.name, "spec": runtime.DeepCopyJSONValue(spec),
		"metadata": map[string]any{
			"name": k.names[random.Intn(len(k.names))], "namespace": "default",
			"annotations": map[string]any{"example.com/text": schemagen.AnyText(random, 0)},
			"labels":      map[string]any{labelKey(random, 0): labelValue(random, 0)},
		},
	}
	for _, rule := range k.rules {
		rule(random, object, keepsOf(points))
	}
	if index%invalidEvery == 1 {
		k.invalidate(random, schema, object)
	}

	return object, nil
}
