// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	resourcemanagerclient "github.com/gardener/gardener/pkg/resourcemanager/client"
	"github.com/gardener/gardener/pkg/utils"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
)

var _ = Describe("The clients of the embedded resource manager", func() {
	var (
		ctx  = context.Background()
		live client.Client
		none refusing
	)

	BeforeEach(func() {
		live = fakeclient.NewClientBuilder().WithScheme(resourcemanagerclient.CombinedScheme).WithStatusSubresource(&resourcesv1alpha1.ManagedResource{}).Build()
		none = refusing{Client: live}
	})

	configMap := func(namespace, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid", OwnerReferences: owners}}
	}
	ownedBy := func(kind, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "other", Controller: new(true)}
	}
	beForbidden := MatchError(apierrors.IsForbidden, "is forbidden")
	beNotFound := MatchError(apierrors.IsNotFound, "is not found")

	It("permit all kinds that the operator renders, and no other", func() {
		addedObject := regexp.MustCompile(`(?m)^\+apiVersion: (\S+)\n\+kind: (\S+)$`) // in a golden file that is a difference
		kinds := map[schema.GroupKind]bool{}
		goldens, err := filepath.Glob("../../component/etcd/testdata/*.golden.yaml*")
		Expect(err).NotTo(HaveOccurred())
		for _, golden := range goldens {
			content, err := os.ReadFile(golden) // #nosec G304 -- a file of the repository
			Expect(err).NotTo(HaveOccurred())
			for _, added := range addedObject.FindAllStringSubmatch(string(content), -1) {
				kinds[schema.FromAPIVersionAndKind(added[1], added[2]).GroupKind()] = true
			}
			if filepath.Ext(golden) == ".diff" {
				continue
			}
			for document := range strings.SplitSeq("\n"+string(content), "\n---\n") {
				object := metav1.TypeMeta{}
				Expect(yaml.Unmarshal([]byte(document), &object)).To(Succeed())
				if object.Kind != "" {
					kinds[object.GroupVersionKind().GroupKind()] = true
				}
			}
		}
		Expect(kinds).NotTo(BeEmpty())
		for kind := range kinds {
			Expect(isRendered(kind) || kind.Kind == "Lease").To(BeTrue(), "%s", kind)
		}
		for kind := range renderedObjects {
			Expect(kinds).To(HaveKey(kind))
		}
	})

	It("know no other kind, so that no other kind is watched", func() {
		mapper := renderedKinds{RESTMapper: testrestmapper.TestOnlyStaticRESTMapper(resourcemanagerclient.CombinedScheme)}
		_, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, "v1")
		Expect(err).NotTo(HaveOccurred())
		_, err = mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "v1")
		Expect(meta.IsNoMatchError(err)).To(BeTrue())
		_, err = mapper.RESTMappings(schema.GroupKind{Group: "monitoring.coreos.com", Kind: "Prometheus"})
		Expect(meta.IsNoMatchError(err)).To(BeTrue())
	})

	Describe("for ManagedResources and payloads", func() {
		var c manifests

		BeforeEach(func() {
			data := map[string][]byte{"a": []byte("rendered")}
			Expect(live.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "latest"}, Data: data})).To(Succeed())
			c = manifests{managedResources: managedResources{none}, live: live, namespace: "demo", etcd: etcdWith("1"), latest: rendering{etcd: "1", secret: "latest", checksum: utils.ComputeSecretChecksum(data)}}
		})

		It("return the payload that the operator rendered, and no other Secret", func() {
			secret := &corev1.Secret{}
			Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "latest"}, secret)).To(Succeed())
			Expect(secret.Data).To(HaveKey("a"))
			Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "credentials"}, secret)).To(beForbidden)
			Expect(c.Get(ctx, client.ObjectKey{Namespace: "other", Name: "latest"}, secret)).To(beForbidden)

			secret.Data["a"] = []byte("forged")
			Expect(live.Update(ctx, secret)).To(Succeed())
			Expect(c.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(MatchError(ContainSubstring("delete Secret demo/latest")))
			Expect(secret.Data).To(BeEmpty())
		})

		It("remove what a user has written into a ManagedResource, also after a write", func() {
			mr := managedResource()
			mr.Spec.InjectLabels, mr.Spec.DeletePersistentVolumeClaims = map[string]string{"a": "b"}, new(true)
			mr.Spec.Equivalences, mr.Spec.ForceOverwriteLabels, mr.Spec.ForceOverwriteAnnotations = [][]metav1.GroupKind{{}}, new(true), new(true)
			reference := func(apiVersion, kind, namespace string) resourcesv1alpha1.ObjectReference {
				return resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: "x"}}
			}
			mr.Status.Resources = []resourcesv1alpha1.ObjectReference{
				reference("v1", "ConfigMap", "demo"), reference("v1", "ConfigMap", "other"), reference("v1", "Secret", "demo"), reference("rbac.authorization.k8s.io/v1", "ClusterRole", ""),
			}
			Expect(live.Create(ctx, mr)).To(Succeed())
			expectSanitized := func(got *resourcesv1alpha1.ManagedResource) {
				GinkgoHelper()
				Expect(got.Spec).To(Equal(managedResource().Spec))
				Expect(got.Status.Resources).To(ConsistOf(reference("v1", "ConfigMap", "demo")))
			}

			got := &resourcesv1alpha1.ManagedResource{}
			Expect(c.Get(ctx, client.ObjectKeyFromObject(mr), got)).To(Succeed())
			expectSanitized(got)
			before := got.DeepCopy()
			got.Finalizers = []string{"example.com/finalizer"}
			Expect(c.Patch(ctx, got, client.MergeFrom(before))).To(Succeed())
			expectSanitized(got)
			Expect(c.Status().Update(ctx, got)).To(Succeed())
			expectSanitized(got)
			Expect(live.Get(ctx, client.ObjectKeyFromObject(mr), mr)).To(Succeed())
			Expect(mr.Spec.InjectLabels).NotTo(BeEmpty(), "the resource manager does not change the spec")
		})

		It("write nothing else", func() {
			Expect(live.Create(ctx, managedResource())).To(Succeed())
			Expect(c.Update(ctx, managedResource())).To(beForbidden)
			Expect(c.Delete(ctx, managedResource())).To(beForbidden)
			Expect(c.Create(ctx, configMap("demo", "x"))).To(beForbidden)
			Expect(c.Patch(ctx, configMap("demo", "x"), client.MergeFrom(configMap("demo", "x")))).To(beForbidden)
			Expect(c.List(ctx, &corev1.SecretList{})).To(beForbidden)
			other := managedResource()
			other.Name = "other"
			Expect(live.Create(ctx, other)).To(Succeed())
			Expect(c.Get(ctx, client.ObjectKeyFromObject(other), other)).To(beNotFound)
		})
	})

	Describe("for the objects of an Etcd", func() {
		etcd := etcdWith("1")
		owner := helper.OwnerReference(etcd)
		var c target

		BeforeEach(func() { c = target{refusing: none, live: live, etcd: etcd} })

		DescribeTable("create objects only in its namespace and of the kinds that the operator renders",
			func(object client.Object, permitted bool) {
				if permitted {
					Expect(c.Create(ctx, object)).To(Succeed())
				} else {
					Expect(c.Create(ctx, object)).To(beForbidden)
				}
			},
			Entry("a ConfigMap", configMap("demo", "x"), true),
			Entry("a Role", &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "x"}}, true),
			Entry("not a ConfigMap in another namespace", configMap("other", "x"), false),
			Entry("not a Secret", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "x"}}, false),
			Entry("not a pod", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "x"}}, false),
			Entry("not a ClusterRoleBinding", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, false),
		)

		DescribeTable("update and delete only what belongs to the Etcd",
			func(object *corev1.ConfigMap, updated bool, deleted bool) {
				Expect(live.Create(ctx, object)).To(Succeed())
				desired := object.DeepCopy()
				desired.Data, desired.OwnerReferences = map[string]string{"a": "b"}, []metav1.OwnerReference{owner}
				if updated {
					Expect(c.Update(ctx, desired.DeepCopy(), client.DryRunAll)).To(Succeed())
				} else {
					Expect(c.Update(ctx, desired)).To(beForbidden)
				}
				if deleted {
					Expect(c.Delete(ctx, desired)).To(Succeed())
				} else {
					Expect(c.Delete(ctx, desired)).NotTo(Succeed())
					Expect(live.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
				}
			},
			Entry("an object that it owns", configMap("demo", "x", owner), true, true),
			Entry("an object of a previous Etcd of its name", configMap("demo", "x", helper.OwnerReference(etcdWith("0"))), true, true),
			Entry("an object that has lost its owner is updated only", configMap("demo", "x"), true, false),
			Entry("not an object of another controller", configMap("demo", "x", ownedBy("Deployment", "main")), false, false),
			Entry("not an object in another namespace", configMap("other", "x", owner), false, false),
		)

		It("read an object that has lost its labels from the API server", func() {
			Expect(live.Create(ctx, configMap("demo", "x"))).To(Succeed())
			empty := fakeclient.NewClientBuilder().WithScheme(resourcemanagerclient.CombinedScheme).Build()
			c.refusing = refusing{Client: empty}
			Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "x"}, &corev1.ConfigMap{})).To(Succeed())
		})

		It("find no autoscaler, and read nothing else", func() {
			Expect(live.Create(ctx, &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "x"}})).To(Succeed())
			scalers := &autoscalingv1.HorizontalPodAutoscalerList{}
			Expect(c.List(ctx, scalers)).To(Succeed())
			Expect(scalers.Items).To(BeEmpty())
			Expect(c.List(ctx, &corev1.PersistentVolumeClaimList{})).To(beForbidden)
			Expect(c.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace("demo"))).To(beForbidden)
			Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "x"}, &corev1.Secret{})).To(beForbidden)
			Expect(c.Patch(ctx, configMap("demo", "x"), client.MergeFrom(configMap("demo", "x")))).To(beForbidden)
			Expect(c.Status().Update(ctx, configMap("demo", "x"))).To(beForbidden)
		})
	})

	It("for health read only objects of the rendered kinds, and write nothing else than status", func() {
		c := health{managedResources{none}}
		Expect(live.Create(ctx, configMap("demo", "x"))).To(Succeed())
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "x"}, &corev1.ConfigMap{})).To(Succeed())
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "x"}, &corev1.Secret{})).To(beForbidden)
		Expect(c.List(ctx, &corev1.PodList{})).To(beForbidden)
		Expect(c.Update(ctx, configMap("demo", "x"))).To(beForbidden)
	})

	It("for garbage collection find only payloads of the operator", func() {
		c := collector{none}
		secret := func(name string, labels map[string]string) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Labels: labels}}
		}
		Expect(live.Create(ctx, secret("foreign", map[string]string{"collectable": "true"}))).To(Succeed())
		Expect(live.Create(ctx, secret("payload", map[string]string{"collectable": "true", "origin": "gardener-extension-etcd-druid"}))).To(Succeed())
		Expect(live.Create(ctx, configMap("demo", "x"))).To(Succeed())
		listed := func(kind string) []string {
			list, names := &metav1.PartialObjectMetadataList{}, []string{}
			list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
			Expect(c.List(ctx, list, client.MatchingLabels{"collectable": "true"})).To(Succeed())
			for _, item := range list.Items {
				names = append(names, item.Name)
			}

			return names
		}
		Expect(listed("SecretList")).To(ConsistOf("payload"))
		Expect(listed("ConfigMapList")).To(BeEmpty())
		Expect(c.Delete(ctx, configMap("demo", "x"))).To(beForbidden)
		Expect(c.Delete(ctx, secret("payload", nil))).To(Succeed())
	})
})
