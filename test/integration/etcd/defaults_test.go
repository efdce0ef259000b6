// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/drift"
	"github.com/gardener/gardener-extension-etcd-druid/test/golden"
)

// goldens returns one table entry for each golden file of the rendered manifests.
func goldens() []any {
	files, err := golden.Paths(filepath.Join("..", "..", "..", "pkg", "component", "etcd", "testdata"))
	if err != nil {
		panic(err)
	}
	var entries []any
	for _, file := range files {
		entries = append(entries, Entry(filepath.Base(file), file))
	}
	return entries
}

var _ = DescribeTable("Defaulting by the API server does not cause drift", append([]any{func(ctx SpecContext, file string) {
	namespace, compared := env.Namespace(ctx, "defaults"), 0
	for _, rendered := range objectsIn(file) {
		if _, is := rendered.(*coordinationv1.Lease); is { // the operator writes leases itself
			continue
		}
		rendered.SetNamespace(namespace)
		live := rendered.DeepCopyObject().(client.Object)
		Expect(env.Client.Create(ctx, live)).To(Succeed())
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
		paths, err := drift.Differences(rendered, live)
		Expect(err).NotTo(HaveOccurred())
		Expect(paths).To(BeEmpty(), "%T %s", live, live.GetName())
		compared++
	}
	Expect(compared).To(BeNumerically(">=", 2))
}}, goldens()...)...)

func objectsIn(file string) []client.Object {
	GinkgoHelper()
	content, err := golden.Read(file)
	Expect(err).NotTo(HaveOccurred())
	decoder, reader := serializer.NewCodecFactory(app.NewScheme()).UniversalDeserializer(), utilyaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(content)))
	defer func() { Expect(reader.Close()).To(Succeed()) }()
	var objects []client.Object
	for buffer := make([]byte, len(content)); ; {
		size, err := reader.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		if len(bytes.TrimSpace(bytes.TrimPrefix(buffer[:size], []byte("---")))) == 0 {
			continue
		}
		obj, _, err := decoder.Decode(buffer[:size], nil, nil)
		Expect(err).NotTo(HaveOccurred())
		objects = append(objects, obj.(client.Object))
	}
}
