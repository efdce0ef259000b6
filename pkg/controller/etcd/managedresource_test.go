// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/andybalholm/brotli"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/payload"
)

var _ = Describe("The manifests of a ManagedResource", func() {
	// documents decodes manifests like gardener-resource-manager.
	documents := func(manifests []byte) []map[string]any {
		GinkgoHelper()
		var all []map[string]any
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 1024)
		for {
			var document map[string]any
			err := decoder.Decode(&document)
			if errors.Is(err, io.EOF) {
				return all
			}
			Expect(err).NotTo(HaveOccurred())
			all = append(all, document)
		}
	}

	It("contain each text as it is", func() {
		texts := map[string]string{"tab": "\tfirst line\nsecond line\n", "lines": "a\r\n\u0085b\u2028c", "controls": "\x7f\u0080\ufeff\uffff\U000e0001😀", "html": "<a&b>", "document": "---\n{", "escapes": `\n"$(`}
		manifests, err := payload.Encode(scheme, []client.Object{
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: texts}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Data: texts}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
		})
		Expect(err).NotTo(HaveOccurred())
		decoded := documents(manifests)
		Expect(decoded).To(HaveLen(3))
		for key, text := range texts { // the decoder reads the first document as JSON, and the others as YAML
			Expect(decoded[0]["data"]).To(HaveKeyWithValue(key, text))
			Expect(decoded[1]["data"]).To(HaveKeyWithValue(key, text))
		}
	})

	It("are refused if a number would become another one", func() {
		toleration := func(seconds int64) client.Object {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			pod.Spec.Tolerations = []corev1.Toleration{{TolerationSeconds: new(int64(1))}, {TolerationSeconds: &seconds}}

			return pod
		}
		_, err := payload.Encode(scheme, []client.Object{toleration(1 << 53)})
		Expect(err).NotTo(HaveOccurred())
		_, err = payload.Encode(scheme, []client.Object{toleration(1<<53 + 1)})
		Expect(err).To(MatchError(And(HavePrefix("/v1, Kind=Pod/a: spec.tolerations[1].tolerationSeconds: "), HaveSuffix("use one between -9007199254740992 and 9007199254740992"))))
	})

	It("are those of the library", func(ctx context.Context) {
		k := reconciledCluster(3)
		names := map[client.Object]string{
			&appsv1.StatefulSet{}: "main", &corev1.Service{}: "main-client", &corev1.ConfigMap{}: "main-config", &corev1.ServiceAccount{}: "main",
			&policyv1.PodDisruptionBudget{}: "main", &rbacv1.Role{}: "druid.gardener.cloud:etcd:main",
		}
		objects := []client.Object{&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "texts", Annotations: map[string]string{"1": "1", "12": "0x1", "2": "1e3", "1_000": "~"}},
			Data:       map[string]string{"yes": "no", "lines": "a\n\n b: c \n---\n", "empty": "", "quotes": `"'`, "colon": "a: b #c", "tab": "\t"},
		}}
		for object, name := range names {
			must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: k.Etcd.Namespace, Name: name}, object))
			objects = append(objects, object)
		}
		manifests, err := payload.Encode(scheme, objects)
		Expect(err).NotTo(HaveOccurred())

		registry := managedresources.NewRegistry(scheme, serializer.NewCodecFactory(scheme),
			jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme, jsonserializer.SerializerOptions{Yaml: true}))
		data, err := registry.AddAllAndSerialize(objects...)
		Expect(err).NotTo(HaveOccurred())
		expected, err := io.ReadAll(brotli.NewReader(bytes.NewReader(data["data.yaml.br"])))
		Expect(err).NotTo(HaveOccurred())
		Expect(documents(manifests)).To(And(HaveLen(len(objects)), ConsistOf(documents(expected))))

		slices.Reverse(objects)
		Expect(payload.Encode(scheme, objects)).To(Equal(manifests), "the order of the objects does not matter")
	})
})
