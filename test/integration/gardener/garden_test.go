// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardener_test

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeGarden writes the Garden of the runtime cluster, with the state of the CA rotation. It deletes the Garden at the
// end of the spec.
func (s *testEtcd) writeGarden(ctx context.Context, phase gardencorev1beta1.CredentialsRotationPhase, initiatedAt *time.Time) {
	GinkgoHelper()
	garden := &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: "garden"}}
	created, err := createOrUpdate(ctx, garden, func() {
		garden.Spec.RuntimeCluster.Ingress.Controller.Kind = "nginx"
		garden.Spec.RuntimeCluster.Networking.Pods = []string{"10.1.0.0/16"}
		garden.Spec.RuntimeCluster.Networking.Services = []string{"10.2.0.0/16"}
		garden.Spec.VirtualCluster.Gardener.ClusterIdentity = "test"
		garden.Spec.VirtualCluster.Kubernetes.Version = "1.34.0"
		garden.Spec.VirtualCluster.Maintenance.TimeWindow = gardencorev1beta1.MaintenanceTimeWindow{Begin: "010000+0000", End: "020000+0000"}
		garden.Spec.VirtualCluster.Networking.Services = []string{"10.3.0.0/16"}
	})
	Expect(err).NotTo(HaveOccurred())
	if created {
		DeferCleanup(func(ctx SpecContext) { Expect(env.Client.Delete(ctx, garden)).To(Succeed()) })
	}
	if initiatedAt != nil {
		garden.Status.Credentials = &operatorv1alpha1.Credentials{Rotation: &operatorv1alpha1.CredentialsRotation{
			CertificateAuthorities: &gardencorev1beta1.CARotation{Phase: phase, LastInitiationTime: &metav1.Time{Time: *initiatedAt}},
		}}
		Expect(env.Client.Status().Update(ctx, garden)).To(Succeed())
	}
}

// delete deletes the Etcd and waits until it is gone.
func (s *testEtcd) delete(ctx SpecContext) {
	GinkgoHelper()
	Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
	Eventually(func() error { return env.Client.Get(ctx, client.ObjectKeyFromObject(s.etcd), s.etcd) }).Should(MatchError(apierrors.IsNotFound, "is not found"))
}
