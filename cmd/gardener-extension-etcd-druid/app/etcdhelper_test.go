// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"os"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

var _ = Describe("the image of etcd-helper", func() {
	ctx := context.Background()

	ownPod := func(images ...string) *corev1.Pod {
		GinkgoHelper()
		name, err := os.Hostname()
		Expect(err).NotTo(HaveOccurred())
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: name}}
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		for _, image := range images {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Image: image})
		}

		return pod
	}
	found := func(config configv1alpha1.EtcdHelperConfiguration, objects ...client.Object) target.EtcdHelper {
		return app.EtcdHelper(ctx, fakeclient.NewClientBuilder().WithScheme(app.NewScheme()).WithObjects(objects...).Build(), logr.Discard(), config)
	}

	BeforeEach(func() { GinkgoT().Setenv("LEADER_ELECTION_NAMESPACE", "garden") })

	It("should be that of the configuration", func() {
		config := configv1alpha1.EtcdHelperConfiguration{Image: "registry.example.com/operator:v1", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "own"}}}
		Expect(found(config, ownPod("other"))).To(Equal(target.EtcdHelper{Image: "registry.example.com/operator:v1", PullSecrets: []corev1.LocalObjectReference{{Name: "own"}}}))
	})

	It("should be that of the pod if gardenlet runs the operator with a configuration that does not know the image", func() {
		Expect(found(configv1alpha1.EtcdHelperConfiguration{}, ownPod("mirror.example.com/operator:v1"))).To(Equal(target.EtcdHelper{
			Image: "mirror.example.com/operator:v1", PullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
		}))
	})

	It("should be unknown outside of a pod, or in a pod with several containers", func() {
		Expect(found(configv1alpha1.EtcdHelperConfiguration{}).Image).To(BeEmpty())
		Expect(found(configv1alpha1.EtcdHelperConfiguration{}, ownPod("a", "b")).Image).To(BeEmpty())
	})
})
